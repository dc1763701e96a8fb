// varifocal load, varifocal unload: adds a model to a running daemon, or removes one.
#include <filesystem>
#include <ostream>
#include <system_error>

#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/models.h"
#include "client/rows.h"
#include "client/usage.h"
#include "client/verb.h"
#include "eval_tasks/checkpoint_place.h"

namespace varifocal::client {
namespace {

class Load : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags
        .AddPositional(
            "NAME=DIR", &model_,
            "the model's name, and the checkpoint directory on the daemon's machine; DIR@adapter=DIR2: with a LoRA "
            "adapter merged into its weights; DIR@cuda:0,1: a copy on each of these GPUs")
        .Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    const size_t equals = model_.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == model_.size()) {
      return UsageError(model_, ": must be NAME=DIR, such as focal=models/focal-constant.");
    }
    v1::LoadModelRequest request;
    request.set_model_id(model_.substr(0, equals));
    // The daemon may have another working directory: directories that exist here are made absolute.
    CheckpointPlace place = CheckpointOf(model_.substr(equals + 1));
    for (std::string* directory : {&place.directory, &place.adapter}) {
      std::error_code error;
      if (std::filesystem::is_directory(*directory, error)) *directory = std::filesystem::absolute(*directory).string();
    }
    request.set_directory(place.ToString());
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    ASSIGN_OR_RETURN(const v1::Model model, Call(daemon->inference(), &v1::Inference::Stub::LoadModel, request));
    if (console.format != Format::kText) {
      return DoneOr(PrintJson(console, {{"name", ModelShortName(model.name())}, {"directory", model.directory()}}));
    }
    console.out << ModelShortName(model.name()) << " is served: " << WithThousands(model.parameter_count())
                << " parameters, " << HumanBytes(model.weights_bytes()) << " of weights, " << model.attention_label()
                << ".\n";
    return ExitCode::kDone;
  }

 private:
  std::string model_;
};

class Unload : public Command {
 public:
  void AddFlags(FlagSet& flags) override { flags.AddPositional("NAME", &model_, "the model").Required(); }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::UnloadModelRequest request;
    request.set_name(ModelResourceOf(model_));
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    RETURN_IF_ERROR(Call(daemon->inference(), &v1::Inference::Stub::UnloadModel, request).status());
    if (console.format != Format::kText) return DoneOr(PrintJson(console, {{"name", ModelShortName(request.name())}}));
    console.out << ModelShortName(request.name()) << " is no longer served; its memory is free.\n";
    return ExitCode::kDone;
  }

 private:
  std::string model_;
};

}  // namespace

constinit const Verb kLoadVerb = {
    .name = "load",
    .group = "Models",
    .summary = "load a checkpoint into a running daemon",
    .about =
        R"(Loads the checkpoint, as --model does when the daemon starts, and returns when it is served. The name must be
unused. Later starts of the daemon with the same --db load it again, until it is unloaded.)",
    .examples = "varifocal load focal=models/focal-constant",
    .make = &Make<Load>,
    .daemon = DaemonUse::kAlways,
};

constinit const Verb kUnloadVerb = {
    .name = "unload",
    .group = "Models",
    .summary = "unload a model of a running daemon",
    .about = "Frees its weights and cache. A model that a queued or running job uses is refused.",
    .examples = "varifocal unload focal",
    .make = &Make<Unload>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client

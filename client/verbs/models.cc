// varifocal models: what the daemon serves.
#include <iterator>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/embedded.h"
#include "client/models.h"
#include "client/report/data/model_text.h"
#include "client/rows.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

Json CopiesJson(const v1::Model& model) {
  Json copies = Json::array();
  for (const v1::ModelCopy& copy : model.copies()) {
    copies.push_back({{"device", copy.device()}, {"fault", copy.fault().empty() ? Json() : Json(copy.fault())}});
  }
  return copies;
}

// "cuda:0, cuda:1 (lost)"; "" of a model with one copy.
std::string CopiesText(const v1::Model& model) {
  return absl::StrJoin(model.copies(), ", ", [](std::string* out, const v1::ModelCopy& copy) {
    absl::StrAppend(out, copy.device(), copy.fault().empty() ? "" : " (lost)");
  });
}

Json ModelJson(const v1::Model& model) {
  Json row = {
      {"name", ModelShortName(model.name())},
      {"state", absl::AsciiStrToLower(v1::Model::State_Name(model.state()))},
      {"directory", model.directory()},
      {"architecture", model.architecture()},
      {"weights_sha256", model.weights_sha256()},
      {"tokenizer_sha256", model.tokenizer_sha256()},
      {"function_sha256", model.function_sha256()},
      {"function", ParseJson(model.function_json()).value_or(Json())},
      {"parameter_count", model.parameter_count()},
      {"layer_count", model.layer_count()},
      {"vocabulary_size", model.vocabulary_size()},
      {"context_length_max", model.context_length_max()},
      {"trained_context_length", model.trained_context_length() == 0 ? Json() : Json(model.trained_context_length())},
      {"training_arm", model.training().arm().empty() ? Json() : Json(model.training().arm())},
      {"training_seed", model.training().has_seed() ? Json(model.training().seed()) : Json()},
      {"training_tokens", model.training().tokens() == 0 ? Json() : Json(model.training().tokens())},
      {"attention", model.attention_label()},
      {"attention_json", model.attention_json()},
      {"dtype", model.dtype()},
      {"weights_from", model.weights_from().empty() ? Json() : Json(model.weights_from())},
      {"backend", model.backend()},
      {"isa", model.isa()},
      {"weights_bytes", model.weights_bytes()},
      {"kv_cache_bytes_per_token", model.kv_cache_bytes_per_token()},
      {"chat_template_sha256", model.chat_template_sha256().empty() ? Json() : Json(model.chat_template_sha256())},
      {"sampling_defaults", model.sampling_defaults()},
      {"kv_cache_bytes", model.kv_cache_bytes()},
      {"kv_cache_bytes_in_use", model.kv_cache_bytes_in_use()},
      {"buffer_bytes", model.buffer_bytes()},
      {"memory_total_bytes", model.memory_total_bytes()},
      {"memory_free_bytes", model.memory_free_bytes()},
      {"weights_shared_bytes", model.weights_shared_bytes()},
      {"copies", CopiesJson(model)},
      {"fault", model.fault().empty() ? Json() : Json(model.fault())}};
  return row;
}

class ShowModels : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("NAME", &name_, "only this model");
    flags.Add("supported", &supported_, "instead: the checkpoint types that can be loaded; needs no daemon");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    if (supported_) return ShowSupported(console);
    ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    const auto count = [](const char* key) {
      return [key](const Json& row) { return row.at(key).is_null() ? "?" : WithThousands(row.at(key).get<int64_t>()); };
    };
    Rows rows(
        console,
        {{.key = "name", .title = "model"},
         {.key = "state", .title = "state"},
         {.key = "architecture", .title = "architecture"},
         {.key = "parameter_count", .title = "parameters", .right_aligned = true, .text = count("parameter_count")},
         {.key = "attention", .title = "attention"},
         {.key = "trained_context_length",
          .title = "trained to",
          .right_aligned = true,
          .text = count("trained_context_length")},
         {.key = "context_length_max", .title = "at most", .right_aligned = true, .text = count("context_length_max")},
         {.key = "dtype", .title = "dtype"},
         {.key = "backend",
          .title = "backend",
          .text =
              [](const Json& row) {
                return absl::StrCat(row.at("backend").get<std::string>(), " ", row.at("isa").get<std::string>());
              }},
         {.key = "weights_bytes",
          .title = "weights",
          .right_aligned = true,
          .text =
              [](const Json& row) {
                const int64_t shared_bytes = row.at("weights_shared_bytes").get<int64_t>();
                return absl::StrCat(HumanBytes(row.at("weights_bytes").get<int64_t>()),
                                    shared_bytes > 0 ? absl::StrCat(", ", HumanBytes(shared_bytes), " shared") : "",
                                    row.at("weights_from").is_null()
                                        ? ""
                                        : absl::StrCat(", from ", row.at("weights_from").get<std::string>()));
              }},
         {.key = "kv_cache_bytes",
          .title = "cache in use",
          .right_aligned = true,
          .text =
              [](const Json& row) {
                return absl::StrCat(HumanBytes(row.at("kv_cache_bytes_in_use").get<int64_t>()), " of ",
                                    HumanBytes(row.at("kv_cache_bytes").get<int64_t>()));
              }},
         {.key = "directory", .title = "directory"},
         {.key = "weights_sha256"},
         {.key = "tokenizer_sha256"},
         {.key = "function_sha256"},
         {.key = "training_arm"},
         {.key = "training_seed"},
         {.key = "training_tokens"}});
    int64_t free_bytes = 0, total_bytes = 0;
    std::string faults, notes;
    const auto add = [&](const v1::Model& model) {
      if (!model.fault().empty()) absl::StrAppend(&faults, ModelShortName(model.name()), ": ", model.fault(), ".\n");
      if (!model.copies().empty()) {
        absl::StrAppend(&notes, ModelShortName(model.name()), ": a copy on each of ", CopiesText(model), ".\n");
      }
      for (const v1::ModelCopy& copy : model.copies()) {
        if (copy.fault().empty() || !model.fault().empty()) continue;
        absl::StrAppend(&faults, ModelShortName(model.name()), ": its copy on ", copy.device(),
                        " is lost until varifocald starts again: ", copy.fault(), ".\n");
      }
      if (model.state() == v1::Model::READY && model.tokenizer_sha256().empty()) {
        absl::StrAppend(&faults, ModelShortName(model.name()), ": there is no tokenizer.json in ", model.directory(),
                        ", so it takes token ids alone, no text and no job.\n");
      }
      const std::string note =
          report::LayersWithoutAttentionNote(ParseJson(model.function_json()).value_or(Json::object()));
      if (!note.empty()) absl::StrAppend(&notes, ModelShortName(model.name()), ": ", note, ".\n");
      if (model.memory_total_bytes() > 0) {
        free_bytes = model.memory_free_bytes();
        total_bytes = model.memory_total_bytes();
      }
      return rows.Add(ModelJson(model));
    };
    if (!name_.empty()) {
      v1::GetModelRequest request;
      request.set_name(ModelResourceOf(name_));
      ASSIGN_OR_RETURN(const v1::Model model, Call(daemon->inference(), &v1::Inference::Stub::GetModel, request));
      RETURN_IF_ERROR(add(model));
    } else {
      RETURN_IF_ERROR(EachModel(*daemon, add));
    }
    RETURN_IF_ERROR(rows.Finish("The daemon serves no model; start it with --model=NAME=DIR."));
    if (console.format == Format::kText && total_bytes > 0) {
      console.out << "Of " << HumanBytes(total_bytes) << " of memory " << HumanBytes(free_bytes)
                  << " are free and reserved by no model.\n";
    }
    if (console.format == Format::kText) console.out << faults << notes;
    return ExitCode::kDone;
  }

 private:
  absl::StatusOr<ExitCode> ShowSupported(Console& console) const {
    if (!name_.empty()) {
      return InvalidArgument("--supported lists checkpoint types, and \"", name_,
                             "\" names a model; give one of the two");
    }
    Rows rows(console, {{.key = "model_type", .title = "model_type"},
                        {.key = "architecture", .title = "architecture"},
                        {.key = "text_types", .title = "text part"},
                        {.key = "examples", .title = "public examples"},
                        {.key = "verified_with"},
                        {.key = "refused", .title = "refused"}});
    for (Json& row : SupportedCheckpointRows()) RETURN_IF_ERROR(rows.Add(std::move(row)));
    return DoneOr(rows.Finish());
  }

  std::string name_;
  bool supported_ = false;
};

}  // namespace

constinit const Verb kModelsVerb = {
    .name = "models",
    .group = "Models",
    .summary = "the models that the daemon serves",
    .about =
        R"(One row per model: its attention (baseline, focal with a constant or a learned temperature), its trained and its
maximum context length, and its backend. JSON and CSV add the SHA-256 of weights and tokenizer, the arm, seed and tokens
of its training if config.json states them, the sampling settings of generation_config.json (shown, never applied), and
memory usage. Weights shared with another model are in memory once. After the weights' size comes what they were computed
from: packed weights (FP8, GPTQ, ..), a merged adapter. A model whose device has failed is faulted; the last lines show
the cause. A model on several devices has a copy on each, and is faulted once all have failed; memory is that of all copies.

--supported lists the checkpoint types that this program loads instead, with public examples and the settings that are
refused by name; JSON and CSV add the golden checkpoints that each was verified with.)",
    .examples = "varifocal models\nvarifocal models baseline --format=json\nvarifocal models --supported",
    .formats = "text json jsonl csv",
    .make = &Make<ShowModels>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client

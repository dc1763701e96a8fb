// varifocal slurm: prints a script that runs a job as a Slurm array.
#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/embedded.h"
#include "base/status_macros.h"
#include "client/report/data/text_format.h"
#include "client/run_flags.h"
#include "client/verb.h"

namespace varifocal {
EmbeddedFiles Embedded_SlurmScript();
}

namespace varifocal::client {
namespace {

class Slurm : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags_ = &flags;
    run_.AddTo(flags);
    flags.Section("The array; a further option of sbatch is given by --sbatch");
    own_.push_back("shards");
    flags.Add("shards", &shards_, "N", "number of shards, each a task of the array")
        .Required()
        .AtLeast(1)
        .AtMost(kShardCountMax);
    own_.push_back("dir");
    flags.Add("dir", &directory_, "DIR", "directory of the shards' databases, logs and report, seen by all nodes")
        .Required();
    own_.push_back("gpus");
    flags.Add("gpus", &gpus_, "N", "GPUs of a task (default 1); 0 on nodes without").AtLeast(0).AtMost(64);
    own_.push_back("sbatch");
    flags.Add("sbatch", &sbatch_, "OPTION", "an option of sbatch for the tasks, such as --time=4:00:00; repeatable");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    // Mistakes show now, not in the queue.
    RETURN_IF_ERROR(run_.Options().status());
    RETURN_IF_ERROR(MakeJobSpec(run_.suite, run_.job, run_.variants).status());
    std::error_code error;
    const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    std::vector<std::string> shard_options, join_options;
    if (gpus_ > 0) shard_options.push_back(absl::StrCat("--gpus-per-task=", gpus_, " --ntasks=1"));
    for (const std::string& option : sbatch_) {
      if (!absl::StartsWith(option, "--")) {
        return UsageError("--sbatch=", option, ": must be an option such as --time=4:00:00.");
      }
      shard_options.push_back(report::ShellQuoted(option));
      // The merge needs the tasks' queue and account, but none of their devices.
      for (const char* name : {"--account=", "--partition=", "--qos="}) {
        if (absl::StartsWith(option, name)) join_options.push_back(report::ShellQuoted(option));
      }
    }
    const EmbeddedFiles files = Embedded_SlurmScript();
    console.out << absl::StrReplaceAll(
        absl::string_view(files.files[0].data, files.files[0].size),
        {{"@SHARDS@", absl::StrCat(shards_)},
         {"@DIRECTORY@", report::ShellQuoted(std::filesystem::absolute(directory_, error).string())},
         {"@PROGRAM@", report::ShellQuoted(program)},
         {"@WORKING_DIRECTORY@", report::ShellQuoted(std::filesystem::current_path(error).string())},
         {"@RUN_ARGUMENTS@", absl::StrJoin(RunArguments(), " ")},
         {"@SHARD_OPTIONS@", absl::StrJoin(shard_options, " ")},
         {"@JOIN_OPTIONS@", absl::StrJoin(join_options, " ")}});
    return ExitCode::kDone;
  }

 private:
  // What `run` gets: all that was given but the flags of this verb.
  std::vector<std::string> RunArguments() const {
    std::vector<std::string> arguments;
    for (const std::string& argument : flags_->Given()) {
      const bool is_own = std::any_of(own_.begin(), own_.end(), [&](const std::string& name) {
        return absl::StartsWith(argument, absl::StrCat("--", name, "="));
      });
      if (!is_own) arguments.push_back(report::ShellQuoted(argument));
    }
    return arguments;
  }

  RunFlags run_;
  const FlagSet* flags_ = nullptr;
  std::vector<std::string> own_ = {"format"};
  int64_t shards_ = 0, gpus_ = 1;
  std::string directory_;
  std::vector<std::string> sbatch_;
};

}  // namespace

constinit const Verb kSlurmVerb = {
    .name = "slurm",
    .group = "Jobs",
    .summary = "print a script that runs a suite as a Slurm array, merges the shards and writes the report",
    .about =
        R"(The script submits an array of N tasks, each of which runs one shard into a database of its own, and a job that joins
them when all have succeeded. Nothing is submitted by this command. A task that Slurm requeues continues its shard.)",
    .examples =
        "varifocal slurm standard --model=a=DIR --model=b=DIR --shards=16 --dir=/scratch/me/job > job.sh && bash "
        "job.sh\n"
        "varifocal slurm standard --model=a=DIR --shards=16 --dir=out --sbatch=--partition=gpu --sbatch=--time=4:00:00",
    .formats = "text",
    .make = &Make<Slurm>,
};

}  // namespace varifocal::client

// A verb of the command line: its name, help text and implementation.
//
// A verb is one file in client/verbs/ that defines a `const Verb`, and a row in the table of verbs.cc. Its Command
// holds the flags' values for one call.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/daemon_target.h"
#include "client/flags.h"
#include "client/usage.h"

namespace varifocal::client {

// Flags common to all verbs.
struct GlobalFlags {
  bool daemon_given = false;  // --daemon was given: a model is then a name of the daemon's, not a local directory
  DaemonTarget daemon;
  std::string format;  // as given; Console::format has the parsed value
  bool format_given = false;
  std::string command_line;  // of this call, for the record of what made an answer
};

// How a verb ends whose last step is this.
inline absl::StatusOr<ExitCode> DoneOr(const absl::Status& error) {
  if (!error.ok()) return error;
  return ExitCode::kDone;
}

class Command {
 public:
  virtual ~Command() = default;
  virtual void AddFlags(FlagSet& flags) = 0;
  // kDone, or kFailed where that is a result (`diff` found a difference); an error is printed and ends the program with
  // ExitCodeOf(error).
  virtual absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) = 0;
};

// Whether a verb connects to a daemon: never, always (at the default address unless --daemon), or only with --daemon.
enum class DaemonUse { kNever, kAlways, kWhenGiven };

struct Verb {
  const char* name;
  const char* group;                        // heading in the list of verbs
  const char* summary;                      // one line without a full stop
  const char* about;                        // paragraphs for --help
  const char* examples;                     // command lines
  const char* formats = "text json jsonl";  // values of --format, the default first
  std::unique_ptr<Command> (*make)();
  DaemonUse daemon = DaemonUse::kNever;
};

template <typename T>
std::unique_ptr<Command> Make() {
  return std::make_unique<T>();
}

extern const Verb kSubmitVerb, kWatchVerb, kListVerb, kShowVerb, kCancelVerb, kResumeVerb, kDeleteVerb, kRunVerb,
    kSlurmVerb, kCompareVerb, kReportVerb, kAttentionVerb, kQueryVerb, kDiffVerb, kRescoreVerb, kJudgeVerb, kImportVerb,
    kExportVerb, kBackupVerb, kMergeVerb, kDashboardVerb, kModelsVerb, kLoadVerb, kUnloadVerb, kHealthVerb,
    kTokenizeVerb, kDetokenizeVerb, kGenerateVerb, kScoreVerb, kGroupsVerb, kTasksVerb, kSuitesVerb, kImportDataVerb,
    kSamplesVerb, kMetricVerb, kCompletionVerb;

// The table, in the order of the list that `varifocal --help` shows.
const std::vector<const Verb*>& Verbs();

}  // namespace varifocal::client

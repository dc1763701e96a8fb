// Presentation of jobs: names, rows, a progress line, waiting for the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "client/console.h"
#include "client/daemon.h"
#include "client/flags.h"
#include "client/rows.h"
#include "client/usage.h"
#include "client/verb.h"
#include "db/reader.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal::client {

// "3" and "jobs/3" are the same job; anything else is a UsageError. The number is the id in a database.
absl::StatusOr<int64_t> JobNumber(const std::string& text);
absl::StatusOr<std::string> JobName(const std::string& text);  // "jobs/3"

// The state's name: "queued".
std::string StateName(v1::Job::State state);

Json JobJson(const v1::Job& job);
std::vector<Column> JobColumns();

// The flag of verbs that read jobs from the daemon, or from a file without one.
struct StoredJobsFlag {
  std::string database_path;  // empty: from the daemon

  void AddTo(FlagSet& flags);
  // A reader of the file; null where the daemon is asked. A UsageError when both are given.
  absl::StatusOr<std::unique_ptr<db::Reader>> Open(const GlobalFlags& global) const;
};

// As the daemon would send it; cells and failures only if requested.
absl::StatusOr<v1::Job> StoredJob(db::Reader& reader, const db::JobRow& row, bool with_cells);

// Follows a job until it has ended, with progress on standard error (a bar on a terminal, lines in a pipe), and returns
// its final state. Under --format=jsonl every change is a line on standard output.
// On an interruption, what it means is printed on standard error. `signal`: where the daemon is in this process, gets the signal
// of an interruption, which then ends the call with CANCELLED instead of the program.
absl::StatusOr<v1::Job> FollowJob(Daemon& daemon, const std::string& name, Console& console, int* signal = nullptr);

// 32 hexadecimal digits that no other call on this machine has.
std::string FreshId();

// The flag of verbs that submit: an equal request finds its job again, unless what it asks or whom has changed.
struct RepeatFlags {
  bool is_new = false;

  void AddTo(FlagSet& flags);
  void Apply(v1::SubmitJobRequest& request) const;
};

// The flag of verbs that wait for the end of a job.
struct OutcomeFlags {
  int64_t allow_failed = 0;

  void AddTo(FlagSet& flags);
};

// Prints the summary of a job that has ended; kDone only when it succeeded and every sample but `allow_failed` has an
// answer. `again` is the command that asks missing samples again; `varifocal resume` unless given.
ExitCode PrintOutcome(const v1::Job& job, const OutcomeFlags& flags, Console& console, std::string again = "");

}  // namespace varifocal::client

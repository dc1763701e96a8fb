// Judgments: external scores of stored answers, for example by a judge model, read from files.
//
// Two formats. JSON lines, one answer per line:
//
//   {"token_ids_sha256": "..", "scores": {"NAME": 2}, "variant": "..", "task": "..", "context_length": 8192,
//    "sample_index": 3}
//
// where the hash identifies the prompt and the last four may be omitted if the answer is unique. And HELMET's judged
// result files (`*-gpt4eval_o.json`), if made from files written by `varifocal export`: gpt-4-score is fluency times
// correctness out of three, and gpt-4-f1, -recall, -precision, -fluency are as computed by upstream.
//
// Values from 0 to `score_max` are stored from 0 to 1 as a metric imported/NAME.
//
// Errors: INVALID_ARGUMENT with file and line (or place in the file) for an invalid judgment, one that contradicts
//         another, or one out of range; NOT_FOUND when no judgment of a file belongs to an answer of the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/daemon.h"

namespace varifocal::client {

struct JudgmentImport {
  std::vector<std::string> paths;
  std::string database_path;           // when it is written here
  std::optional<int64_t> job_id;       // else what a result file names, or the newest job
  std::optional<std::string> variant;  // else what the file names, or the job's only one
  double score_max = 1;
  std::optional<std::string> source;  // what is recorded as the origin; else the path
};

struct JudgmentResult {
  std::string path;
  int64_t job_id = 0;
  int64_t value_count = 0;     // stored
  int64_t unknown_count = 0;   // judgments without an answer in the job
  int64_t unscored_count = 0;  // answers without a judgment
  std::vector<std::string> metrics;
  std::vector<std::string> left_out;  // sentences: impossible values of a judge
};

// The scores of all files replace earlier ones of their names, for each task and context length that they have answers of.
// Into a database that no daemon writes: all files or none.
absl::StatusOr<std::vector<JudgmentResult>> ImportJudgments(const JudgmentImport& import);
// Through a daemon, into its database. A file is one call, and all or nothing; one above the limits of a call goes in parts.
absl::StatusOr<std::vector<JudgmentResult>> SendJudgments(Daemon& daemon, const JudgmentImport& import);

}  // namespace varifocal::client

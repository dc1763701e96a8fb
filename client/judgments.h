// Judgments: scores given to stored answers elsewhere, by a judge model for example, read from files.
//
// Two forms. JSON lines, an answer a line:
//
//   {"token_ids_sha256": "..", "scores": {"NAME": 2}, "variant": "..", "task": "..", "context_length": 8192}
//
// where the hash names the prompt and the last three may be left out as long as one answer is meant. And HELMET's
// judged result files (`*-gpt4eval_o.json`), when they were made from files that `varifocal export` wrote: gpt-4-score
// is fluency times correctness out of three, and gpt-4-f1, -recall, -precision, -fluency are as upstream computes them.
//
// Values from 0 to `score_max` are stored from 0 to 1 as a metric imported/NAME.
//
// Errors: INVALID_ARGUMENT with file and line (or place in the file) for what is no judgment, contradicts another one,
// or
//         is out of range; NOT_FOUND when no judgment of a file belongs to an answer of the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace varifocal::client {

struct JudgmentImport {
  std::vector<std::string> paths;
  std::string database_path;
  std::optional<int64_t> job_id;       // else what a result file names, or the newest job
  std::optional<std::string> variant;  // else what the file names, or the job's only one
  double score_max = 1;
};

struct JudgmentResult {
  std::string path;
  int64_t job_id = 0;
  int64_t value_count = 0;     // stored
  int64_t unknown_count = 0;   // judgments of no answer in the job
  int64_t unscored_count = 0;  // the judge gave none
  std::vector<std::string> metrics;
  std::vector<std::string> left_out;  // sentences: values of a judge that cannot be
};

absl::StatusOr<std::vector<JudgmentResult>> ImportJudgments(const JudgmentImport& import);

// The hash that names a prompt in the files of `import`: 64 lower-case hexadecimal digits.
absl::Status CheckPromptDigest(const std::string& digest);

}  // namespace varifocal::client

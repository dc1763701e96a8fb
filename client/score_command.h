// Runs a command that scores answers: one JSON object a line on its standard input, one score a line on its output.
//
// Errors: FAILED_PRECONDITION when the command ends with a status other than 0; INVALID_ARGUMENT for a line that is no
//         score, or when the lines are more or fewer than the answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal::client {

// `input_path` has `answer_count` lines. A score is a number from 0 to `score_max`, or `null` where there is none.
absl::StatusOr<std::vector<std::optional<double>>> RunScoreCommand(const std::string& command,
                                                                   const std::string& input_path, int64_t answer_count,
                                                                   double score_max);

// "python metric.py (metric.py sha256 0a1b..)": the command, and the hash of each file that it names.
absl::StatusOr<std::string> DescribeCommand(const std::string& command);

}  // namespace varifocal::client

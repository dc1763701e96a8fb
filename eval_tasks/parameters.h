// The parameters of a task: text from a suite file, checked against the kind's table and made canonical.
//
// Errors: INVALID_ARGUMENT naming the task, the parameter, its value and the limit. Their field (base/reason.h) is the
//         parameter's name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "eval_tasks/task.h"

namespace varifocal {

using Parameters = std::map<std::string, std::string>;

// Complete with defaults (parameters without value and default stay absent); numbers in shortest form.
absl::StatusOr<Parameters> ValidateParameters(absl::string_view task, absl::Span<const ParameterInfo> known,
                                              const Parameters& given);

// Of validated parameters; nothing when absent.
std::optional<double> FindNumber(const Parameters& parameters, absl::string_view name);
int GetInteger(const Parameters& parameters, absl::string_view name);              // required
const std::string& GetText(const Parameters& parameters, absl::string_view name);  // "" when absent
std::vector<std::string> GetTextList(const Parameters& parameters, absl::string_view name);

// FAILED_PRECONDITION when the parameter "sha256", which a submitted job has, differs from `sha256` of the data at `path`.
absl::Status CheckRecordedSha256(const Parameters& parameters, absl::string_view path, absl::string_view sha256);

// The shortest decimal that reads back as `value`, e.g. "0.7"; integers without a point.
std::string FormatNumber(double value);
// The two grammars of numbers that people write, in flags, suites, settings of variants and answers of judges: the whole
// text in ASCII, without white space and "+"; a number is finite and decimal, an integer is digits after an optional "-".
absl::StatusOr<double> ParseNumber(absl::string_view text);
absl::StatusOr<int64_t> ParseInteger(absl::string_view text);
// A number of tokens: an integer, or one from 1 with K for 1,024, "4K".
absl::StatusOr<int64_t> ParseTokenCount(absl::string_view text);

}  // namespace varifocal

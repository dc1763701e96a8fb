// Suites as people write them: YAML whose schema is config.proto, read into that proto.
//
// The keys of a file are the fields of SuiteConfig, found by reflection, so that the schema is stated once; what values
// may be is asked of eval_tasks, which owns the tasks and their limits. Nothing is ignored and nothing guessed.
//
// Errors: UsageError "FILE:LINE: what is wrong", with a suggestion for a near miss: unknown keys, keys that stand
// twice,
//         values of another type or out of range, unknown tasks, metrics and parameters. NOT_FOUND for a missing file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal::client {

// `suite` is the name of a built-in suite or the path of a file (what holds a slash or a dot is a path). Paths inside a
// file are relative to it, and come back absolute.
absl::StatusOr<v1::SuiteConfig> ReadSuite(const std::string& suite);

// `origin` stands for FILE in errors.
absl::StatusOr<v1::SuiteConfig> ParseSuite(absl::string_view yaml, absl::string_view origin);

// Validated and complete.
absl::StatusOr<SuiteSpec> ToSuiteSpec(const v1::SuiteConfig& config);

}  // namespace varifocal::client

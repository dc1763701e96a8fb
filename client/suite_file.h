// Reads suite files: YAML with the schema of config.proto, into that proto.
//
// The keys of a file are the fields of SuiteConfig, found by reflection, so that the schema is defined once;
// eval_tasks, which owns the tasks and their limits, validates the values. Unknown keys are errors.
//
// Errors: UsageError "FILE:LINE: MESSAGE", with a suggestion for a similar name: unknown or duplicate keys, values of
//         another type or out of range, unknown tasks, metrics and parameters. NOT_FOUND for a missing file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal::client {

// `suite` is the name of a built-in suite or a path (if it has a slash or a dot). Paths inside a file are relative to its
// `folder`, by default its own, and returned as absolute paths.
absl::StatusOr<v1::SuiteConfig> ReadSuite(const std::string& suite);

// `origin` is FILE in errors.
absl::StatusOr<v1::SuiteConfig> ParseSuite(absl::string_view yaml, absl::string_view origin);

// Validated and complete.
absl::StatusOr<SuiteSpec> ToSuiteSpec(const v1::SuiteConfig& config);

}  // namespace varifocal::client

// Names of resources on the wire: "models/NAME" and "jobs/ID".
//
// Errors: INVALID_ARGUMENT (BAD_RESOURCE_NAME) for other names; `field` is named in the error.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

std::string ModelResource(absl::string_view model);
std::string JobResource(int64_t job_id);

absl::StatusOr<std::string> ParseModelResource(absl::string_view name, absl::string_view field);
absl::StatusOr<int64_t> ParseJobResource(absl::string_view name, absl::string_view field);

}  // namespace varifocal

// Parses names of models and focal temperatures.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal::client {

// "baseline" and "models/baseline" are the same model: "models/baseline".
std::string ModelResourceOf(absl::string_view name);
// "models/baseline" or "baseline": "baseline".
std::string ModelShortName(absl::string_view resource);

// "0.7" or one number a layer, "0.7,0.8": each finite and above zero, otherwise a UsageError naming the flag.
absl::StatusOr<std::vector<double>> ReadFocalTemperatures(absl::string_view flag, absl::string_view text);

}  // namespace varifocal::client

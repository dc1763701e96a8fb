// The built-in suites: the text of suites/*.yaml, compiled in. Reading YAML is client/suite_file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

std::vector<std::string> BuiltInSuiteNames();                               // "quick", "standard"
std::optional<absl::string_view> BuiltInSuiteText(absl::string_view name);  // YAML; nullopt when unknown

}  // namespace varifocal

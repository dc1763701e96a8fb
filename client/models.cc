#include "client/models.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/flags.h"
#include "client/usage.h"

namespace varifocal::client {

std::string ModelResource(absl::string_view name) {
  return absl::StartsWith(name, "models/") ? std::string(name) : absl::StrCat("models/", name);
}

std::string ModelShortName(absl::string_view resource) {
  absl::ConsumePrefix(&resource, "models/");
  return std::string(resource);
}

absl::StatusOr<std::vector<double>> ReadFocalTemperatures(absl::string_view flag, absl::string_view text) {
  std::vector<double> temperatures;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<double> value = ReadDouble(part);
    if (!value.has_value() || *value <= 0) {
      return UsageError(absl::StrCat("--", flag, "=", text, ": \"", part,
                                     "\" is not a focal temperature; it must be a finite number above 0."));
    }
    temperatures.push_back(*value);
  }
  return temperatures;
}

}  // namespace varifocal::client

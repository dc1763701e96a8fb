#include "client/models.h"

#include "absl/strings/strip.h"
#include "client/usage.h"
#include "eval_tasks/overrides.h"
#include "wire/resource_names.h"

namespace varifocal::client {

std::string ModelResourceOf(absl::string_view name) { return ModelResource(ModelShortName(name)); }

std::string ModelShortName(absl::string_view resource) {
  absl::ConsumePrefix(&resource, "models/");
  return std::string(resource);
}

absl::StatusOr<std::vector<double>> ReadFocalTemperatures(absl::string_view flag, absl::string_view text) {
  absl::StatusOr<std::vector<double>> temperatures = ParseOverrideValues(kFocalTemperature, text);
  if (temperatures.ok()) return temperatures;
  return UsageError("--", flag, "=", text, ": ", temperatures.status().message(), ".");
}

}  // namespace varifocal::client

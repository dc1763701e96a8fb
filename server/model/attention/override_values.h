// Values of overrides: constant temperatures, one for all layers or one per layer, whole numbers, and numbers in a range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "server/model/config_reader.h"

namespace varifocal {

// A number, or a list of 1 or exactly L numbers, positive and finite. `name` is used in messages.
// Returns L numbers.
absl::StatusOr<std::vector<double>> ReadTemperatures(const Json& value, int64_t layer_count, absl::string_view name);

// A whole number in the range; may be encoded as a float, as on the wire. `name` is used in messages.
absl::StatusOr<int64_t> WholeNumber(absl::string_view name, const Json& value, IntRange range);

struct NumberRange {
  double low = 0, high = 0;
};
// A number in the range. `name` is used in messages.
absl::StatusOr<double> NumberIn(absl::string_view name, const Json& value, NumberRange range);

// One number where all are equal, else the list.
Json TemperaturesToJson(const std::vector<double>& temperatures);
// "0.4", or "0.4,1,0.7" where they differ.
std::string TemperaturesLabel(const std::vector<double>& temperatures);

}  // namespace varifocal

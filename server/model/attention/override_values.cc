#include "server/model/attention/override_values.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

bool AllEqual(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
}

// A number as ShownValue shows it, without the digits of its float64.
std::string ShownNumber(const Json& value) {
  const bool is_finite = value.is_number() && std::isfinite(value.get<double>());
  return is_finite ? ShortNumber(value.get<double>()) : ShownValue(value);
}

}  // namespace

absl::StatusOr<std::vector<double>> ReadTemperatures(const Json& value, int64_t layer_count, absl::string_view name) {
  std::vector<double> given;
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!item.is_number())
        return InvalidArgument(name, " has an entry that is ", item.type_name(), "; it must be a number");
      given.push_back(item.get<double>());
    }
  } else if (value.is_number()) {
    given.push_back(value.get<double>());
  } else {
    return InvalidArgument(name, " is ", value.type_name(), "; it must be a number or a list of numbers");
  }
  if (given.size() != 1 && std::ssize(given) != layer_count)
    return InvalidArgument(name, " has ", given.size(), " entries; it must have 1 or ", layer_count, ", one per layer");
  for (size_t i = 0; i < given.size(); ++i) {
    if (std::isfinite(given[i]) && given[i] > 0) continue;
    const std::string entry = value.is_array() ? absl::StrCat(name, "[", i, "]") : std::string(name);
    return InvalidArgument(entry, " is ", given[i], "; a temperature must be positive and finite");
  }
  if (given.size() == 1) given.assign(layer_count, given[0]);
  return given;
}

absl::StatusOr<int64_t> WholeNumber(absl::string_view name, const Json& value, IntRange range) {
  const bool in_range = value.is_number() && value.get<double>() == std::floor(value.get<double>()) &&
                        value.get<double>() >= range.low && value.get<double>() <= range.high;
  if (in_range) return static_cast<int64_t>(value.get<double>());
  return InvalidArgument(name, " is ", ShownNumber(value), "; it must be a whole number from ", range.low, " to ",
                         range.high);
}

absl::StatusOr<double> NumberIn(absl::string_view name, const Json& value, NumberRange range) {
  if (value.is_number() && value.get<double>() >= range.low && value.get<double>() <= range.high)
    return value.get<double>();
  return InvalidArgument(name, " is ", ShownNumber(value), "; it must be a number from ", ShortNumber(range.low),
                         " to ", ShortNumber(range.high));
}

Json TemperaturesToJson(const std::vector<double>& temperatures) {
  return AllEqual(temperatures) ? Json(temperatures[0]) : Json(temperatures);
}

std::string TemperaturesLabel(const std::vector<double>& temperatures) {
  if (AllEqual(temperatures)) return ShortNumber(temperatures[0]);
  return absl::StrJoin(temperatures, ",", [](std::string* out, double t) { out->append(ShortNumber(t)); });
}

}  // namespace varifocal

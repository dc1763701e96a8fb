#include "wire/overrides.h"

#include <utility>
#include <vector>

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<OverrideMap> FromProto(const ProtoOverrides& overrides, absl::Span<const double> focal_temperatures,
                                      const google::protobuf::Map<std::string, double>& attention_overrides) {
  std::vector<std::pair<std::string, std::vector<double>>> given;
  for (const auto& [name, values] : overrides) {
    given.push_back({name, {values.values().begin(), values.values().end()}});
  }
  for (const auto& [name, value] : attention_overrides) given.push_back({name, {value}});
  if (!focal_temperatures.empty()) {
    given.push_back({kFocalTemperature, {focal_temperatures.begin(), focal_temperatures.end()}});
  }
  OverrideMap all;
  for (auto& [name, values] : given) {
    if (all.emplace(name, std::move(values)).second) continue;
    return WithReason(InvalidArgument("the attention setting \"", name, "\" is given twice"),
                      ErrorReason::kBadAttentionOverride, {{"field", "overrides"}});
  }
  return all;
}

ProtoOverrides ToProto(const OverrideMap& overrides) {
  ProtoOverrides proto;
  for (const auto& [name, values] : overrides) {
    proto[name].mutable_values()->Add(values.begin(), values.end());
  }
  return proto;
}

}  // namespace varifocal

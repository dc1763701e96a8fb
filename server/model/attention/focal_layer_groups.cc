// Run-time temperatures of a third of the layers: `early-t`, `middle-t`, `late-t`. Early layers are the first L/3 (rounded
// down, at least one), late layers as many at the end, middle layers those between. The other layers keep their
// temperature, so the three can be combined.
//
// They edit the checkpoint's constant temperatures, or those of an override of all layers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

enum class LayerGroup { kEarly, kMiddle, kLate };

std::pair<int64_t, int64_t> LayersOf(LayerGroup group, int64_t layer_count) {
  const int64_t third = std::max<int64_t>(1, layer_count / 3);
  switch (group) {
    case LayerGroup::kEarly:
      return {0, third};
    case LayerGroup::kMiddle:
      return {third, layer_count - third};
    case LayerGroup::kLate:
      break;
  }
  return {layer_count - third, layer_count};
}

// [L]; `current` is the value of "focal_attention" or null.
absl::StatusOr<std::vector<double>> CurrentTemperatures(const Json& current, const AttentionModel& model) {
  std::vector<double> temperatures(model.layer_count, 1);
  if (current.is_null()) return temperatures;
  const std::string mode = current.value("mode", "");
  if (mode == kFocalConstant.mode)
    return ReadTemperatures(current.at("temperature"), model.layer_count, "the temperature of the checkpoint");
  if (mode == kFocalFullLayers.mode) {
    for (int64_t layer = 0; layer < model.layer_count; ++layer) {
      if (model.windows[layer] == 0) temperatures[layer] = current.at("temperature").get<double>();
    }
    return temperatures;
  }
  return InvalidArgument("a temperature of some layers is set, but \"focal_attention\" of this model is ", mode);
}

template <LayerGroup kGroup>
absl::StatusOr<Json> OverrideLayerGroup(const Json& current, const Json& value, const AttentionModel& model) {
  ASSIGN_OR_RETURN(const std::vector<double> temperature, ReadTemperatures(value, 1, "the temperature of some layers"));
  ASSIGN_OR_RETURN(std::vector<double> temperatures, CurrentTemperatures(current, model));
  const auto [begin, end] = LayersOf(kGroup, model.layer_count);
  if (begin >= end) {
    return InvalidArgument("a temperature of the middle layers is set, but a model of ", model.layer_count,
                           " layers has none between the early and the late ones");
  }
  std::fill(temperatures.begin() + begin, temperatures.begin() + end, temperature[0]);
  return Json{{"mode", kFocalConstant.mode}, {"temperature", TemperaturesToJson(temperatures)}};
}

}  // namespace

const AttentionOverrideRow kEarlyLayersTemperatureOverride = {"early-t", "focal_attention",
                                                              ErrorReason::kBadAttentionOverride,
                                                              /*edits=*/true, OverrideLayerGroup<LayerGroup::kEarly>};
const AttentionOverrideRow kMiddleLayersTemperatureOverride = {"middle-t", "focal_attention",
                                                               ErrorReason::kBadAttentionOverride,
                                                               /*edits=*/true, OverrideLayerGroup<LayerGroup::kMiddle>};
const AttentionOverrideRow kLateLayersTemperatureOverride = {"late-t", "focal_attention",
                                                             ErrorReason::kBadAttentionOverride,
                                                             /*edits=*/true, OverrideLayerGroup<LayerGroup::kLate>};

}  // namespace varifocal

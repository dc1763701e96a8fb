#include "server/model/attention/variants.h"

#include <array>

namespace varifocal {

absl::Span<const AttentionVariantRow> AttentionVariantRows() {
  static const std::array rows = {kFocalConstant, kFocalFullLayers, kFocalLearned, kLogNConstant, kLogNLearned, kFocus};
  return rows;
}

absl::Span<const AttentionOverrideRow> AttentionOverrideRows() {
  static const std::array rows = {kTemperatureOverride,
                                  kFullLayersTemperatureOverride,
                                  kEarlyLayersTemperatureOverride,
                                  kMiddleLayersTemperatureOverride,
                                  kLateLayersTemperatureOverride,
                                  kLogNOverride,
                                  kRopeThetaOverride,
                                  kYarnOverride,
                                  kLinearRopeOverride,
                                  kDynamicRopeOverride,
                                  kFocusTopKOverride,
                                  kFocusWindowOverride};
  return rows;
}

}  // namespace varifocal

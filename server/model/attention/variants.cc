#include "server/model/attention/variants.h"

#include <array>

namespace varifocal {

absl::Span<const AttentionVariantRow> AttentionVariantRows() {
  static const std::array rows = {kFocalConstant, kFocalFullLayers, kFocalLearned, kLogNConstant, kLogNLearned,
                                  kFocus,         kScoreCap,        kSinkConstant, kSinkLearned};
  return rows;
}

absl::Span<const AttentionOverrideRow> AttentionOverrideRows() {
  static const std::array rows = {kTemperatureOverride,
                                  kFullLayersTemperatureOverride,
                                  kEarlyLayersTemperatureOverride,
                                  kMiddleLayersTemperatureOverride,
                                  kLateLayersTemperatureOverride,
                                  kLogNOverride,
                                  kScoreCapOverride,
                                  kSinkOverride,
                                  kRopeThetaOverride,
                                  kYarnOverride,
                                  kLinearRopeOverride,
                                  kDynamicRopeOverride,
                                  kFocusTopKOverride,
                                  kFocusWindowOverride};
  return rows;
}

}  // namespace varifocal

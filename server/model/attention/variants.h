// The table of attention variants and the table of run-time overrides; variant.h defines a row. Adding a variant is a
// file, its row in variants.cc and the row's declaration here.
#pragma once

#include "absl/types/span.h"
#include "server/model/attention/variant.h"

namespace varifocal {

// In the order of Prepare.
absl::Span<const AttentionVariantRow> AttentionVariantRows();
absl::Span<const AttentionOverrideRow> AttentionOverrideRows();

// The rows, each defined in the named file.
extern const AttentionVariantRow kFocalConstant;                     // focal_constant.cc
extern const AttentionVariantRow kFocalFullLayers;                   // focal_full_layers.cc
extern const AttentionVariantRow kFocalLearned;                      // focal_learned.cc
extern const AttentionVariantRow kLogNConstant;                      // log_n.cc
extern const AttentionVariantRow kLogNLearned;                       // log_n.cc
extern const AttentionVariantRow kFocus;                             // focus.cc
extern const AttentionVariantRow kScoreCap;                          // score_cap.cc
extern const AttentionVariantRow kSinkConstant;                      // attention_sink.cc
extern const AttentionVariantRow kSinkLearned;                       // attention_sink.cc
extern const AttentionOverrideRow kTemperatureOverride;              // focal_constant.cc
extern const AttentionOverrideRow kFullLayersTemperatureOverride;    // focal_full_layers.cc
extern const AttentionOverrideRow kEarlyLayersTemperatureOverride;   // focal_layer_groups.cc
extern const AttentionOverrideRow kMiddleLayersTemperatureOverride;  // focal_layer_groups.cc
extern const AttentionOverrideRow kLateLayersTemperatureOverride;    // focal_layer_groups.cc
extern const AttentionOverrideRow kLogNOverride;                     // log_n.cc
extern const AttentionOverrideRow kScoreCapOverride;                 // score_cap.cc
extern const AttentionOverrideRow kSinkOverride;                     // attention_sink.cc
extern const AttentionOverrideRow kYarnOverride;                     // rotation.cc
extern const AttentionOverrideRow kLinearRopeOverride;               // rotation.cc
extern const AttentionOverrideRow kDynamicRopeOverride;              // rotation.cc
extern const AttentionOverrideRow kRopeThetaOverride;                // rotation.cc
extern const AttentionOverrideRow kFocusTopKOverride;                // focus.cc
extern const AttentionOverrideRow kFocusWindowOverride;              // focus.cc

}  // namespace varifocal

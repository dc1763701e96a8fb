// Which keys count how sharply: baseline, a constant focal temperature, a learned one.
//
// Source: methods of the project, section 3 of the design: softmax(q.k * base/t), or softmax(q.k / tau).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/attention_variants.h"
#include "server/model/config_reader.h"

namespace varifocal {

enum class AttentionMode { kBaseline, kFocalConstant, kFocalLearned };
// Over which rows tau's mean runs: kCausal, kToken, kSequence (not causal).
using kernels::TauMean;
absl::string_view TauMeanName(TauMean mean);

// One per model, or per request when a run-time temperature replaces it.
struct AttentionSetting {
  AttentionMode mode = AttentionMode::kBaseline;
  std::vector<double> temperatures;  // constant: one per layer; softmax(q.k * base / t)
  double tau_min = 0;                // learned: softmax(q.k / tau), tau within [tau_min, tau_max]
  double tau_max = 0;
  TauMean tau_mean = TauMean::kCausal;

  // "baseline", "focal t=0.4", "focal t=0.4,0.5,..", "focal tau=[3.5,8] causal"; numbers round-trip. Names the setting
  // in records and in the key of the prefix cache.
  std::string ToString() const;
  // True when the mean over the whole prompt is needed before any row can attend: no chunks, no prefix reuse.
  bool NeedsWholePrompt() const { return mode == AttentionMode::kFocalLearned && tau_mean == TauMean::kSequence; }
};

// One number or exactly L replace the setting by constant temperatures; INVALID_ARGUMENT otherwise, naming `name`.
absl::Status SetTemperatures(absl::Span<const double> given, int64_t layer_count, absl::string_view name,
                             AttentionSetting& setting);

// Reads `focal_attention`; refuses `focus_attention`.
absl::Status ReadAttentionSetting(ConfigReader& reader, int64_t layer_count, AttentionSetting& setting);

}  // namespace varifocal

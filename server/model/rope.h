// Rotary position embedding as a table computed on the host, so that kernels do not depend on the scaling.
//
// Row p holds cos and sin of p times each frequency, times the scaling's attention factor, in float64 and rounded once
// to f32. Hugging Face rounds frequencies and angles to f32, which changes angles by up to 2e-3 at position 32K:
// rounding noise, not part of the model's definition.
//
// Two scalings depend on the length of a sequence: dynamic (its base grows with it) and longrope (other factors beyond
// the original length). Hugging Face recomputes it at every step, so that keys of one cache can have different
// rotations; here the length, including all tokens that may be generated, is fixed at admission.
//
// Shapes:  cos and sin are [positions, rotary width / 2]; pairs are (i, i + rotary width / 2).
// Errors:  INVALID_ARGUMENT naming the key; UNIMPLEMENTED naming the scaling.
// Source:  Su et al. 2021, arXiv:2104.09864; Peng et al. 2023, arXiv:2309.00071 (yarn); Ding et al. 2024,
//          arXiv:2402.13753 (longrope); transformers 5.23, modeling_rope_utils.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

enum class RopeKind { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongRope, kProportional };

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double partial = 1;       // proportional: of a head's pairs, the first ones that turn; its frequencies span all
  double alpha = 1;         // default: multiplies theta, as alpha^(D / (D - 2))
  int64_t rotary_span = 0;  // dimensions of a head that the frequencies span; 0: the whole head
  double factor = 1;        // all but default; ratio to the original length
  double original_max_position = 0;  // dynamic, llama3, yarn, longrope
  double low_freq_factor = 1;        // llama3
  double high_freq_factor = 4;       // llama3
  double beta_fast = 32;             // yarn
  double beta_slow = 1;              // yarn
  bool truncate = true;              // yarn: round the ramp's ends to whole dimensions
  double attention_factor = 1;       // yarn, longrope; multiplies cos and sin
  // Queries at position p are multiplied by 1 + beta ln(1 + floor(p / original length)), after the rotation; 0: not.
  double query_beta = 0;
  double score_factor = 1;            // scores are multiplied by it (DeepSeek's mscale)
  std::vector<double> short_factors;  // longrope, [rotary span / 2]: sequences up to the original length
  std::vector<double> long_factors;   // longrope: longer ones

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
  std::string ToString() const;  // all parameters, exactly; part of the prefix cache's key
  int64_t RotarySpan(int64_t head_width) const { return rotary_span == 0 ? head_width : rotary_span; }
  // Rotated dimensions: an odd span is rounded up to whole pairs.
  int64_t RotaryWidth(int64_t head_width) const { return (RotarySpan(head_width) + 1) / 2 * 2; }
  double QueryFactor(int64_t position) const;
  // The rope length of a sequence: equal values have equal frequencies. 0: independent of the length.
  int64_t RopeLength(int64_t total_length) const;
};

absl::string_view RopeKindName(RopeKind kind);

// [rotary width / 2], radians per position.
std::vector<double> RopeFrequencies(const RopeConfig& rope, int64_t head_width, int64_t rope_length);

struct RopeTable {
  int64_t position_count = 0;
  int64_t half_width = 0;
  std::vector<float> cos;
  std::vector<float> sin;
};
RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_width, int64_t position_count, int64_t rope_length);

}  // namespace varifocal

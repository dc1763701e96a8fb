// Where a key is: rotary position embedding as a table made on the host, so that kernels never change with the scaling.
//
// Row p holds cos and sin of p times each frequency, in float64 and rounded once to f32. Hugging Face rounds
// frequencies and angles to f32, which moves angles by up to 2e-3 at position 32K: its noise, not the model's
// definition.
//
// Shapes:  cos and sin are [positions, D/2]; pairs are (i, i + D/2).
// Errors:  INVALID_ARGUMENT naming the key; UNIMPLEMENTED naming the scaling.
// Source:  Su et al. 2021, arXiv:2104.09864; transformers modeling_rope_utils (default, linear, llama3).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/model/config_reader.h"

namespace varifocal {

enum class RopeKind { kDefault, kLinear, kLlama3 };

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double factor = 1;                 // linear, llama3
  double low_freq_factor = 1;        // llama3
  double high_freq_factor = 4;       // llama3
  double original_max_position = 0;  // llama3
  std::string ToString() const;      // every number that matters; part of the prefix cache's key
};

// Reads `rope_theta` + `rope_scaling`, or `rope_parameters`; both when they agree.
absl::Status ReadRope(ConfigReader& reader, RopeConfig& rope);

// [D/2], radians per position.
std::vector<double> RopeFrequencies(const RopeConfig& rope, int64_t head_width);

struct RopeTable {
  int64_t position_count = 0;
  int64_t half_width = 0;
  std::vector<float> cos;
  std::vector<float> sin;
};
RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_width, int64_t position_count);

}  // namespace varifocal

// Matrices of GPTQ and AWQ: stored as [K, N], inputs first, with a zero point and a scale for each output of each group of
// inputs: w[n, k] = scale[g, n] * (q[k, n] - zero[g, n]), g the group of input k.
//
// Shapes:  `scales` [G, N]; `zeros` [G, N / (32 / bits)] words of 32 bits.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "server/model/config_reader.h"
#include "server/model/weight_source.h"

namespace varifocal {

struct ColumnGroups {
  int bits = 4;
  int64_t inputs = 0;      // K
  int64_t outputs = 0;     // N
  int64_t groups = 0;      // G
  int64_t group_size = 0;  // of consecutive inputs; not used with an order of their own
  // A word of zero points as stored, to fields of zero points: all of them at once, since carries cross fields.
  uint32_t zero_offset = 0;
  // The position of output n's field inside of its word.
  std::vector<int> field_of_output;  // of 32 / bits outputs
};

// Keys of how a file was made, and how it is run elsewhere.
void IgnoreHowItWasMade(ConfigReader& reader);

// Fills `count` rows of the matrix [N, K] from output `first` on. `quantized(k, n)` is the field of input k.
// INVALID_ARGUMENT where `order` (null: groups are consecutive) names a group that is not there.
absl::Status FillFromGroups(
    const ColumnGroups& layout, const TensorView& scales, const TensorView& zeros, const TensorView* order,
    int64_t first, int64_t count,
    const std::function<void(int64_t input, int64_t first, int64_t count, float* fields)>& quantized, float* rows);

}  // namespace varifocal

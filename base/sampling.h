// How a token is drawn, and the limits of the settings; kernels/token_draw.h has what they mean and their order.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace varifocal {

struct Sampling {
  double temperature = 0;  // 0 is greedy, where ties go to the lowest id; the others have no effect then
  double top_p = 1;        // above 0, at most 1
  int32_t top_k = 0;       // 0: all
  double min_p = 0;        // 0 to 1
};

// INVALID_ARGUMENT (BAD_SAMPLING_TEMPERATURE, BAD_TOP_K, BAD_TOP_P, BAD_MIN_P), with the name of the field.
absl::Status CheckSampling(const Sampling& sampling);

}  // namespace varifocal

// The randomness of sampling: the parameters of a token draw (kernels/token_draw.h).
//
// The uniform number depends on (seed, position) alone.
#pragma once

#include <cstdint>

#include "kernels/token_draw.h"

namespace varifocal {

struct SamplerSettings {
  double temperature = 1;  // 0: greedy, nothing is drawn
  double top_p = 1;
  uint64_t seed = 0;
};

// `position` is that of the new token.
kernels::TokenDraw MakeDraw(const SamplerSettings& settings, int64_t position);

}  // namespace varifocal

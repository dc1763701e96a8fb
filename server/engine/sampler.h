// The randomness of sampling: the parameters of a token draw (kernels/token_draw.h).
//
// The uniform number depends on (seed, position) alone.
#pragma once

#include <cstdint>

#include "base/sampling.h"
#include "kernels/token_draw.h"

namespace varifocal {

// `position` is that of the new token. Nothing is drawn at a temperature of 0.
kernels::TokenDraw MakeDraw(const Sampling& sampling, uint64_t seed, int64_t position);

}  // namespace varifocal

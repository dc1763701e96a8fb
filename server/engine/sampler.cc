#include "server/engine/sampler.h"

#include "base/random.h"

namespace varifocal {

kernels::TokenDraw MakeDraw(const Sampling& sampling, uint64_t seed, int64_t position) {
  if (sampling.temperature == 0) return {};
  return {.temperature = sampling.temperature,
          .top_p = sampling.top_p,
          .uniform = KeyedUniform(seed, position),
          .min_p = sampling.min_p,
          .top_k = sampling.top_k};
}

}  // namespace varifocal

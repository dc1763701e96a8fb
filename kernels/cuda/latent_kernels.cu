// Latent attention: the norms of latents, in place.

#include <math.h>

#include "kernels/cuda/row_values.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// One block per row; the order of its sum depends on the columns alone.
VF_KERNEL(kThreads, 1) NormColumnsKernel(const NormColumnsParams p) {
  FollowPreviousLaunch();
  uint16_t* x = p.x + WideProduct(BlockX(), p.stride);
  float squares = 0;
  for (int i = ThreadX(); i < p.count; i += kThreads) squares += WidenLow(x[i]) * WidenLow(x[i]);
  const float inverse = 1.0f / sqrtf(BlockSum(squares) / p.count + p.epsilon);
  for (int i = ThreadX(); i < p.count; i += kThreads) x[i] = RoundBf16(WidenLow(x[i]) * inverse * p.weight[i]);
}

}  // namespace

int LaunchNormColumns(const NormColumnsParams& p, LaunchStream stream) {
  return VF_LAUNCH(NormColumnsKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

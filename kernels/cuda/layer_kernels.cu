// Layers with parts of their own: inputs of all layers, of a row's token and of its embedding; and sums that begin at zero.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// A warp per row and layer; the order of its sum depends on the width alone.
VF_KERNEL(kThreads, 1) LayerInputsKernel(const LayerInputsParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), layer = BlockY() * kWarps + WarpIndex();
  if (layer >= p.layer_count) return;
  const uint16_t* projected = p.projected + WideProduct(row, p.layer_count, p.width) + layer * p.width;
  const uint16_t* of_token = p.table + p.tokens[row] * p.table_stride + layer * p.width;
  uint16_t* out = p.out + (WideProduct(layer, p.row_count) + row) * p.width;
  float squares = 0;
  for (int i = LaneIndex(); i < p.width; i += 32) squares += WidenLow(projected[i]) * WidenLow(projected[i]);
  const float inverse = 1.0f / sqrtf(WarpSum(squares) / p.width + p.norm_epsilon);
  for (int i = LaneIndex(); i < p.width; i += 32) {
    const float normed = WidenLow(projected[i]) * inverse * p.norm_weight[i];
    out[i] = RoundBf16(p.factor * (normed + p.multiplier * WidenLow(of_token[i])));
  }
}

VF_KERNEL(kThreads, 1) ClearKernel(const ClearParams p) {
  FollowPreviousLaunch();
  const size_t at = WideProduct(BlockX(), kThreads) + ThreadX();
  if (at < p.count) p.x[at] = 0;
}

}  // namespace

int LaunchClear(const ClearParams& p, LaunchStream stream) {
  const int blocks = static_cast<int>((p.count + kThreads - 1) / kThreads);
  return VF_LAUNCH(ClearKernel, blocks, 1, 1, kThreads, 0, stream, p);
}
int LaunchLayerInputs(const LayerInputsParams& p, LaunchStream stream) {
  return VF_LAUNCH(LayerInputsKernel, p.row_count, CeilDivide(p.layer_count, kWarps), 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

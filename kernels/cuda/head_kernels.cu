// The LM head's statistics: a slice of the vocabulary is folded into each row's state, slices in order.
//
// Log-sum-exp, the best two tokens and the target's logit need one pass; logits are not kept beyond their slice.

#include <math.h>

#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// The best two of some logits; among equals the lowest token is the best.
struct Best {
  float logit, second;
  int token;
};

VF_DEVICE Best Merge(const Best& a, const Best& b) {
  const bool first = a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  const Best& best = first ? a : b;
  const Best& rest = first ? b : a;
  return {best.logit, rest.logit > best.second ? rest.logit : best.second, best.token};
}

VF_KERNEL(kThreads, 1) HeadStatsKernel(const HeadStatsParams p) {
  VF_SHARED Best warp_bests[kWarps];
  VF_SHARED float warp_sums[kWarps];
  VF_SHARED int warp_odd[kWarps];
  const int row = BlockX(), warp = WarpIndex(), lane = LaneIndex();
  const float* product = static_cast<const float*>(p.product.data) + static_cast<size_t>(row) * p.product.columns;
  const int target = p.targets[row] - p.first;
  const auto logit_at = [&](int i) {
    float value = product[i];
    for (int split = 1; split < p.product.split_count; ++split) value += product[split * p.product.split_stride + i];
    value *= p.multiplier;
    return p.soft_cap > 0 ? p.soft_cap * tanhf(value / p.soft_cap) : value;
  };
  // Finished logits may replace the product they come from; they are read back where they were written.
  const auto finished_at = [&](int i) {
    return p.logits != nullptr ? p.logits[static_cast<size_t>(row) * p.count + i] : logit_at(i);
  };
  Best best{-INFINITY, -INFINITY, 0x7FFFFFFF};
  int odd = 0;
  for (int i = ThreadX(); i < p.count; i += kThreads) {
    const float logit = logit_at(i);
    odd |= !(fabsf(logit) <= 3.402823466e38f);
    best = Merge(best, {logit, -INFINITY, p.first + i});
    if (p.logits != nullptr) p.logits[static_cast<size_t>(row) * p.count + i] = logit;
  }
  for (int mask = 16; mask > 0; mask >>= 1) {
    best = Merge(best, {ShuffleXor(best.logit, mask), ShuffleXor(best.second, mask), ShuffleXor(best.token, mask)});
    odd |= ShuffleXor(odd, mask);
  }
  if (lane == 0) {
    warp_bests[warp] = best;
    warp_odd[warp] = odd;
  }
  SyncThreads();
  best = warp_bests[0];
  odd = warp_odd[0];
  for (int w = 1; w < kWarps; ++w) {
    best = Merge(best, warp_bests[w]);
    odd |= warp_odd[w];
  }
  // Sums are taken over the larger of this slice's and the earlier slices' maximum.
  const HeadState old = p.states[row];
  const bool fresh = p.first == 0;
  const float largest = fresh || best.logit > old.largest ? best.logit : old.largest;
  float sum = 0;
  for (int i = ThreadX(); i < p.count; i += kThreads) sum += expf(finished_at(i) - largest);
  sum = WarpSum(sum);
  if (lane == 0) warp_sums[warp] = sum;
  SyncThreads();
  if (ThreadX() != 0) return;
  sum = warp_sums[0];
  for (int w = 1; w < kWarps; ++w) sum += warp_sums[w];
  HeadState state = old;
  if (fresh) {
    state.sum = sum;
    state.argmax = best.token;
    state.runner_up = best.second;
    state.finite = !odd;
  } else {
    state.sum = old.sum * expf(old.largest - largest) + sum;
    const Best all = Merge({old.largest, old.runner_up, old.argmax}, best);
    state.argmax = all.token;
    state.runner_up = all.second;
    state.finite = old.finite && !odd;
  }
  state.largest = largest;
  state.target_logit = target >= 0 && target < p.count ? finished_at(target) : old.target_logit;
  p.states[row] = state;
}

}  // namespace

int LaunchHeadStats(const HeadStatsParams& p, LaunchStream stream) {
  return VF_LAUNCH(HeadStatsKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

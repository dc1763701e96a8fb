// The LM head's statistics, of each slice of the vocabulary by itself and then folded in order; and the draw of a token.
//
// Log-sum-exp, the best two tokens and the target's logit need one pass; logits are not kept beyond their slice, except
// for rows that are sampled from.

#include <math.h>

#include "base/wide_product.h"
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

// One block per row and slice: its logits, their log-sum-exp and its best two.
VF_KERNEL(kThreads, 1) HeadStatsKernel(const HeadStatsParams p) {
  FollowPreviousLaunch();
  VF_SHARED Best warp_bests[kWarps];
  VF_SHARED float warp_sums[kWarps];
  VF_SHARED int warp_odd[kWarps];
  const int row = BlockX(), slice = BlockY(), warp = WarpIndex(), lane = LaneIndex();
  const int begin = slice * kHeadSlice, count = p.count - begin < kHeadSlice ? p.count - begin : kHeadSlice;
  float* product = p.product + slice * p.slice_stride + WideProduct(row, p.row_stride != 0 ? p.row_stride : count);
  const auto logit_at = [&](int i) {
    float value = product[i];
    for (int split = 1; split < p.split_count; ++split) value += product[split * p.split_stride + i];
    if (p.bias != nullptr) value += p.bias[p.first + begin + i];
    value *= p.multiplier;
    return p.soft_cap > 0 ? p.soft_cap * tanhf(value / p.soft_cap) : value;
  };
  const auto finished_at = [&](int i) { return p.keeps_logits ? product[i] : logit_at(i); };
  const int draw = p.draw_indices == nullptr ? -1 : p.draw_indices[row];
  Best best{-INFINITY, -INFINITY, 0x7FFFFFFF};
  int odd = 0;
  for (int i = ThreadX(); i < count; i += kThreads) {
    const float logit = logit_at(i);
    odd |= !(fabsf(logit) <= 3.402823466e38f);
    best = Merge(best, {logit, -INFINITY, p.first + begin + i});
    if (p.keeps_logits) product[i] = logit;
    if (draw >= 0) p.draw_logits[draw * p.vocab + p.first + begin + i] = logit;
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
  float sum = 0;
  for (int i = ThreadX(); i < count; i += kThreads) sum += expf(finished_at(i) - best.logit);
  sum = WarpSum(sum);
  if (lane == 0) warp_sums[warp] = sum;
  SyncThreads();
  if (ThreadX() != 0) return;
  sum = warp_sums[0];
  for (int w = 1; w < kWarps; ++w) sum += warp_sums[w];
  const int target = p.targets[row] - p.first - begin;
  HeadState state{.largest = best.logit, .sum = sum, .runner_up = best.second, .argmax = best.token, .finite = !odd};
  if (target >= 0 && target < count) state.target_logit = finished_at(target);
  p.partials[row * CeilDivide(p.count, kHeadSlice) + slice] = state;
}

// One thread per row: its slices in order, after those of earlier calls, so that no result depends on how many a call has.
VF_KERNEL(kThreads, 1) HeadFoldKernel(const HeadStatsParams p) {
  FollowPreviousLaunch();
  const int row = BlockX() * kThreads + ThreadX(), slices = CeilDivide(p.count, kHeadSlice);
  if (row >= p.row_count) return;
  const HeadState* partials = p.partials + row * slices;
  const int first_slice = p.first / kHeadSlice, target = p.targets[row];
  HeadState state = p.first == 0 ? partials[0] : p.states[row];
  for (int slice = p.first == 0 ? 1 : 0; slice < slices; ++slice) {
    const HeadState& part = partials[slice];
    const float largest = part.largest > state.largest ? part.largest : state.largest;
    state.sum = state.sum * expf(state.largest - largest) + part.sum * expf(part.largest - largest);
    const Best all = Merge({state.largest, state.runner_up, state.argmax}, {part.largest, part.runner_up, part.argmax});
    state.argmax = all.token;
    state.runner_up = all.second;
    state.largest = largest;
    state.finite = state.finite && part.finite;
    if (target >= 0 && target / kHeadSlice == first_slice + slice) state.target_logit = part.target_logit;
  }
  p.states[row] = state;
}

// Monotonic in the logit; both zeros are equal.
VF_DEVICE uint32_t OrderOf(float logit) {
  const float normal = logit + 0.0f;
  uint32_t bits;
  memcpy(&bits, &normal, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

VF_DEVICE float FloatOf(uint32_t order) {
  const uint32_t bits = (order & 0x80000000u) != 0 ? order & 0x7FFFFFFFu : ~order;
  float logit;
  memcpy(&logit, &bits, sizeof logit);
  return logit;
}

// 64-bit sums in two words, so that 32-bit atomics suffice; exact, whatever the order of additions.
struct WideBins {
  uint32_t low[kThreads], high[kThreads];
};
VF_DEVICE void Add(WideBins& bins, uint32_t bin, uint64_t value) {
  const uint32_t low = static_cast<uint32_t>(value), before = AtomicAdd(&bins.low[bin], low);
  const uint32_t high = static_cast<uint32_t>(value >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) AtomicAdd(&bins.high[bin], high);
}
VF_DEVICE uint64_t SumOf(const WideBins& bins, int bin) {
  return static_cast<uint64_t>(bins.high[bin]) << 32 | bins.low[bin];
}

// Where a search for a mass stopped: the order of a logit, and the mass of all above it.
struct Found {
  uint64_t above;
  uint64_t here;  // of all tokens of that order
  uint32_t order;
};

// One block per draw, without sorting: radix select finds the logit at which the cumulative mass reaches a value, eight
// bits at a time, with one bin of mass per digit; masses are integers, so the order of additions does not matter.
VF_KERNEL(kThreads, 1) DrawKernel(const DrawParams p) {
  FollowPreviousLaunch();
  VF_SHARED WideBins bins;
  VF_SHARED uint64_t wanted;
  VF_SHARED uint32_t last_order;  // of the tokens that top_k keeps
  VF_SHARED Found found;
  static_assert(kThreads == 256);
  const DrawItem item = p.items[BlockX()];
  HeadState* state = p.states + item.head_row;
  const float* logits = p.logits + WideProduct(BlockX(), p.vocab);
  if (state->finite == 0) {
    if (ThreadX() == 0) {
      state->drawn = 0;
      state->drawn_logit = logits[0];
    }
    return;
  }
  const float largest = state->largest;
  // Found by number, the last token that top_k keeps; then by mass the last that top_p keeps, and the drawn one.
  enum { kTopK, kTopP, kDrawn };
  if (ThreadX() == 0) last_order = 0;
  for (int search = item.draw.top_k > 0 ? kTopK : kTopP; search <= kDrawn; ++search) {
    const uint64_t least = search == kDrawn ? LeastMass(item.draw.min_p) : 1;
    if (ThreadX() == 0) found = {0, 0, 0};
    for (int shift = 24; shift >= 0; shift -= 8) {
      bins.low[ThreadX()] = bins.high[ThreadX()] = 0;
      SyncThreads();
      const uint32_t order = found.order, known = shift == 24 ? 0u : ~0u << (shift + 8);
      for (int i = ThreadX(); i < p.vocab; i += kThreads) {
        const uint32_t own = OrderOf(logits[i]);
        if ((own & known) != order || own < last_order) continue;
        const uint64_t amount = search == kTopK ? 1 : MassOf(logits[i], largest, item.draw.temperature);
        if (amount >= least) Add(bins, (own >> shift) & 255u, amount);
      }
      SyncThreads();
      if (ThreadX() == 0) {
        if (shift == 24) {
          uint64_t total = 0;
          for (int b = 0; b < 256 && (search == kTopP || least > 1); ++b) total += SumOf(bins, b);
          if (search == kTopK) {
            wanted = item.draw.top_k < p.vocab ? item.draw.top_k : p.vocab;
          } else if (search == kTopP) {
            wanted = MassToKeep(total, item.draw.top_p);
          } else {
            const uint64_t kept = least > 1 && total < wanted ? total : wanted;
            wanted = MassToPass(kept, item.draw.uniform) + 1;
          }
        }
        int digit = 255;
        while (found.above + SumOf(bins, digit) < wanted) found.above += SumOf(bins, digit--);
        found.here = SumOf(bins, digit);
        found.order |= static_cast<uint32_t>(digit) << shift;
      }
      SyncThreads();
    }
    if (ThreadX() == 0) {
      // All tokens of one order have the same mass.
      const uint64_t mass = MassOf(FloatOf(found.order), largest, item.draw.temperature);
      if (search == kTopK) {
        last_order = found.order;
      } else if (search == kTopP) {
        wanted = found.above + (wanted - found.above + mass - 1) / mass * mass;  // kept
      } else {
        wanted = (wanted - 1 - found.above) / mass;  // from here on: which token of this order
      }
    }
    SyncThreads();
  }
  // Tokens of equal order are sorted by id: each thread counts those in its range.
  const int stretch = CeilDivide(p.vocab, kThreads), begin = ThreadX() * stretch;
  const int end = begin + stretch < p.vocab ? begin + stretch : p.vocab;
  uint32_t count = 0;
  for (int i = begin; i < end; ++i) count += OrderOf(logits[i]) == found.order;
  bins.low[ThreadX()] = count;
  SyncThreads();
  uint64_t before = 0;
  for (int t = 0; t < ThreadX(); ++t) before += bins.low[t];
  if (wanted < before || wanted >= before + count) return;
  int i = begin;
  for (uint64_t left = wanted - before;; ++i) {
    if (OrderOf(logits[i]) != found.order) continue;
    if (left-- == 0) break;
  }
  state->drawn = i;
  state->drawn_logit = logits[i];
}

}  // namespace

int LaunchDraw(const DrawParams& p, LaunchStream stream) {
  return VF_LAUNCH(DrawKernel, p.draw_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchHeadStats(const HeadStatsParams& p, LaunchStream stream) {
  const int slices =
      VF_LAUNCH(HeadStatsKernel, p.row_count, CeilDivide(p.count, kHeadSlice), 1, kThreads, 0, stream, p);
  if (slices != 0) return slices;
  return VF_LAUNCH(HeadFoldKernel, CeilDivide(p.row_count, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

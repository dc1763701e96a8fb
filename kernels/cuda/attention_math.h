// Scalar operations of online softmax, shared by prefill, decode, the merge and their tests.
//
// A tile row keeps m, the largest unscaled score so far, l, the sum of its weights, and o, the weighted sum of the values.
// Weights are 2^(s c - r) with c = scale log2(e) and the reference r = m c rounded to f32, one fused multiply-add an
// element: temperature costs nothing. Both sides of the rounding cancel exactly, because every later step uses the same
// rounded r. Where c is huge (temperatures near 0) the rounding of m c alone would exceed all exponents; there m is
// subtracted from the scores first. The choice depends only on the row's c.
#pragma once

#include "kernels/cuda/simt.h"

#if defined(__CUDACC__) || defined(VF_EMULATE)
#include <math.h>

namespace varifocal::kernels::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
// Scores of magnitude up to 2^18 keep r below 2^30, where its rounding moves an exponent by at most 2^6.
inline constexpr float kSharpScale = 4096.0f;

// The scale in base 2. Clamped above zero: a masked score, minus infinity, must remain so when it is scaled.
VF_DEVICE float ScaleLog2(float scale) { return fmaxf(scale * kLog2E, 1.17549435e-38f); }

VF_DEVICE bool IsSharp(float c) { return c > kSharpScale; }

// The value subtracted from a score before it is scaled, and from the product after.
struct Reference {
  float before = 0;
  float after = 0;
};
VF_DEVICE Reference ReferenceOf(float largest, float c) {
  if (largest == -INFINITY) return {0.0f, 0.0f};
  return IsSharp(c) ? Reference{largest, 0.0f} : Reference{0.0f, largest * c};
}

// Rescaling factor for sums relative to the maximum `from` when it is now `to`; exactly 1 if unchanged.
VF_DEVICE float Rescale(float from, float to, float c) {
  if (to == -INFINITY) return 1.0f;
  return Exp2(IsSharp(c) ? (from - to) * c : from * c - to * c);
}

// Merges the result of later keys into that of earlier ones: factors of both, and the new maximum and sum. Without keys a
// result is {-infinity, 0}, and merging it changes nothing.
struct MergeFactors {
  float earlier = 0, later = 0;
  float largest = 0, sum = 0;
};
VF_DEVICE MergeFactors Merge(float largest, float sum, float later_largest, float later_sum, float c) {
  MergeFactors merged;
  merged.largest = fmaxf(largest, later_largest);
  merged.earlier = Rescale(largest, merged.largest, c);
  merged.later = Rescale(later_largest, merged.largest, c);
  merged.sum = sum * merged.earlier + later_sum * merged.later;
  return merged;
}

// The weight of an attention sink, a logit, in a sum relative to `largest`: 0 without one, which is minus infinity, and
// infinite where the keys have no weight beside it. The operations are those of a score.
VF_DEVICE float SinkWeight(float sink, float largest, float c) {
  if (sink == -INFINITY) return 0.0f;
  return largest == -INFINITY ? INFINITY : Exp2(FusedMultiplyAdd(sink, kLog2E, -(largest * c)));
}

// Natural logarithm of the sum of weights, the sink's among them; `empty` when there was none.
VF_DEVICE float LogSumExp(float largest, float sum, float c, float sink, float empty) {
  if (sum == INFINITY) return sink;
  return sum > 0 ? (largest * c) * kLn2 + logf(sum) : empty;
}

}  // namespace varifocal::kernels::cuda
#endif

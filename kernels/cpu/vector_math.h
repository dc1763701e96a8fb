// exp2, exp, sums and masks on sixteen lanes, written once for every instruction set.
//
// 2^x is split into a whole part below it and a fraction in [0, 1]. The fraction goes through a polynomial of degree 5
// with value 1 at 0: relative error 1.5e-7 with rounding; weights that become bf16, of relative error 2^-9, take one of
// degree 3: 8.6e-5. The whole part is added to the exponent's bits. On Zen 5 rounding, sums and integer operations use
// other execution units than multiply-adds, so that only the polynomial competes with products.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernel_table.h"

namespace varifocal::kernels::cpu {

// Floats per vector, in every instruction set.
inline constexpr int kLanes = 16;

// 2^f for f in [0, 1], by a polynomial whose constant term is 1.
template <typename S, int kDegree>
inline typename S::V Exp2Fraction(const float (&coefficients)[kDegree], typename S::V f) {
  typename S::V p = S::Set1(coefficients[kDegree - 1]);
#pragma GCC unroll 4
  for (int i = kDegree - 2; i >= 0; --i) p = S::Fma(p, f, S::Set1(coefficients[i]));
  return S::Fma(p, f, S::Set1(1.0f));
}

// 2^(score - row_max) for a whole row_max at most 126 below the score. The score is split before row_max is subtracted,
// so that changing row_max only multiplies the result by a power of two.
template <typename S, int kDegree = 5>
inline typename S::V Exp2Against(typename S::V score, typename S::V row_max,
                                 const float (&coefficients)[kDegree] = kExp2Coefficients) {
  const typename S::V whole = S::Floor(score);
  return S::Scale2(Exp2Fraction<S>(coefficients, S::Sub(score, whole)), S::Sub(whole, row_max));
}

// The same as a weight of a product, with the accuracy of its words.
template <typename S>
inline typename S::V WeightAgainst(typename S::V score, typename S::V row_max) {
  if constexpr (S::kPer == 1) return Exp2Against<S>(score, row_max);
  return Exp2Against<S>(score, row_max, kExp2ShortCoefficients);
}

// e^x, clamped to 2^-126..2^126.
template <typename S>
inline typename S::V Exp(typename S::V x) {
  typename S::V score = S::Mul(x, S::Set1(kLog2E));
  score = S::Max(S::Min(score, S::Set1(126.0f)), S::Set1(-126.0f));
  return Exp2Against<S>(score, S::Zero());
}

// tanh x, by a quotient of polynomials whose relative error is 5e-7; 1 from where it rounds to 1.
template <typename S>
inline typename S::V Tanh(typename S::V x) {
  constexpr float kOdd[7] = {4.89352455891786e-03f, 6.37261928875436e-04f,  1.48572235717979e-05f,
                             5.12229709037114e-08f, -8.60467152213735e-11f, 2.00018790482477e-13f,
                             -2.76076847742355e-16f};
  constexpr float kEven[4] = {4.89352518554385e-03f, 2.26843463243900e-03f, 1.18534705686654e-04f,
                              1.19825839466702e-06f};
  x = S::Max(S::Min(x, S::Set1(7.90531110763549805f)), S::Set1(-7.90531110763549805f));
  const typename S::V square = S::Mul(x, x);
  typename S::V odd = S::Set1(kOdd[6]), even = S::Set1(kEven[3]);
#pragma GCC unroll 6
  for (int i = 5; i >= 0; --i) odd = S::Fma(odd, square, S::Set1(kOdd[i]));
#pragma GCC unroll 3
  for (int i = 2; i >= 0; --i) even = S::Fma(even, square, S::Set1(kEven[i]));
  return S::Div(S::Mul(x, odd), even);
}

// Caps scores, times log2(e), of `count` keys; masked ones stay masked.
template <typename S>
inline void CapScores(float soft_cap, int count, float* scores) {
  const typename S::V cap = S::Set1(soft_cap * kLog2E), empty = S::Set1(kEmptyRowMax);
  for (int i = 0; i < count; i += kLanes) {
    const typename S::V score = S::Load(scores + i);
    S::Store(scores + i, S::SelectGreater(score, empty, S::Mul(cap, Tanh<S>(S::Div(score, cap))), score));
  }
}

// The weight of an attention sink (a logit times log2(e)) in a sum relative to 2^row_max: 0 without one, infinite where the
// keys have no weight beside it. In float64, as the sink has no bound relative to the scores.
template <typename S>
inline float SinkWeight(float sink, float row_max) {
  return sink == kNoSink ? 0.0f : static_cast<float>(std::exp2(static_cast<double>(sink) - row_max));
}

// Natural logarithm of a sum relative to 2^row_max that includes the weight of the sink.
template <typename S>
inline float LogSumExp(float row_max, float sum, float sink) {
  if (!(sum > 0)) return kEmptyLse;
  const bool is_sink = std::isinf(sum);
  return static_cast<float>((is_sink ? sink : row_max + std::log2(static_cast<double>(sum))) / kLog2EDouble);
}

// kMaskedScore where GroupsMatch of the mask is false for the groups of a lane (bits) and `groups`.
template <typename S, typename Mask>
[[gnu::always_inline]] inline typename S::V MaskByGroups(typename S::V lanes, uint32_t groups, typename S::V score) {
  const typename S::V masked = S::Set1(kMaskedScore);
  if constexpr (Mask::kVisibleWhenShared) return S::SelectAnyBit(lanes, groups, score, masked);
  return S::SelectAnyBit(lanes, groups, masked, score);
}

// to[i * stride + r] = from[r][i] for sixteen rows of `count`.
template <typename S>
inline void TransposeRows(const float* const* from, int count, float* to, int stride) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    typename S::V tile[kLanes];
    for (int r = 0; r < kLanes; ++r) tile[r] = S::Load(from[r] + i);
    S::Transpose(tile);
    for (int r = 0; r < kLanes; ++r) S::Store(to + (i + r) * stride, tile[r]);
  }
  for (; i < count; ++i) {
    for (int r = 0; r < kLanes; ++r) to[i * stride + r] = from[r][i];
  }
}

// to[r][i] = from[i * stride + r] for up to sixteen rows of `count`.
template <typename S>
inline void TransposeColumns(const float* from, int stride, int count, float* const* to, int rows) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    typename S::V tile[kLanes];
    for (int r = 0; r < kLanes; ++r) tile[r] = S::Load(from + (i + r) * stride);
    S::Transpose(tile);
    for (int r = 0; r < rows; ++r) S::Store(to[r] + i, tile[r]);
  }
  for (; i < count; ++i) {
    for (int r = 0; r < rows; ++r) to[r][i] = from[i * stride + r];
  }
}

// The sum of the lanes, as a fixed tree.
template <typename S>
inline float SumLanes(typename S::V v) {
  float x[kLanes];
  S::Store(x, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) x[i] += x[i + width];
  }
  return x[0];
}

template <typename S>
inline float MaxLanes(typename S::V v) {
  float x[kLanes];
  S::Store(x, v);
  float top = x[0];
  for (int i = 1; i < kLanes; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// scale * log2(e), clamped so that no element of the scaled query exceeds kScaledQueryMax, given its largest element.
template <typename S>
inline typename S::V LimitFactor(typename S::V factor, typename S::V largest) {
  const typename S::V limit = S::Set1(kScaledQueryMax);
  return S::SelectGreater(S::Mul(factor, largest), limit, S::Div(limit, S::Max(largest, S::Set1(1e-38f))), factor);
}

template <typename S>
inline float QueryFactor(const float* query, int dim, float scale) {
  typename S::V tops = S::Zero();
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    const typename S::V x = S::Load(query + i);
    tops = S::Max(tops, S::Max(x, S::Sub(S::Zero(), x)));
  }
  float largest = MaxLanes<S>(tops);
  for (; i < dim; ++i) largest = std::max(largest, std::fabs(query[i]));
  float factors[kLanes];
  S::Store(factors, LimitFactor<S>(S::Set1(scale * kLog2E), S::Set1(largest)));
  return factors[0];
}

// words[dim / per] of query * factor.
template <typename S>
inline void ScaleQuery(const float* query, int dim, float factor, float* words) {
  const typename S::V factors = S::Set1(factor);
  int i = 0;
  if constexpr (S::kPer == 1) {
    for (; i + kLanes <= dim; i += kLanes) S::Store(words + i, S::Mul(S::Load(query + i), factors));
    for (; i < dim; ++i) words[i] = query[i] * factor;
  } else {
    float scaled[2 * kLanes];
    for (; i + 2 * kLanes <= dim; i += 2 * kLanes) {
      S::Store(scaled, S::Mul(S::Load(query + i), factors));
      S::Store(scaled + kLanes, S::Mul(S::Load(query + i + kLanes), factors));
      S::Store(words + i / 2, S::PackAdjacent(scaled));
    }
    for (; i < dim; i += 2) words[i / 2] = PairOf(query[i] * factor, i + 1 < dim ? query[i + 1] * factor : 0.0f);
  }
}

}  // namespace varifocal::kernels::cpu

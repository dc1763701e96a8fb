// exp2, exp and sums on sixteen lanes, written once for every instruction set.
//
// 2^x is split into a whole part, which becomes the exponent, and a fraction in [-1/2, 1/2], which goes through a
// polynomial of degree 5 with value 1 at 0: relative error 2e-7 with rounding. Weights that become bf16, of relative
// error 2^-9, take one of degree 3: 1.0e-4.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernel_table.h"

namespace varifocal::kernels::cpu {

// Floats per vector, in every instruction set.
inline constexpr int kLanes = 16;

// 2^f for f in [-1/2, 1/2].
template <typename S>
inline typename S::V Exp2Fraction(typename S::V f) {
  typename S::V p = S::Fma(S::Set1(kExp2Coefficients[4]), f, S::Set1(kExp2Coefficients[3]));
  p = S::Fma(p, f, S::Set1(kExp2Coefficients[2]));
  p = S::Fma(p, f, S::Set1(kExp2Coefficients[1]));
  p = S::Fma(p, f, S::Set1(kExp2Coefficients[0]));
  return S::Fma(p, f, S::Set1(1.0f));
}

template <typename S>
inline typename S::V Exp2FractionShort(typename S::V f) {
  typename S::V p = S::Fma(S::Set1(kExp2ShortCoefficients[2]), f, S::Set1(kExp2ShortCoefficients[1]));
  p = S::Fma(p, f, S::Set1(kExp2ShortCoefficients[0]));
  return S::Fma(p, f, S::Set1(1.0f));
}

// 2^(score - reference) for a whole reference at most 126 below the score. The score is split before the reference
// enters, so that moving the reference multiplies the result by a power of two and changes nothing else.
template <typename S>
inline typename S::V Exp2Against(typename S::V score, typename S::V reference) {
  const typename S::V whole = S::Round(score);
  return S::Scale2(Exp2Fraction<S>(S::Sub(score, whole)), S::Sub(whole, reference));
}

// The same as a weight of a product: as exact as its words are.
template <typename S>
inline typename S::V WeightAgainst(typename S::V score, typename S::V reference) {
  if constexpr (S::kPer == 1) return Exp2Against<S>(score, reference);
  const typename S::V whole = S::Round(score);
  return S::Scale2(Exp2FractionShort<S>(S::Sub(score, whole)), S::Sub(whole, reference));
}

// e^x, held to 2^-126..2^126.
template <typename S>
inline typename S::V Exp(typename S::V x) {
  typename S::V score = S::Mul(x, S::Set1(kLog2E));
  score = S::Max(S::Min(score, S::Set1(126.0f)), S::Set1(-126.0f));
  return Exp2Against<S>(score, S::Zero());
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

// scale * log2(e), held so that no element of the scaled query passes kScaledQueryMax.
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
  const float factor = scale * kLog2E;
  return factor * largest > kScaledQueryMax ? kScaledQueryMax / largest : factor;
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
    for (; i < dim; i += 2) words[i / 2] = PairOf(query[i] * factor, query[i + 1] * factor);
  }
}

}  // namespace varifocal::kernels::cpu

// exp2, exp and sums on sixteen lanes, written once for every instruction set.
//
// 2^x is split into a whole part, which becomes the exponent, and a fraction in [-1/2, 1/2], which goes through a
// polynomial of degree 5 with value 1 at 0: relative error 2e-7 with rounding.
#pragma once

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

// 2^(score - reference) for a whole reference at most 126 below the score. The score is split before the reference
// enters, so that moving the reference multiplies the result by a power of two and changes nothing else.
template <typename S>
inline typename S::V Exp2Against(typename S::V score, typename S::V reference) {
  const typename S::V whole = S::Round(score);
  return S::Scale2(Exp2Fraction<S>(S::Sub(score, whole)), S::Sub(whole, reference));
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

}  // namespace varifocal::kernels::cpu

// Sixteen floats in one AVX-512 register. Include between the target pragmas of kernels_avx512.cc only.
#pragma once

#include <immintrin.h>

namespace varifocal::kernels::cpu {

struct Avx512 {
  using V = __m512;
  // Register tiles: 32 registers hold 24 accumulators, 3-4 operands and a broadcast.
  static constexpr int kLaneVectors = 3;  // query lanes of an attention tile, in vectors
  static constexpr int kScoreKeys = 8;    // keys of an attention tile
  static constexpr int kValueDims = 8;    // head dims of a P V tile
  static constexpr int kGemmRows = 6;
  static constexpr int kGemmVectors = 4;

  static V Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, V v) { _mm512_storeu_ps(to, v); }
  static V Set1(float x) { return _mm512_set1_ps(x); }
  static V Zero() { return _mm512_setzero_ps(); }
  static V Add(V a, V b) { return _mm512_add_ps(a, b); }
  static V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V Div(V a, V b) { return _mm512_div_ps(a, b); }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  static V Max(V a, V b) { return _mm512_max_ps(a, b); }
  static V Min(V a, V b) { return _mm512_min_ps(a, b); }
  // Nearest integer, ties to even.
  static V Round(V v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // x * 2^exponent for x in [0.5, 2) and whole exponents up to 126; below -126 the result is zero.
  static V Scale2(V x, V exponent) { return _mm512_scalef_ps(x, exponent); }
  static bool AnyGreater(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  // a > b ? yes : no
  static V SelectGreater(V a, V b, V yes, V no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
  }
  // low <= x < high ? yes : no
  static V SelectBetween(V x, V low, V high, V yes, V no) {
    const __mmask16 inside = _mm512_cmp_ps_mask(low, x, _CMP_LE_OQ) & _mm512_cmp_ps_mask(x, high, _CMP_LT_OQ);
    return _mm512_mask_blend_ps(inside, no, yes);
  }
};

}  // namespace varifocal::kernels::cpu

// Sixteen floats in one AVX-512 register, and sixteen pairs of bf16. Include between VF_BEGIN_TARGET and VF_END_TARGET only.
#pragma once

#include <immintrin.h>

#if !defined(__clang__)
// g++ 12 mistakes the undefined pass-through operand of its own AVX-512 headers for an uninitialised variable.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace varifocal::kernels::cpu {

struct Avx512 {
  using V = __m512;
  // Register tiles: 32 registers hold 24 accumulators, 3-4 operands and a broadcast.
  static constexpr int kLaneVectors = 3;  // lanes of an attention tile, a query each, in vectors
  static constexpr int kScoredTiles = 1;  // tiles of keys whose scores are computed together
  static constexpr int kScoreKeys = 8;    // keys of a score tile; the last one of the tiles may have fewer
  static constexpr int kValueDims = 8;    // head dims of a P V tile; the last one of sixteen may have fewer
  static constexpr int kDecodeKeys = 8;   // keys that are rows, of a score tile of decode
  static constexpr int kProductRows = 4;  // of row_products, times four columns
  static constexpr int kGemmRows = 6;
  static constexpr int kGemmVectors = 4;
  static constexpr int kPer = 1;  // products per word

  static V Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, V v) { _mm512_storeu_ps(to, v); }
  static V Set1(float x) { return _mm512_set1_ps(x); }
  static V Zero() { return _mm512_setzero_ps(); }
  static V Add(V a, V b) { return _mm512_add_ps(a, b); }
  static V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V Div(V a, V b) { return _mm512_div_ps(a, b); }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  static V Dot(V a, V b, V c) { return Fma(a, b, c); }
  static V Max(V a, V b) { return _mm512_max_ps(a, b); }
  static V Min(V a, V b) { return _mm512_min_ps(a, b); }
  // Nearest integer, ties to even.
  static V Round(V v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static V Floor(V v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  // x * 2^exponent for x in [1, 2] and whole exponents up to 126. Below -126 exponents count as -127, where 1 gives an
  // exact zero and other x a denormal.
  static V Scale2(V x, V exponent) {
    const __m512i whole = _mm512_max_epi32(_mm512_cvtps_epi32(exponent), _mm512_set1_epi32(-127));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(whole, 23)));
  }
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
  // a & bits, as integers, is not 0 ? yes : no
  static V SelectAnyBit(V a, uint32_t bits, V yes, V no) {
    const __mmask16 any = _mm512_test_epi32_mask(_mm512_castps_si512(a), _mm512_set1_epi32(bits));
    return _mm512_mask_blend_ps(any, no, yes);
  }
  // Bit i: groups[i] & bits is not 0.
  static uint32_t AnyBits(const uint32_t* groups, uint32_t bits) {
    return _mm512_test_epi32_mask(_mm512_loadu_si512(groups), _mm512_set1_epi32(bits));
  }
  // The numbers of from[16] at the bits of `mask`, in order, and `first` plus the bits' indices; up to sixteen are written.
  static void Compress(const uint32_t* from, uint32_t mask, uint32_t* to) {
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), _mm512_loadu_si512(from)));
  }
  static void CompressIndices(int32_t first, uint32_t mask, int32_t* to) {
    const __m512i indices = _mm512_add_epi32(_mm512_set1_epi32(first),
                                             _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), indices));
  }
  // The numbers from `from` on, in order, in the lanes at the bits of `mask`; `rest` in the others.
  static V Expand(const float* from, uint32_t mask, float rest) {
    return _mm512_mask_expandloadu_ps(_mm512_set1_ps(rest), static_cast<__mmask16>(mask), from);
  }
  // Lane r: the sum of the lanes of rows[r], four at a time as (0 + 2) + (1 + 3), then these four sums in the same way.
  static V SumEach(const V (&rows)[16]) {
    V fours[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const V* r = rows + 4 * i;
      const V low = Add(_mm512_unpacklo_ps(r[0], r[1]), _mm512_unpackhi_ps(r[0], r[1]));
      const V high = Add(_mm512_unpacklo_ps(r[2], r[3]), _mm512_unpackhi_ps(r[2], r[3]));
      fours[i] = Add(_mm512_shuffle_ps(low, high, 0x44), _mm512_shuffle_ps(low, high, 0xEE));
    }
    const V a = Add(_mm512_shuffle_f32x4(fours[0], fours[1], 0x44), _mm512_shuffle_f32x4(fours[0], fours[1], 0xEE));
    const V b = Add(_mm512_shuffle_f32x4(fours[2], fours[3], 0x44), _mm512_shuffle_f32x4(fours[2], fours[3], 0xEE));
    return Add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  }
  // tile[r][c] becomes tile[c][r].
  static void Transpose(V (&tile)[16]) {
    V pairs[16], fours[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(tile[i], tile[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(tile[i], tile[i + 1]);
    }
    // Four rows make 4 x 4 blocks along the 128-bit parts: fours[4 g + c] holds columns c, 4 + c, 8 + c, 12 + c.
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const V low = pairs[i + half], high = pairs[i + 2 + half];
        fours[i + 2 * half] = _mm512_shuffle_ps(low, high, 0x44);
        fours[i + 2 * half + 1] = _mm512_shuffle_ps(low, high, 0xEE);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const V a = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x88),
              b = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xDD);
      const V e = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x88),
              f = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xDD);
      tile[c] = _mm512_shuffle_f32x4(a, e, 0x88);
      tile[4 + c] = _mm512_shuffle_f32x4(b, f, 0x88);
      tile[8 + c] = _mm512_shuffle_f32x4(a, e, 0xDD);
      tile[12 + c] = _mm512_shuffle_f32x4(b, f, 0xDD);
    }
  }
};

// Words are pairs of bf16, the even one in the lower half, widened in registers.
struct Avx512Pairs : Avx512 {
  static constexpr int kScoreKeys = 4;
  static constexpr int kValueDims = 4;
  static constexpr int kDecodeKeys = 4;
  static constexpr int kGemmVectors = 2;
  static constexpr int kPer = 2;

  static V Even(V v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 16)); }
  static V Odd(V v) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(-65536))); }
  static V Dot(V a, V b, V c) { return Fma(Odd(a), Odd(b), Fma(Even(a), Even(b), c)); }
  // One number of each word, and words of two numbers that are bf16 already.
  static V Half(V v, int odd) {
    return Odd(_mm512_castsi512_ps(_mm512_sll_epi32(_mm512_castps_si512(v), _mm_cvtsi32_si128(odd != 0 ? 0 : 16))));
  }
  static V Join(V even, V odd) {
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(Odd(odd))));
  }
  // Rounds both to bf16, to nearest, ties upwards; for weights, which are not negative.
  static V Pack(V even, V odd) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(even), half), 16);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(odd), half);
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi32(-65536))));
  }
  // Sixteen words of thirty-two adjacent values; to nearest, ties to even.
  static V PackAdjacent(const float* from) {
    const __m256i low = _mm512_cvtepi32_epi16(_mm512_srli_epi32(Rounded(Load(from)), 16));
    const __m256i high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(Rounded(Load(from + 16)), 16));
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }

 private:
  static __m512i Rounded(V v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF)));
  }
};

#if defined(VARIFOCAL_BF16_DOT)
// The same words through VDPBF16PS, which multiplies and adds a pair, with its own rounding, and flushes denormals.
struct Avx512Bf16 : Avx512Pairs {
  static constexpr int kScoreKeys = 8;
  static constexpr int kValueDims = 8;
  static constexpr int kDecodeKeys = 8;
  static constexpr int kGemmVectors = 4;
  static V Dot(V a, V b, V c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
  // The conversion rounds as that of Avx512Pairs does, but for denormals, which become zero.
  static V PackAdjacent(const float* from) {
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(Load(from + 16), Load(from)));
  }
};
#endif

}  // namespace varifocal::kernels::cpu

// Sixteen floats in two AVX2 registers, and sixteen pairs of bf16. Include between VF_BEGIN_TARGET and
// VF_END_TARGET only.
//
// Lane by lane the same operations as AVX-512, so results have the same bits.
#pragma once

#include <immintrin.h>

#include <bit>

namespace varifocal::kernels::cpu {

struct Avx2 {
  struct V {
    __m256 a, b;
  };
  // Register tiles: 16 registers hold 8 to 12 accumulators, 2 operands and a broadcast. Two multiply-adds per cycle with a
  // latency of four need 8 without a gap.
  static constexpr int kLaneVectors = 1;
  static constexpr int kScoredTiles = 2;
  static constexpr int kScoreKeys = 6;
  static constexpr int kValueDims = 6;
  static constexpr int kDecodeKeys = 4;
  static constexpr int kProductRows = 1;  // of row_products, times four columns
  static constexpr int kGemmRows = 6;
  static constexpr int kGemmVectors = 1;
  static constexpr int kPer = 1;  // products per word

  static V Load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static void Store(float* to, V v) {
    _mm256_storeu_ps(to, v.a);
    _mm256_storeu_ps(to + 8, v.b);
  }
  static V Set1(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return {v, v};
  }
  static V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static V Add(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static V Sub(V x, V y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static V Mul(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static V Div(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static V Fma(V x, V y, V z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static V Dot(V x, V y, V z) { return Fma(x, y, z); }
  static V Max(V x, V y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static V Min(V x, V y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static V Round(V v) { return {RoundHalf(v.a), RoundHalf(v.b)}; }
  static V Floor(V v) { return {FloorHalf(v.a), FloorHalf(v.b)}; }
  static V Scale2(V x, V exponent) { return {Scale2Half(x.a, exponent.a), Scale2Half(x.b, exponent.b)}; }
  static bool AnyGreater(V x, V y) {
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ))) !=
           0;
  }
  static V SelectGreater(V x, V y, V yes, V no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ))};
  }
  static V SelectBetween(V x, V low, V high, V yes, V no) {
    return {_mm256_blendv_ps(no.a, yes.a, Inside(x.a, low.a, high.a)),
            _mm256_blendv_ps(no.b, yes.b, Inside(x.b, low.b, high.b))};
  }
  // a & bits, as integers, is not 0 ? yes : no
  static V SelectAnyBit(V x, uint32_t bits, V yes, V no) {
    const __m256i all = _mm256_set1_epi32(bits);
    return {_mm256_blendv_ps(yes.a, no.a, NoBit(x.a, all)), _mm256_blendv_ps(yes.b, no.b, NoBit(x.b, all))};
  }
  // Bit i: groups[i] & bits is not 0.
  static uint32_t AnyBits(const uint32_t* groups, uint32_t bits) {
    const __m256i all = _mm256_set1_epi32(bits);
    const auto* halves = reinterpret_cast<const float*>(groups);
    const int a = _mm256_movemask_ps(NoBit(_mm256_loadu_ps(halves), all));
    const int b = _mm256_movemask_ps(NoBit(_mm256_loadu_ps(halves + 8), all));
    return static_cast<uint32_t>(~(a | b << 8)) & 0xFFFFu;
  }
  // The numbers of from[16] at the bits of `mask`, in order, and `first` plus the bits' indices; up to sixteen are written.
  static void Compress(const uint32_t* from, uint32_t mask, uint32_t* to) {
    for (; mask != 0; mask &= mask - 1) *to++ = from[std::countr_zero(mask)];
  }
  static void CompressIndices(int32_t first, uint32_t mask, int32_t* to) {
    for (; mask != 0; mask &= mask - 1) *to++ = first + std::countr_zero(mask);
  }
  // The numbers from `from` on, in order, in the lanes at the bits of `mask`; `rest` in the others.
  static V Expand(const float* from, uint32_t mask, float rest) {
    float lanes[16];
    for (int i = 0; i < 16; ++i) lanes[i] = (mask >> i & 1u) != 0 ? *from++ : rest;
    return Load(lanes);
  }
  // Lane r: the sum of the lanes of rows[r], four at a time as (0 + 2) + (1 + 3), then these four sums in the same way.
  static V SumEach(const V (&rows)[16]) { return {SumEight(rows), SumEight(rows + 8)}; }
  // tile[r][c] becomes tile[c][r].
  static void Transpose(V (&tile)[16]) {
    __m256 corners[4][8];
    for (int r = 0; r < 8; ++r) {
      corners[0][r] = tile[r].a;
      corners[1][r] = tile[r].b;
      corners[2][r] = tile[8 + r].a;
      corners[3][r] = tile[8 + r].b;
    }
    for (auto& corner : corners) TransposeCorner(corner);
    for (int r = 0; r < 8; ++r) {
      tile[r] = {corners[0][r], corners[2][r]};
      tile[8 + r] = {corners[1][r], corners[3][r]};
    }
  }

 private:
  // Per 128 bits: the sums of p, q, r and s.
  static __m256 SumFour(__m256 p, __m256 q, __m256 r, __m256 s) {
    const __m256 low = _mm256_add_ps(_mm256_unpacklo_ps(p, q), _mm256_unpackhi_ps(p, q));
    const __m256 high = _mm256_add_ps(_mm256_unpacklo_ps(r, s), _mm256_unpackhi_ps(r, s));
    return _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x44), _mm256_shuffle_ps(low, high, 0xEE));
  }
  // Of four rows: the sums of their parts of 128 bits 0 and 2, then those of parts 1 and 3.
  static __m256 SumFourRows(const V* r) {
    return _mm256_add_ps(SumFour(r[0].a, r[1].a, r[2].a, r[3].a), SumFour(r[0].b, r[1].b, r[2].b, r[3].b));
  }
  static __m256 SumEight(const V* rows) {
    const __m256 low = SumFourRows(rows), high = SumFourRows(rows + 4);
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
  }
  static __m256 NoBit(__m256 x, __m256i bits) {
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), bits), _mm256_setzero_si256()));
  }
  static void TransposeCorner(__m256 (&rows)[8]) {
    __m256 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      for (int half = 0; half < 2; ++half) {
        fours[i + 2 * half] = _mm256_shuffle_ps(pairs[i + half], pairs[i + 2 + half], 0x44);
        fours[i + 2 * half + 1] = _mm256_shuffle_ps(pairs[i + half], pairs[i + 2 + half], 0xEE);
      }
    }
    for (int c = 0; c < 4; ++c) {
      rows[c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x20);
      rows[4 + c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x31);
    }
  }
  static __m256 RoundHalf(__m256 v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static __m256 Inside(__m256 x, __m256 low, __m256 high) {
    return _mm256_and_ps(_mm256_cmp_ps(low, x, _CMP_LE_OQ), _mm256_cmp_ps(x, high, _CMP_LT_OQ));
  }
  static __m256 FloorHalf(__m256 v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static __m256 Scale2Half(__m256 x, __m256 exponent) {
    const __m256i whole = _mm256_max_epi32(_mm256_cvtps_epi32(exponent), _mm256_set1_epi32(-127));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(whole, 23)));
  }
};

// Words are pairs of bf16, the even one in the lower half, widened in registers.
struct Avx2Pairs : Avx2 {
  static constexpr int kScoredTiles = 1;  // widening takes registers
  static constexpr int kScoreKeys = 4;
  static constexpr int kValueDims = 4;
  static constexpr int kGemmRows = 4;
  static constexpr int kPer = 2;

  static V Dot(V x, V y, V z) { return Fma(Odd(x), Odd(y), Fma(Even(x), Even(y), z)); }
  // One number of each word, and words of two numbers that are bf16 already.
  static V Half(V v, int odd) { return {OneHalf(v.a, odd), OneHalf(v.b, odd)}; }
  static V Join(V even, V odd) { return {JoinHalf(even.a, odd.a), JoinHalf(even.b, odd.b)}; }
  // Rounds both to bf16, to nearest, ties upwards; for weights, which are not negative.
  static V Pack(V even, V odd) { return {PackHalf(even.a, odd.a), PackHalf(even.b, odd.b)}; }
  // Sixteen words of thirty-two adjacent values; to nearest, ties to even.
  static V PackAdjacent(const float* from) { return {PackQuarter(from), PackQuarter(from + 16)}; }

 private:
  static __m256 PackQuarter(const float* from) {
    const __m256i a = _mm256_srli_epi32(Rounded(_mm256_loadu_ps(from)), 16);
    const __m256i b = _mm256_srli_epi32(Rounded(_mm256_loadu_ps(from + 8)), 16);
    // The pack works in 128-bit halves; the permutation puts them back in order.
    return _mm256_castsi256_ps(_mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8));
  }
  static __m256 EvenHalf(__m256 v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 16)); }
  static __m256 OddHalf(__m256 v) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(-65536)));
  }
  static __m256 OneHalf(__m256 v, int odd) {
    const __m128i bits = _mm_cvtsi32_si128(odd != 0 ? 0 : 16);
    return OddHalf(_mm256_castsi256_ps(_mm256_sll_epi32(_mm256_castps_si256(v), bits)));
  }
  static __m256 JoinHalf(__m256 even, __m256 odd) {
    return _mm256_or_ps(_mm256_castsi256_ps(_mm256_srli_epi32(_mm256_castps_si256(even), 16)), OddHalf(odd));
  }
  static V Even(V v) { return {EvenHalf(v.a), EvenHalf(v.b)}; }
  static V Odd(V v) { return {OddHalf(v.a), OddHalf(v.b)}; }
  static __m256i Rounded(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7FFF)));
  }
  static __m256 PackHalf(__m256 even, __m256 odd) {
    const __m256i half = _mm256_set1_epi32(0x8000);
    const __m256i low = _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(even), half), 16);
    const __m256i high = _mm256_add_epi32(_mm256_castps_si256(odd), half);
    return _mm256_castsi256_ps(_mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(-65536))));
  }
};

}  // namespace varifocal::kernels::cpu

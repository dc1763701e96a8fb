// Sixteen floats as an array: for CPUs without AVX2, and as the specification of the other two.
//
// Without a fused multiply-add its results differ from theirs in the last bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace varifocal::kernels::cpu {

struct Portable {
  struct V {
    float x[16];
  };
  static constexpr int kLaneVectors = 1;
  static constexpr int kScoredTiles = 1;
  static constexpr int kScoreKeys = 2;
  static constexpr int kValueDims = 2;
  static constexpr int kDecodeKeys = 2;
  static constexpr int kProductRows = 1;  // of row_products, times four columns
  static constexpr int kGemmRows = 2;
  static constexpr int kGemmVectors = 1;
  static constexpr int kPer = 1;  // products per word

  template <typename F>
  static V Each(const F& f) {
    V v;
    for (int i = 0; i < 16; ++i) v.x[i] = f(i);
    return v;
  }
  static V Load(const float* from) {
    return Each([&](int i) { return from[i]; });
  }
  static void Store(float* to, const V& v) {
    for (int i = 0; i < 16; ++i) to[i] = v.x[i];
  }
  static V Set1(float x) {
    return Each([&](int) { return x; });
  }
  static V Zero() { return Set1(0.0f); }
  static V Add(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] + b.x[i]; });
  }
  static V Sub(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] - b.x[i]; });
  }
  static V Mul(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] * b.x[i]; });
  }
  static V Div(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] / b.x[i]; });
  }
  static V Fma(const V& a, const V& b, const V& c) {
    return Each([&](int i) { return a.x[i] * b.x[i] + c.x[i]; });
  }
  static V Dot(const V& a, const V& b, const V& c) { return Fma(a, b, c); }
  static V Max(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
  }
  static V Min(const V& a, const V& b) {
    return Each([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
  }
  static V Round(const V& v) {
    // Adding 2^23 leaves no bits for a fraction; floats from there on are whole.
    return Each([&](int i) {
      const float size = std::fabs(v.x[i]);
      return size < 0x1p23f ? std::copysign((size + 0x1p23f) - 0x1p23f, v.x[i]) : v.x[i];
    });
  }
  static V Floor(const V& v) {
    return Each([&](int i) { return std::floor(v.x[i]); });
  }
  static V Scale2(const V& x, const V& exponent) {
    return Each([&](int i) {
      const int whole = static_cast<int>(exponent.x[i] > -127.0f ? exponent.x[i] : -127.0f);
      return std::bit_cast<float>(std::bit_cast<uint32_t>(x.x[i]) + (static_cast<uint32_t>(whole) << 23));
    });
  }
  static bool AnyGreater(const V& a, const V& b) {
    bool any = false;
    for (int i = 0; i < 16; ++i) any |= a.x[i] > b.x[i];
    return any;
  }
  static V SelectGreater(const V& a, const V& b, const V& yes, const V& no) {
    return Each([&](int i) { return a.x[i] > b.x[i] ? yes.x[i] : no.x[i]; });
  }
  static V SelectBetween(const V& x, const V& low, const V& high, const V& yes, const V& no) {
    return Each([&](int i) { return low.x[i] <= x.x[i] && x.x[i] < high.x[i] ? yes.x[i] : no.x[i]; });
  }
  // a & bits, as integers, is not 0 ? yes : no
  static V SelectAnyBit(const V& a, uint32_t bits, const V& yes, const V& no) {
    return Each([&](int i) { return (std::bit_cast<uint32_t>(a.x[i]) & bits) != 0 ? yes.x[i] : no.x[i]; });
  }
  // Bit i: groups[i] & bits is not 0.
  static uint32_t AnyBits(const uint32_t* groups, uint32_t bits) {
    uint32_t any = 0;
    for (int i = 0; i < 16; ++i) any |= static_cast<uint32_t>((groups[i] & bits) != 0) << i;
    return any;
  }
  // The numbers from `from` on, in order, in the lanes at the bits of `mask`; `rest` in the others.
  static V Expand(const float* from, uint32_t mask, float rest) {
    float lanes[16];
    for (int i = 0; i < 16; ++i) lanes[i] = (mask >> i & 1u) != 0 ? *from++ : rest;
    return Load(lanes);
  }
  // Lane r: the sum of the lanes of rows[r], four at a time as (0 + 2) + (1 + 3), then these four sums in the same way.
  static V SumEach(const V (&rows)[16]) {
    return Each([&](int r) {
      const auto sum = [](const float* x) { return (x[0] + x[2]) + (x[1] + x[3]); };
      float fours[4];
      for (int i = 0; i < 4; ++i) fours[i] = sum(rows[r].x + 4 * i);
      return sum(fours);
    });
  }
  // The numbers of from[16] at the bits of `mask`, in order, and `first` plus the bits' indices; up to sixteen are written.
  static void Compress(const uint32_t* from, uint32_t mask, uint32_t* to) {
    for (; mask != 0; mask &= mask - 1) *to++ = from[std::countr_zero(mask)];
  }
  static void CompressIndices(int32_t first, uint32_t mask, int32_t* to) {
    for (; mask != 0; mask &= mask - 1) *to++ = first + std::countr_zero(mask);
  }
  // tile[r][c] becomes tile[c][r].
  static void Transpose(V (&tile)[16]) {
    for (int r = 0; r < 16; ++r) {
      for (int c = 0; c < r; ++c) std::swap(tile[r].x[c], tile[c].x[r]);
    }
  }
};

// Words are pairs of bf16, the even one in the lower half.
struct PortablePairs : Portable {
  static constexpr int kPer = 2;

  static float Even(float word) { return std::bit_cast<float>(std::bit_cast<uint32_t>(word) << 16); }
  static float Odd(float word) { return std::bit_cast<float>(std::bit_cast<uint32_t>(word) & 0xFFFF0000u); }
  static V Dot(const V& a, const V& b, const V& c) {
    return Each([&](int i) { return Odd(a.x[i]) * Odd(b.x[i]) + (Even(a.x[i]) * Even(b.x[i]) + c.x[i]); });
  }
  // One number of each word, and words of two numbers that are bf16 already.
  static V Half(const V& v, int odd) {
    return Each([&](int i) { return odd != 0 ? Odd(v.x[i]) : Even(v.x[i]); });
  }
  static V Join(const V& even, const V& odd) {
    return Each([&](int i) {
      return std::bit_cast<float>(std::bit_cast<uint32_t>(even.x[i]) >> 16 | std::bit_cast<uint32_t>(Odd(odd.x[i])));
    });
  }
  // Rounds both to bf16, to nearest, ties upwards; for weights, which are not negative.
  static V Pack(const V& even, const V& odd) {
    return Each([&](int i) {
      const uint32_t low = (std::bit_cast<uint32_t>(even.x[i]) + 0x8000u) >> 16;
      return std::bit_cast<float>(low | ((std::bit_cast<uint32_t>(odd.x[i]) + 0x8000u) & 0xFFFF0000u));
    });
  }
  // Sixteen words of thirty-two adjacent values; to nearest, ties to even.
  static V PackAdjacent(const float* from) {
    return Each([&](int i) {
      return std::bit_cast<float>((Rounded(from[2 * i]) >> 16) | (Rounded(from[2 * i + 1]) & 0xFFFF0000u));
    });
  }

 private:
  static uint32_t Rounded(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return bits + 0x7FFFu + ((bits >> 16) & 1u);
  }
};

}  // namespace varifocal::kernels::cpu

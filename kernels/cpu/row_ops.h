// Row operations: norms, dot products, the statistics of a slice of logits, and the machine's peak.
#pragma once

#include <cmath>

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

// Lanes sum every sixteenth product; then a fixed tree, then the tail in order.
template <typename S>
float DotRow(const float* a, const float* b, int64_t count) {
  typename S::V sums = S::Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sums = S::Fma(S::Load(a + i), S::Load(b + i), sums);
  float sum = SumLanes<S>(sums);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// sums[4 r + n] = products of a[r] and b[n], lane by lane: every sixteenth one.
template <typename S, int kRows>
[[gnu::always_inline]] inline void ProductLanes(const float* const* a, const float* const* b, int64_t count,
                                                typename S::V* sums) {
  typename S::V sum[kRows][4];
  const auto add = [&](const auto& load, int64_t at) {
    typename S::V x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) x[r] = load(a[r] + at);
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      const typename S::V y = load(b[n] + at);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r][n] = S::Fma(x[r], y, sum[r][n]);
    }
  };
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) sum[r][n] = S::Zero();
  }
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) add(S::Load, i);
  if (whole < count) {
    const auto load_rest = [&](const float* from) {
      float lanes[kLanes] = {};
      std::copy(from, from + count - whole, lanes);
      return S::Load(lanes);
    };
    add(load_rest, whole);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) sums[4 * r + n] = sum[r][n];
  }
}

// See RowProducts: sixteen products at a time, so that their lanes are summed by one tree.
template <typename S>
void MultiplyRows(const RowProducts& args) {
  constexpr int kRows = S::kProductRows;
  static_assert(4 % kRows == 0);
  const auto b_row = [&](int n) { return args.b + std::min(n, args.b_rows - 1) * args.count; };
  float products[kLanes];
  typename S::V sums[kLanes];
  const int out_stride = args.out_stride == 0 ? args.b_rows : args.out_stride;
  int row = 0;
  for (; row + 4 <= args.a_rows; row += 4) {
    const float* a[4];
    for (int r = 0; r < 4; ++r) a[r] = args.a + (row + r) * args.count;
    for (int first = 0; first < args.b_rows; first += 4) {
      const float* b[4];
      for (int n = 0; n < 4; ++n) b[n] = b_row(first + n);
      for (int r = 0; r < 4; r += kRows) ProductLanes<S, kRows>(a + r, b, args.count, sums + 4 * r);
      S::Store(products, S::SumEach(sums));
      const int columns = std::min(4, args.b_rows - first);
      for (int r = 0; r < 4; ++r) std::copy_n(products + 4 * r, columns, args.out + (row + r) * out_stride + first);
    }
  }
  for (; row < args.a_rows; ++row) {
    const float* a = args.a + row * args.count;
    for (int first = 0; first < args.b_rows; first += kLanes) {
      for (int part = 0; part < kLanes; part += 4) {
        const float* b[4];
        for (int n = 0; n < 4; ++n) b[n] = b_row(first + part + n);
        ProductLanes<S, 1>(&a, b, args.count, sums + part);
      }
      S::Store(products, S::SumEach(sums));
      std::copy_n(products, std::min(kLanes, args.b_rows - first), args.out + row * out_stride + first);
    }
  }
}

// In the order of DotRow.
template <typename S>
float SumRow(const float* x, int64_t count) {
  typename S::V sums = S::Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sums = S::Add(sums, S::Load(x + i));
  float sum = SumLanes<S>(sums);
  for (; i < count; ++i) sum += x[i];
  return sum;
}

template <typename S>
float SumSquaresAround(const float* x, int64_t count, float mean) {
  const typename S::V shift = S::Set1(mean);
  typename S::V sums = S::Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const typename S::V apart = S::Sub(S::Load(x + i), shift);
    sums = S::Fma(apart, apart, sums);
  }
  float sum = SumLanes<S>(sums);
  for (; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

template <typename S>
void NormRow(const NormRowArgs& args) {
  const float* x = args.x;
  const int64_t width = args.width;
  int64_t i = 0;
  if (args.kind == NormKind::kNone) {
    for (i = 0; i < width; ++i) args.out[i] = x[i];
    return;
  }
  const float count = width;
  const float mean = args.kind == NormKind::kLayer ? SumRow<S>(x, width) / count : 0.0f;
  const float squares = args.kind == NormKind::kLayer ? SumSquaresAround<S>(x, width, mean) : DotRow<S>(x, x, width);
  const float inverse = 1.0f / std::sqrt(squares / count + args.epsilon);
  const typename S::V factor = S::Set1(inverse), shift = S::Set1(mean);
  for (i = 0; i + kLanes <= width; i += kLanes) {
    typename S::V y = S::Mul(S::Mul(S::Sub(S::Load(x + i), shift), factor), S::Load(args.weight + i));
    if (args.bias != nullptr) y = S::Add(y, S::Load(args.bias + i));
    S::Store(args.out + i, y);
  }
  for (; i < width; ++i) {
    const float y = (x[i] - mean) * inverse * args.weight[i];
    args.out[i] = args.bias != nullptr ? y + args.bias[i] : y;
  }
}

template <typename S>
SliceStats LogitSliceStats(const float* logits, int count) {
  SliceStats stats;
  stats.top = logits[0];
  stats.runner_up = -INFINITY;
  stats.finite = std::isfinite(logits[0]);
  for (int i = 1; i < count; ++i) {
    const float logit = logits[i];
    stats.finite = stats.finite && std::isfinite(logit);
    if (logit > stats.top) {
      stats.runner_up = stats.top;
      stats.top = logit;
      stats.argmax = i;
    } else if (logit > stats.runner_up) {
      stats.runner_up = logit;
    }
  }
  typename S::V sums = S::Zero();
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) sums = S::Add(sums, Exp<S>(S::Sub(S::Load(logits + i), S::Set1(stats.top))));
  stats.sum = SumLanes<S>(sums);
  for (; i < count; ++i) stats.sum += std::exp(logits[i] - stats.top);
  return stats;
}

template <typename S>
void PackRow(const float* x, int64_t count, float* words) {
  if constexpr (S::kPer == 1) {
    for (int64_t i = 0; i < count; ++i) words[i] = x[i];
  } else {
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) S::Store(words + i / 2, S::PackAdjacent(x + i));
    for (; i + 2 <= count; i += 2) words[i / 2] = PairOf(x[i], x[i + 1]);
    if (i < count) words[i / 2] = PairOf(x[i], 0.0f);
  }
}

// Products of words over registers alone, as many chains as a product tile has; returns the flops done.
template <typename S>
double MultiplyAddPeak(int64_t steps, float* sink) {
  constexpr int kChains = S::kGemmRows * S::kGemmVectors;
  // All lanes differ, or the compiler would compute them once.
  float first[kChains * kLanes];
  for (int i = 0; i < kChains * kLanes; ++i) first[i] = i;
  typename S::V sum[kChains];
#pragma GCC unroll 24
  for (int i = 0; i < kChains; ++i) sum[i] = S::Load(first + i * kLanes);
  const typename S::V a = S::Set1(0.999f), b = S::Load(first);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sum[i] = S::Dot(a, b, sum[i]);
  }
  typename S::V total = S::Zero();
#pragma GCC unroll 24
  for (int i = 0; i < kChains; ++i) total = S::Add(total, sum[i]);
  *sink = SumLanes<S>(total);
  return 2.0 * S::kPer * kChains * kLanes * static_cast<double>(steps);
}

}  // namespace varifocal::kernels::cpu

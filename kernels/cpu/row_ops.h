// Work on single rows: norms, dot products, the statistics of a slice of logits, and the machine's own peak.
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

template <typename S>
void RmsNormRow(float* x, const float* delta, const float* weight, int64_t width, float epsilon, float* out) {
  int64_t i = 0;
  if (delta != nullptr) {
    for (; i + kLanes <= width; i += kLanes) S::Store(x + i, S::Add(S::Load(x + i), S::Load(delta + i)));
    for (; i < width; ++i) x[i] += delta[i];
  }
  const float inverse = 1.0f / std::sqrt(DotRow<S>(x, x, width) / static_cast<float>(width) + epsilon);
  const typename S::V factor = S::Set1(inverse);
  for (i = 0; i + kLanes <= width; i += kLanes)
    S::Store(out + i, S::Mul(S::Mul(S::Load(x + i), factor), S::Load(weight + i)));
  for (; i < width; ++i) out[i] = x[i] * inverse * weight[i];
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
  // No two lanes alike, or the compiler would compute them once.
  float first[kChains * kLanes];
  for (int i = 0; i < kChains * kLanes; ++i) first[i] = static_cast<float>(i);
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

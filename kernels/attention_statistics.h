// Statistics of the attention of one query row and head, accumulated over blocks of keys: no weight is stored.
//
//   p_j = exp(s_j) / Z over the visible keys;  entropy = -sum p_j ln p_j = ln Z - (sum e_j t_j) / Z
//
// with t_j = s_j - max s, e_j = exp(t_j), in float64, as in the online softmax (Milakov and Gimelshein 2018). An
// attention sink takes its share of the weight from all keys alike: it scales every p_j, and the entropy stays that of the
// keys among themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace varifocal::kernels {

struct HeadAttention {
  int32_t visible_count = 0;  // keys the row sees; where there are none the rest is 0 but the sink's
  float scale = 0;            // q.k is multiplied with it
  double log_sum_exp = 0;     // natural logarithm, with the sink
  double entropy = 0;         // nats, of the keys' weights; exp of it is the effective number of keys
  double largest_weight = 0;  // of a key
  double sink_weight = 0;     // of the attention sink; the keys have the rest
};

// Segments are [boundaries[i], boundaries[i + 1]), by absolute position; their masses are shares of the row's weight.
class AttentionStatistics {
 public:
  // `boundaries` rise; masses.size() == boundaries.size() - 1.
  AttentionStatistics(std::span<const int32_t> boundaries, std::span<double> masses)
      : boundaries_(boundaries), masses_(masses) {
    std::fill(masses_.begin(), masses_.end(), 0.0);
  }

  // `count` keys: score(n) is the scaled score of the key at position(n), counts(n) whether the row sees it. Positions
  // rise, also from call to call.
  template <typename Score, typename Position, typename Counts>
  void Add(int count, const Score& score, const Position& position, const Counts& counts) {
    double top = largest_;
    for (int n = 0; n < count; ++n) {
      if (counts(n)) top = std::max<double>(top, score(n));
    }
    Raise(top);
    for (int n = 0; n < count; ++n) {
      if (!counts(n)) continue;
      const double below = score(n) - largest_, weight = std::exp(below);
      ++visible_count_;
      sum_ += weight;
      weighted_ += weight * below;
      const int32_t key = position(n);
      while (segment_ < masses_.size() && key >= boundaries_[segment_ + 1]) ++segment_;
      if (segment_ < masses_.size() && key >= boundaries_[segment_]) masses_[segment_] += weight;
    }
  }

  // Divides the masses; call once. `sink` is its logit, minus infinity where there is none.
  HeadAttention Finish(float scale, double sink) {
    const bool has_sink = !std::isinf(sink);
    if (visible_count_ == 0 && !has_sink) return {.scale = scale};
    if (visible_count_ == 0) return {.scale = scale, .log_sum_exp = sink, .sink_weight = 1};
    // Of the keys among themselves; with a sink they share e^keys / (e^keys + e^sink).
    const double keys = largest_ + std::log(sum_), share = has_sink ? 1 / (1 + std::exp(sink - keys)) : 1;
    for (double& mass : masses_) mass = mass / sum_ * share;
    return {.visible_count = visible_count_,
            .scale = scale,
            .log_sum_exp = has_sink ? std::max(sink, keys) + std::log1p(std::exp(-std::fabs(sink - keys))) : keys,
            .entropy = std::max(0.0, std::log(sum_) - weighted_ / sum_),
            .largest_weight = share / sum_,
            .sink_weight = has_sink ? 1 / (1 + std::exp(keys - sink)) : 0};
  }

 private:
  // Makes `top` the score that all sums are relative to.
  void Raise(double top) {
    if (!(top > largest_)) return;
    if (sum_ > 0) {
      const double moved = largest_ - top, factor = std::exp(moved);
      weighted_ = factor > 0 ? factor * (weighted_ + moved * sum_) : 0;
      sum_ *= factor;
      for (size_t i = 0; i <= std::min(segment_, masses_.size() - 1) && !masses_.empty(); ++i) masses_[i] *= factor;
    }
    largest_ = top;
  }

  std::span<const int32_t> boundaries_;
  std::span<double> masses_;
  size_t segment_ = 0;
  int32_t visible_count_ = 0;
  double largest_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0, weighted_ = 0;
};

}  // namespace varifocal::kernels

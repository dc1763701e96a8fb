// The arithmetic of one block of prefill attention: query rows in vector lanes, their scores, weights and sums.
//
// Scores are computed transposed, keys by queries, so that the softmax statistics are vertical. The running maximum
// row_max of a row is a whole power of two that changes only when a score exceeds it by 20; rescaling is then exact and
// rare. Every lane does the same operations in key order independent of its block.
//
// In bf16 the words of Q^T, K, P^T and V are pairs along the summation axis; everything else is f32. "per" is
// KernelTable::elements_per_word.
//
// Threads: functions write only through their arguments.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/collect_keys.h"

namespace varifocal::kernels::cpu {

// The state of one block.
template <typename S>
struct PrefillLanes {
  static constexpr int kWidth = S::kLaneVectors * kLanes;
  float* weights;     // words [128/per][kWidth], keys of the current page; shared by the blocks of a call
  float* queries;     // words [D/per][kWidth], scaled by scale * log2(e)
  float* outs;        // [D][kWidth]
  float* row_maxima;  // [kWidth]
  float* sums;        // [kWidth]
  float soft_cap;
  float begins[kWidth], ends[kWidth];
  float window_begins[kWidth], groups[kWidth];  // of masks that read groups; groups are bits
  MaskRange range;                              // begins at a tile boundary
};

// Vectors in use; the others are not read. The bits are the same for any number.
inline int VectorCount(const PrefillBlock& block) { return (block.lane_count + kLanes - 1) / kLanes; }

// Sixteen lanes' queries, scaled (see QueryFactor), as words.
template <typename S>
inline void LoadQueries(const PrefillBlock& block, int head_dim, int first_lane, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  const float* from[kLanes];
  float scales[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const int lane = first_lane + i < block.lane_count ? first_lane + i : 0;
    from[i] = block.queries[lane];
    scales[i] = first_lane + i < block.lane_count ? block.scales[lane] : 0.0f;
  }
  float* rows = lanes.outs + first_lane;  // not in use yet
  TransposeRows<S>(from, head_dim, rows, kWidth);
  typename S::V largest = S::Zero();
  for (int i = 0; i < head_dim; ++i) {
    const typename S::V x = S::Load(rows + i * kWidth);
    largest = S::Max(largest, S::Max(x, S::Sub(S::Zero(), x)));
  }
  const typename S::V factor = LimitFactor<S>(S::Mul(S::Load(scales), S::Set1(kLog2E)), largest);
  float* words = lanes.queries + first_lane;
  for (int i = 0; i < head_dim; i += S::kPer) {
    const typename S::V even = S::Mul(S::Load(rows + i * kWidth), factor);
    if constexpr (S::kPer == 1) {
      S::Store(words + i * kWidth, even);
    } else {
      const typename S::V odd = i + 1 < head_dim ? S::Mul(S::Load(rows + (i + 1) * kWidth), factor) : S::Zero();
      S::Store(words + i / 2 * kWidth, S::Pack(even, odd));
    }
  }
}

template <typename S>
inline void BeginBlock(const PrefillBlock& block, int head_dim, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  const int dim = PaddedDim(head_dim);
  for (int v = 0; v < VectorCount(block); ++v) LoadQueries<S>(block, head_dim, v * kLanes, lanes);
  std::fill(lanes.queries + WordCount(head_dim, S::kPer) * kWidth, lanes.queries + dim / S::kPer * kWidth, 0.0f);
  std::fill(lanes.outs, lanes.outs + dim * kWidth, 0.0f);
  std::fill(lanes.row_maxima, lanes.row_maxima + kWidth, kEmptyRowMax);
  std::fill(lanes.sums, lanes.sums + kWidth, 0.0f);
}

// O^T += V^T P^T for kDims head dims, over words [first_word, last_word) of one page.
template <typename S, int kVectors, int kDims>
[[gnu::always_inline]] inline void AccumulateDims(const float* column, const float* weights, int first_word,
                                                  int last_word, float* out) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  typename S::V sum[kDims][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kDims; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[i][v] = S::Load(out + i * kWidth + v * kLanes);
  }
  for (int word = first_word; word < last_word; ++word) {
    typename S::V weight[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) weight[v] = S::Load(weights + word * kWidth + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kDims; ++i) {
      const typename S::V value = S::Set1(column[word * kTile + i]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[i][v] = S::Dot(value, weight[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kDims; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) S::Store(out + i * kWidth + v * kLanes, sum[i][v]);
  }
}

// O^T += V^T P^T over keys [from, to) of one page, whose V is [D/16][128/per][16].
template <typename S, int kVectors>
inline void AccumulateValues(const float* values, int dim, int from, int to, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth, kRest = kTile % S::kValueDims;
  if (from >= to) return;
  // Whole words: a key beyond the last one has weight zero, and its value is finite (see PagePool::WriteToken).
  const int first_word = from / S::kPer, last_word = (to + S::kPer - 1) / S::kPer;
  for (int d = 0; d < dim; d += kTile) {
    const float* columns = values + d / kTile * kValueStride<S>;
    float* out = lanes.outs + d * kWidth;
    for (int i = 0; i + S::kValueDims <= kTile; i += S::kValueDims) {
      AccumulateDims<S, kVectors, S::kValueDims>(columns + i, lanes.weights, first_word, last_word, out + i * kWidth);
    }
    if constexpr (kRest > 0) {
      AccumulateDims<S, kVectors, kRest>(columns + kTile - kRest, lanes.weights, first_word, last_word,
                                         out + (kTile - kRest) * kWidth);
    }
  }
}

// row_max of lanes with a new largest score.
template <typename S>
inline typename S::V RowMaxOf(typename S::V top) {
  return S::Add(S::Round(top), S::Set1(kRowMaxHeadroom));
}

// Sets row_max of lanes that had no visible key. False, and nothing done, where another lane's score exceeded it: sums
// then have to be rescaled.
template <typename S, int kVectors>
inline bool SetFirstRowMaxima(const typename S::V* tops, PrefillLanes<S>& lanes) {
  const typename S::V empty = S::Set1(kEmptyRowMax), slack = S::Set1(kRowMaxSlack);
  for (int v = 0; v < kVectors; ++v) {
    const typename S::V old = S::Load(lanes.row_maxima + v * kLanes);
    const typename S::V limit = S::SelectGreater(old, empty, S::Add(old, slack), tops[v]);
    if (S::AnyGreater(tops[v], limit)) return false;
  }
  for (int v = 0; v < kVectors; ++v) {
    float* at = lanes.row_maxima + v * kLanes;
    const typename S::V old = S::Load(at);
    S::Store(at, S::SelectGreater(tops[v], S::Add(old, slack), RowMaxOf<S>(tops[v]), old));
  }
  return true;
}

// Updates row_max of the lanes whose score exceeded it; the others are multiplied by 2^0.
template <typename S, int kVectors>
inline void UpdateRowMaxima(const typename S::V* tops, int dim, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  for (int v = 0; v < kVectors; ++v) {
    const typename S::V old = S::Load(lanes.row_maxima + v * kLanes);
    const typename S::V moved =
        S::SelectGreater(tops[v], S::Add(old, S::Set1(kRowMaxSlack)), RowMaxOf<S>(tops[v]), old);
    const typename S::V factor = S::Scale2(S::Set1(1.0f), S::Sub(old, moved));
    S::Store(lanes.row_maxima + v * kLanes, moved);
    S::Store(lanes.sums + v * kLanes, S::Mul(S::Load(lanes.sums + v * kLanes), factor));
    for (int i = 0; i < dim; ++i) {
      float* out = lanes.outs + i * kWidth + v * kLanes;
      S::Store(out, S::Mul(S::Load(out), factor));
    }
  }
}

// Keys whose scores are computed together.
template <typename S>
inline constexpr int kScoredKeys = kTileKeys* S::kScoredTiles;

// Computes the weights of keys [offset, offset + 2) of the page from their scores; adds them to sums.
template <typename S, int kVectors>
[[gnu::always_inline]] inline void ComputeWeightPair(const float* scores, int offset, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const typename S::V row_max = S::Load(lanes.row_maxima + v * kLanes);
    const float* from = scores + offset % kScoredKeys<S> * kWidth + v * kLanes;
    const typename S::V even = WeightAgainst<S>(S::Load(from), row_max);
    const typename S::V odd = WeightAgainst<S>(S::Load(from + kWidth), row_max);
    float* to = lanes.weights + offset / S::kPer * kWidth + v * kLanes;
    if constexpr (S::kPer == 1) {
      S::Store(to, even);
      S::Store(to + kWidth, odd);
    } else {
      S::Store(to, S::Pack(even, odd));
    }
    float* sum = lanes.sums + v * kLanes;
    S::Store(sum, S::Add(S::Load(sum), S::Add(even, odd)));
  }
}

// Scores of keys [kFirst, kScoredKeys) against all lanes, up to kScoreKeys at a time. Between the products `between`
// computes the weights of as many earlier keys, a pair per call: its operations overlap with the products, on other
// execution units. Where registers are few (several tiles), it is called after a pass, whose sums are then not in use;
// else after each part of one.
template <typename S, int kVectors, int kFirst = 0, typename Keys, typename Between>
[[gnu::always_inline]] inline void ComputeScores(const Keys& keys, int words, const float* queries,
                                                 typename S::V (&score)[kScoredKeys<S>][kVectors],
                                                 const Between& between) {
  constexpr int kWidth = PrefillLanes<S>::kWidth, kKeys = std::min(S::kScoreKeys, kScoredKeys<S> - kFirst);
  constexpr int kParts = S::kScoredTiles > 1 ? 1 : kKeys / 2;
  typename S::V sum[kKeys][kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; ++j) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[j][v] = S::Zero();
  }
  for (int part = 0; part < kParts; ++part) {
    for (int i = words * part / kParts; i < words * (part + 1) / kParts; ++i) {
      typename S::V query[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) query[v] = S::Load(queries + i * kWidth + v * kLanes);
#pragma GCC unroll 8
      for (int j = 0; j < kKeys; ++j) {
        const typename S::V key = S::Set1(keys(kFirst + j, i));
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sum[j][v] = S::Dot(key, query[v], sum[j][v]);
      }
    }
    if constexpr (kParts > 1) between(kFirst / 2 + part);
  }
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; ++j) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) score[kFirst + j][v] = sum[j][v];
  }
  if constexpr (kParts == 1) {
#pragma GCC unroll 4
    for (int pair = kFirst / 2; pair < (kFirst + kKeys) / 2; ++pair) between(pair);
  }
  if constexpr (kFirst + kKeys < kScoredKeys<S>) {
    ComputeScores<S, kVectors, kFirst + kKeys>(keys, words, queries, score, between);
  }
}

template <typename S>
inline void StoreRows(const PrefillBlock& block, int head_dim, bool is_part, bool has_sinks,
                      const PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  if (is_part) {
    for (int first = 0; first < block.lane_count; first += kLanes) {
      TransposeColumns<S>(lanes.outs + first, kWidth, head_dim, block.outs + first,
                          std::min(kLanes, block.lane_count - first));
    }
    for (int lane = 0; lane < block.lane_count; ++lane) {
      block.outs[lane][head_dim] = lanes.row_maxima[lane];
      block.outs[lane][head_dim + 1] = lanes.sums[lane];
    }
    return;
  }
  for (int lane = 0; has_sinks && lane < block.lane_count; ++lane)
    lanes.sums[lane] += SinkWeight<S>(block.sinks[lane], lanes.row_maxima[lane]);
  for (int first = 0; first < block.lane_count; first += kLanes) {
    const typename S::V sum = S::Load(lanes.sums + first), one = S::Set1(1.0f);
    const typename S::V inverse =
        S::SelectGreater(sum, S::Zero(), S::Div(one, S::SelectGreater(sum, S::Zero(), sum, one)), S::Zero());
    float* rows = lanes.outs + first;
    for (int i = 0; i < head_dim; ++i) S::Store(rows + i * kWidth, S::Mul(S::Load(rows + i * kWidth), inverse));
    TransposeColumns<S>(rows, kWidth, head_dim, block.outs + first, std::min(kLanes, block.lane_count - first));
  }
  for (int lane = 0; lane < block.lane_count; ++lane) {
    if (block.log_sum_exps[lane] == nullptr) continue;
    *block.log_sum_exps[lane] =
        LogSumExp<S>(lanes.row_maxima[lane], lanes.sums[lane], has_sinks ? block.sinks[lane] : kNoSink);
  }
}

}  // namespace varifocal::kernels::cpu

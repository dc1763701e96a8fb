// Decode attention of one query row and one KV group over one split of keys.
//
// Scores have keys in lanes and values have head dims in lanes, so both read the page as it lies. The reference is the
// whole part of the largest score so far, moved between pages; values are summed in four chains by word (a key, or a
// pair of bf16 keys) modulo 4. Splits
// are fixed ranges of absolute positions and are merged in order, so bits depend on the row alone.
//
// Shapes:  scratch holds the scaled query [D], the chains [4][D], the weights of a page [128].
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

inline constexpr int kChains = 4;

// Scores of a page's 128 keys, four vectors of keys at a time; the query in words.
template <typename S>
inline void ScorePage(const float* keys, int words, const float* query, float* scores) {
  for (int tile = 0; tile < kPageTokens / kTile; tile += 4) {
    const float* from = keys + tile * words * kTile;
    typename S::V sum[4] = {S::Zero(), S::Zero(), S::Zero(), S::Zero()};
    for (int i = 0; i < words; ++i) {
      const typename S::V q = S::Set1(query[i]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] = S::Dot(q, S::Load(from + (j * words + i) * kTile), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) S::Store(scores + (tile + j) * kTile, sum[j]);
  }
}

// chains[word % 4][D] += weights[word] * values[word] over the words that hold keys [from, to) of a page. Words before
// them weigh zero; words behind them are not touched, for they may be left from another sequence.
template <typename S>
inline void AddValues(const float* values, int dim, const float* weights, int from, int to, float* chains) {
  const int first = from / S::kPer / kChains * kChains, last = (to + S::kPer - 1) / S::kPer;
  for (int d = 0; d < dim; d += kTile) {
    const float* column = values + (d / kTile) * (kPageTokens / S::kPer) * kTile;
    typename S::V sum[kChains];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sum[c] = S::Load(chains + c * dim + d);
    int word = first;
    for (; word + kChains <= last; word += kChains) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c)
        sum[c] = S::Dot(S::Set1(weights[word + c]), S::Load(column + (word + c) * kTile), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
      if (word + c < last) sum[c] = S::Dot(S::Set1(weights[word + c]), S::Load(column + (word + c) * kTile), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) S::Store(chains + c * dim + d, sum[c]);
  }
}

template <typename S>
void AttendDecode(const DecodeSplit& split, float* scratch) {
  const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
  float* query = scratch;
  float* chains = query + dim;
  float* weights = chains + kChains * dim;
  for (int head = 0; head < split.head_count; ++head) {
    const float* from = split.queries + head * split.head_dim;
    const float scale = split.head_scales != nullptr ? split.scale * split.head_scales[head] : split.scale;
    ScaleQuery<S>(from, split.head_dim, QueryFactor<S>(from, split.head_dim, scale), query);
    std::fill(query + WordCount(split.head_dim, S::kPer), query + words, 0.0f);
    std::fill(chains, chains + kChains * dim, 0.0f);
    float reference = kNoReference;
    typename S::V sums = S::Zero();

    for (int page_first = split.seen.begin / kPageTokens * kPageTokens; page_first < split.seen.end;
         page_first += kPageTokens) {
      const int page_index = page_first / kPageTokens;
      ScorePage<S>(split.kv.keys(page_index), words, query, weights);
      const int first = std::max(split.seen.begin - page_first, 0),
                last = std::min(split.seen.end - page_first, kPageTokens);
      std::fill(weights, weights + first, kMaskedScore);
      std::fill(weights + last, weights + kPageTokens, kMaskedScore);
      typename S::V top = S::Load(weights);
      for (int k = kTile; k < kPageTokens; k += kTile) top = S::Max(top, S::Load(weights + k));
      const float page_top = MaxLanes<S>(top);
      if (page_top > reference) {
        const typename S::V moved = S::Round(S::Set1(page_top));
        const typename S::V scale = S::Scale2(S::Set1(1.0f), S::Sub(S::Set1(reference), moved));
        sums = S::Mul(sums, scale);
        for (int i = 0; i < kChains * dim; i += kLanes) S::Store(chains + i, S::Mul(S::Load(chains + i), scale));
        float lanes[kLanes];
        S::Store(lanes, moved);
        reference = lanes[0];
      }
      for (int k = 0; k < kPageTokens; k += kTile) {
        const typename S::V weight = WeightAgainst<S>(S::Load(weights + k), S::Set1(reference));
        sums = S::Add(sums, weight);
        S::Store(weights + k, weight);
      }
      if constexpr (S::kPer == 2) {
        for (int word = 0; word < kPageTokens / 2; word += kLanes)
          S::Store(weights + word, S::PackAdjacent(weights + 2 * word));
      }
      AddValues<S>(split.kv.values(page_index, words), dim, weights, first, last, chains);
    }

    float* partial = split.partials + head * (dim + 2);
    for (int i = 0; i < dim; i += kLanes) {
      S::Store(partial + i, S::Add(S::Add(S::Load(chains + i), S::Load(chains + dim + i)),
                                   S::Add(S::Load(chains + 2 * dim + i), S::Load(chains + 3 * dim + i))));
    }
    partial[dim] = reference;
    partial[dim + 1] = SumLanes<S>(sums);
  }
}

}  // namespace varifocal::kernels::cpu

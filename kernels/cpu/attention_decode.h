// Decode attention of one query row and one KV group over one split of keys.
//
// Scores have keys in lanes and values have head dims in lanes, so both read the page in place. Where a mask by groups
// leaves few visible keys in a page, these are collected first. row_max is the whole part of the largest score so far,
// updated between pages; values are summed in four chains by word (a key, or a pair of bf16 keys) modulo 4. Splits are
// fixed ranges of absolute positions and are merged in order, so bits depend on the row alone. "per" is
// KernelTable::elements_per_word.
//
// Shapes:  scratch has per head the scaled query [D], the chains [4][D], the sums and row_max; the weights of a
//          page [128]; a page of collected keys and values.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/collect_keys.h"

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

// chains[word % 4][D] += weights[word] * values[word] over the words with keys [from, to) of a page. Words before them
// have weight zero; words after them are not read: they may contain data of another sequence.
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

// A block of up to 128 keys in decode's layout, [128/16][D/per][16] and [D/16][128/per][16]. Of keys [from, to) those
// are visible that share a group with the row, or all where `groups` is null.
struct DecodeBlock {
  const float* keys;
  const float* values;
  int from, to;
  const uint32_t* groups = nullptr;
};

// Keys [128/16][words][16] of 128 rows.
template <typename S>
inline void TransposeKeys(const float* const* rows, int words, float* to) {
  for (int tile = 0; tile < kPageTokens; tile += kTile) TransposeRows<S>(rows + tile, words, to + tile * words, kTile);
}

// Pages read in place.
struct PageKeys {
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    const int words = PaddedDim(split.head_dim) / S::kPer;
    const RowInterval seen = split.mask.seen;
    for (int first = seen.begin / kPageTokens * kPageTokens; first < seen.end; first += kPageTokens) {
      block(DecodeBlock{split.kv.keys(first / kPageTokens), split.kv.values(first / kPageTokens, words),
                        std::max(seen.begin - first, 0), std::min(seen.end - first, kPageTokens)});
    }
  }
};

// Pages whose keys are rows.
struct TransposedKeys {
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float* tile, const Block& block) {
    PageKeys::Each<S>(split, nullptr, [&](const DecodeBlock& page) {
      const int words = PaddedDim(split.head_dim) / S::kPer;
      const float* rows[kPageTokens];
      for (int key = 0; key < kPageTokens; ++key) rows[key] = page.keys + key * words;
      TransposeKeys<S>(rows, words, tile);
      block(DecodeBlock{tile, page.values, page.from, page.to});
    });
  }
};

// Pages read in place, with keys of the row's window in every group.
struct MaskedPages {
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    int first = split.mask.seen.begin / kPageTokens * kPageTokens;
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      uint32_t groups[kPageTokens];
      std::copy_n(split.kv.groups(first / kPageTokens), kPageTokens, groups);
      for (int key = std::max(0, split.mask.near_begin - first); key < kPageTokens; ++key) groups[key] = ~0u;
      page.groups = groups;
      block(page);
      first += kPageTokens;
    });
  }
};

// The keys visible to the row under NearOrSharedMask, collected 128 at a time in order of position.
struct ListedKeys {
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float* tile, const Block& block) {
    const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
    float* values = tile + kPageTokens * words;
    const RowInterval seen = split.mask.seen;
    int32_t list[kSplitTokens + 1];
    int count = 0;
    for (int first = seen.begin / kPageTokens * kPageTokens; first < seen.end; first += kPageTokens) {
      const uint32_t* groups = split.kv.groups(first / kPageTokens);
      const int from = std::max(seen.begin - first, 0), to = std::min(seen.end - first, kPageTokens);
      for (int key = from; key < to; ++key) {
        list[count] = first + key;
        count += NearOrSharedMask::Counts(split.mask, first + key, groups[key]);
      }
    }
    for (int first = 0; first < count; first += kPageTokens) {
      const int taken = std::min(count - first, kPageTokens);
      const float* rows[kPageTokens];
      // Rows beyond the last key repeat it with weight zero.
      for (int n = 0; n < kPageTokens; ++n) rows[n] = KeyRow<S>(split.kv, words, list[first + std::min(n, taken - 1)]);
      TransposeKeys<S>(rows, words, tile);
      for (int n = 0; n < taken; ++n) CollectValue<S>(split.kv, dim, list[first + n], n, values);
      for (int n = first + taken; n < std::min(first + taken + kPageTokens, count); ++n)
        PrefetchKey<S>(split.kv, dim, list[n]);
      block(DecodeBlock{tile, values, 0, taken});
    }
  }
};

// The running state of a head.
template <typename S>
struct DecodeHead {
  float* query;   // [D/per]
  float* chains;  // [4][D]
  float* sums;    // [16]
  float* row_max;

  DecodeHead(float* scratch, int dim)
      : query(scratch), chains(scratch + dim), sums(chains + kChains * dim), row_max(sums + kTile) {}
  static int Floats(int dim) { return (1 + kChains) * dim + 2 * kTile; }
};

template <typename S>
inline void DecodeKeys(const DecodeBlock& block, uint32_t row_groups, int dim, const DecodeHead<S>& head,
                       float* weights) {
  ScorePage<S>(block.keys, dim / S::kPer, head.query, weights);
  for (int k = 0; block.groups != nullptr && k < kPageTokens; k += kTile) {
    const typename S::V key_groups = S::Load(reinterpret_cast<const float*>(block.groups + k));
    S::Store(weights + k, S::SelectAnyBit(key_groups, row_groups, S::Load(weights + k), S::Set1(kMaskedScore)));
  }
  std::fill(weights, weights + block.from, kMaskedScore);
  std::fill(weights + block.to, weights + kPageTokens, kMaskedScore);
  typename S::V top = S::Load(weights);
  for (int k = kTile; k < kPageTokens; k += kTile) top = S::Max(top, S::Load(weights + k));
  const float page_top = MaxLanes<S>(top);
  typename S::V sums = S::Load(head.sums);
  if (page_top > *head.row_max) {
    const typename S::V moved = S::Round(S::Set1(page_top));
    const typename S::V scale = S::Scale2(S::Set1(1.0f), S::Sub(S::Set1(*head.row_max), moved));
    sums = S::Mul(sums, scale);
    for (int i = 0; i < kChains * dim; i += kLanes) S::Store(head.chains + i, S::Mul(S::Load(head.chains + i), scale));
    float lanes[kLanes];
    S::Store(lanes, moved);
    *head.row_max = lanes[0];
  }
  for (int k = 0; k < kPageTokens; k += kTile) {
    const typename S::V weight = WeightAgainst<S>(S::Load(weights + k), S::Set1(*head.row_max));
    sums = S::Add(sums, weight);
    S::Store(weights + k, weight);
  }
  S::Store(head.sums, sums);
  if constexpr (S::kPer == 2) {
    for (int word = 0; word < kPageTokens / 2; word += kLanes)
      S::Store(weights + word, S::PackAdjacent(weights + 2 * word));
  }
  AddValues<S>(block.values, dim, weights, block.from, block.to, head.chains);
}

// A block of keys is read once for all heads of the group.
template <typename S, typename Keys>
void AttendDecode(const DecodeSplit& split, float* scratch) {
  const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* weights = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  float* tile = weights + kPageTokens;
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    const float* from = split.queries + head * split.head_dim;
    const float scale = split.head_scales != nullptr ? split.scale * split.head_scales[head] : split.scale;
    ScaleQuery<S>(from, split.head_dim, QueryFactor<S>(from, split.head_dim, scale), state.query);
    std::fill(state.query + WordCount(split.head_dim, S::kPer), state.query + words, 0.0f);
    std::fill(state.chains, state.chains + kChains * dim, 0.0f);
    S::Store(state.sums, S::Zero());
    *state.row_max = kEmptyRowMax;
  }
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
    for (int head = 0; head < split.head_count; ++head)
      DecodeKeys<S>(block, split.mask.groups, dim, head_at(head), weights);
  });
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    const float* chains = state.chains;
    float* partial = split.partials + head * (dim + 2);
    for (int i = 0; i < dim; i += kLanes) {
      S::Store(partial + i, S::Add(S::Add(S::Load(chains + i), S::Load(chains + dim + i)),
                                   S::Add(S::Load(chains + 2 * dim + i), S::Load(chains + 3 * dim + i))));
    }
    partial[dim] = *state.row_max;
    partial[dim + 1] = SumLanes<S>(S::Load(state.sums));
  }
}

}  // namespace varifocal::kernels::cpu

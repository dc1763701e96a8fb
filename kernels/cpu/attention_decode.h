// Decode attention of one query row and one KV group over one split of keys.
//
// Scores have keys in lanes and values have head dims in lanes, so both read the page in place. Where a mask by groups
// leaves few visible keys in a page, these are listed and read as rows. row_max is the whole part of the largest score
// so far, updated between blocks; values are summed in four chains by word (a key, or a pair of bf16 keys) modulo 4.
// Splits are fixed ranges of absolute positions and are merged in order, so bits depend on the row alone. "per" is
// KernelTable::elements_per_word.
//
// Shapes:  scratch has per head the scaled query [D], the chains [4][D], the sums, row_max and the weights of a
//          block [128]; then a page of transposed keys.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

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

// Sums of the lanes of sixteen vectors, each as a fixed tree.
template <typename S>
inline typename S::V SumEach(typename S::V (&rows)[kLanes]) {
  S::Transpose(rows);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) rows[i] = S::Add(rows[i], rows[i + width]);
  }
  return rows[0];
}

// Scores of sixteen keys that are rows [D/per].
template <typename S>
inline typename S::V ScoreRows(const float* const* rows, int words, const float* query) {
  typename S::V sum[kTile];
#pragma GCC unroll 8
  for (int first = 0; first < kTile; first += S::kScoreKeys) {
    typename S::V part[S::kScoreKeys];
    for (int j = 0; j < S::kScoreKeys; ++j) part[j] = S::Zero();
    int i = 0;
    for (; i + kLanes <= words; i += kLanes) {
      const typename S::V q = S::Load(query + i);
#pragma GCC unroll 8
      for (int j = 0; j < S::kScoreKeys; ++j) part[j] = S::Dot(q, S::Load(rows[first + j] + i), part[j]);
    }
    if (i < words) {
      float padded[2][kLanes] = {};
      std::copy(query + i, query + words, padded[0]);
      for (int j = 0; j < S::kScoreKeys; ++j) {
        std::copy(rows[first + j] + i, rows[first + j] + words, padded[1]);
        part[j] = S::Dot(S::Load(padded[0]), S::Load(padded[1]), part[j]);
      }
    }
    for (int j = 0; j < S::kScoreKeys; ++j) sum[first + j] = part[j];
  }
  return SumEach<S>(sum);
}

enum class ValueForm {
  kPage,      // DecodeBlock::values, V [D/16][128/per][16]
  kWordRows,  // value_rows, [D] words each, one row per word
  kKeyRows,   // value_rows, one per key; in bf16 its number of each word is `odd`
};

// A block of up to 128 keys: K [128/16][D/per][16] or rows [D/per], V in one of three forms. Of keys [from, to) those
// are visible that share a group with the row, or all where `groups` is null.
struct DecodeBlock {
  const float* keys = nullptr;
  const float* const* key_rows = nullptr;  // to a whole tile
  const float* values = nullptr;
  const float* const* value_rows = nullptr;
  const int8_t* odd = nullptr;
  int from = 0, to = 0;
  const uint32_t* groups = nullptr;
  int32_t first = 0;                   // position of key 0, unless
  const int32_t* positions = nullptr;  // lists them
};

// chains[word % 4][D] += weights[word] * values of the word, over the words with keys [block.from, block.to). Words
// before them have weight zero; words after them are not read: they may contain data of another sequence.
template <typename S, ValueForm kForm>
inline void AddValues(const DecodeBlock& block, int dim, const float* weights, float* chains) {
  constexpr bool kRows = kForm == ValueForm::kWordRows;
  const int from = block.from, to = block.to, first = from / S::kPer / kChains * kChains,
            last = (to + S::kPer - 1) / S::kPer;
  for (int d = 0; d < dim; d += kTile) {
    const float* column = kRows ? nullptr : block.values + (d / kTile) * (kPageTokens / S::kPer) * kTile;
    const auto value = [&](int n) { return S::Load(kRows ? block.value_rows[n] + d : column + n * kTile); };
    typename S::V sum[kChains];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sum[c] = S::Load(chains + c * dim + d);
    int word = first;
    for (; word + kChains <= last; word += kChains) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) sum[c] = S::Dot(S::Set1(weights[word + c]), value(word + c), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
      if (word + c < last) sum[c] = S::Dot(S::Set1(weights[word + c]), value(word + c), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) S::Store(chains + c * dim + d, sum[c]);
  }
}

// chains[n % 4][D] += weights[n] * value n; in bf16 the weights are not rounded.
template <typename S>
inline void AddKeyRows(const DecodeBlock& block, int dim, const float* weights, float* chains) {
  for (int d = 0; d < dim; d += kTile) {
    typename S::V sum[kChains];
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sum[c] = S::Load(chains + c * dim + d);
    for (int n = 0; n < block.to; n += kChains) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        if (n + c >= block.to) break;
        typename S::V value = S::Load(block.value_rows[n + c] + d);
        if constexpr (S::kPer == 2) value = S::Half(value, block.odd[n + c]);
        sum[c] = S::Fma(S::Set1(weights[n + c]), value, sum[c]);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) S::Store(chains + c * dim + d, sum[c]);
  }
}

// Pages read in place.
struct PageKeys {
  static constexpr ValueForm kForm = ValueForm::kPage;
  template <typename S, typename Mask, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    const int words = PaddedDim(split.head_dim) / S::kPer;
    const RowInterval seen = split.mask.seen;
    for (int first = seen.begin / kPageTokens * kPageTokens; first < seen.end; first += kPageTokens) {
      const int page = first / kPageTokens;
      DecodeBlock keys{.keys = split.kv.keys(page),
                       .values = split.kv.values(page, words),
                       .from = std::max(seen.begin - first, 0),
                       .to = std::min(seen.end - first, kPageTokens),
                       .first = first};
      if constexpr (Mask::kReadsGroups) {
        // Keys of the row's window are in every group.
        uint32_t groups[kPageTokens];
        std::copy_n(split.kv.groups(page), kPageTokens, groups);
        for (int key = std::max(0, split.mask.window_begin - first); key < kPageTokens; ++key) groups[key] = ~0u;
        keys.groups = groups;
        block(keys);
      } else {
        block(keys);
      }
    }
  }
};

// Pages whose keys are rows.
struct TransposedKeys {
  static constexpr ValueForm kForm = ValueForm::kWordRows;
  template <typename S, typename Mask, typename Block>
  static void Each(const DecodeSplit& split, float* tile, const Block& block) {
    PageKeys::Each<S, Mask>(split, nullptr, [&](const DecodeBlock& page) {
      const int words = PaddedDim(split.head_dim) / S::kPer;
      for (int first = 0; first < kPageTokens; first += kTile) {
        const float* rows[kTile];
        for (int key = 0; key < kTile; ++key) rows[key] = page.keys + (first + key) * words;
        TransposeRows<S>(rows, words, tile + first * words, kTile);
      }
      const float* values[kPageTokens];
      for (int n = 0; n < kPageTokens / S::kPer; ++n) values[n] = page.values + n * words * S::kPer;
      block(DecodeBlock{.keys = tile, .value_rows = values, .from = page.from, .to = page.to, .first = page.first});
    });
  }
};

// Positions of the keys visible to the row under WindowOrGroupMask, in order.
template <typename S>
inline int ListKeys(const DecodeSplit& split, int32_t* list) {
  const RowInterval seen = split.mask.seen;
  int count = 0;
  for (int first = seen.begin / kTile * kTile; first < seen.end; first += kTile) {
    const uint32_t* groups = split.kv.groups(first / kPageTokens) + first % kPageTokens;
    const auto from_lane = [&](int key) { return key <= first ? 0xFFFFu : 0xFFFFu << std::min(key - first, kTile); };
    uint32_t seen_keys = S::AnyBits(groups, split.mask.groups) | from_lane(split.mask.window_begin);
    seen_keys &= from_lane(seen.begin) & ~from_lane(seen.end) & 0xFFFFu;
    for (; seen_keys != 0; seen_keys &= seen_keys - 1) list[count++] = first + std::countr_zero(seen_keys);
  }
  return count;
}

// Visible keys, 128 at a time, read in place.
struct ListedKeys {
  static constexpr ValueForm kForm = ValueForm::kKeyRows;
  template <typename S, typename Mask, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    static_assert(std::is_same_v<Mask, WindowOrGroupMask>, "ListKeys implements this mask only");
    const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
    int32_t list[kSplitTokens];
    const int count = ListKeys<S>(split, list);
    for (int first = 0; first < count; first += kPageTokens) {
      const int taken = std::min(count - first, kPageTokens);
      const float *keys[kPageTokens], *values[kPageTokens];
      // Keys up to a whole tile repeat the last one with weight zero.
      for (int n = 0; n < (taken + kTile - 1) / kTile * kTile; ++n)
        keys[n] = KeyRow<S>(split.kv, words, list[first + std::min(n, taken - 1)]);
      int8_t odd[kPageTokens];
      for (int n = 0; n < taken; ++n) {
        values[n] = ValueRow<S>(split.kv, dim, list[first + n]);
        odd[n] = static_cast<int8_t>(list[first + n] % S::kPer);
      }
      for (int n = first + taken; n < std::min(first + taken + kPageTokens, count); ++n)
        PrefetchKey<S>(split.kv, dim, list[n]);
      block(DecodeBlock{.key_rows = keys, .value_rows = values, .odd = odd, .to = taken, .positions = list + first});
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
  float* weights;  // [128] of the block; scores at first

  DecodeHead(float* scratch, int dim)
      : query(scratch),
        chains(scratch + dim),
        sums(chains + kChains * dim),
        row_max(sums + kTile),
        weights(row_max + kTile) {}
  static int Floats(int dim) { return (1 + kChains) * dim + 2 * kTile + kPageTokens; }
};

// Scores of a block in head.weights, kMaskedScore where the row does not see the key.
template <typename S, typename Mask>
inline void MaskedScores(const DecodeBlock& block, uint32_t row_groups, int dim, const DecodeHead<S>& head) {
  float* weights = head.weights;
  if (block.key_rows == nullptr) ScorePage<S>(block.keys, dim / S::kPer, head.query, weights);
  if constexpr (Mask::kReadsGroups) {
    for (int k = 0; block.groups != nullptr && k < kPageTokens; k += kTile) {
      const typename S::V key_groups = S::Load(reinterpret_cast<const float*>(block.groups + k));
      S::Store(weights + k, MaskByGroups<S, Mask>(key_groups, row_groups, S::Load(weights + k)));
    }
  }
  std::fill(weights, weights + block.from, kMaskedScore);
  std::fill(weights + block.to, weights + kPageTokens, kMaskedScore);
}

template <typename S, typename Mask, ValueForm kForm>
inline void DecodeKeys(const DecodeBlock& block, uint32_t row_groups, int dim, const DecodeHead<S>& head) {
  MaskedScores<S, Mask>(block, row_groups, dim, head);
  float* weights = head.weights;
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
  if constexpr (kForm == ValueForm::kKeyRows) return AddKeyRows<S>(block, dim, weights, head.chains);
  if constexpr (S::kPer == 2) {
    for (int word = 0; word < kPageTokens / 2; word += kLanes)
      S::Store(weights + word, S::PackAdjacent(weights + 2 * word));
  }
  AddValues<S, kForm>(block, dim, weights, head.chains);
}

// The scaled queries of the heads of a KV group.
template <typename S, typename HeadAt>
inline void LoadQueries(const DecodeSplit& split, int dim, const HeadAt& head_at) {
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    const float* from = split.queries + head * split.head_dim;
    const float scale = split.head_scales != nullptr ? split.scale * split.head_scales[head] : split.scale;
    ScaleQuery<S>(from, split.head_dim, QueryFactor<S>(from, split.head_dim, scale), state.query);
    std::fill(state.query + WordCount(split.head_dim, S::kPer), state.query + dim / S::kPer, 0.0f);
  }
}

// Scores of keys that are rows, sixteen at a time, which stay in the first-level cache for all heads.
template <typename S, typename HeadAt>
inline void ScoreKeyRows(const DecodeBlock& block, const DecodeSplit& split, int dim, const HeadAt& head_at) {
  for (int first = 0; block.key_rows != nullptr && first < block.to; first += kTile) {
    for (int head = 0; head < split.head_count; ++head)
      S::Store(head_at(head).weights + first, ScoreRows<S>(block.key_rows + first, dim / S::kPer, head_at(head).query));
  }
}

// A block of keys is read once for all heads of the group.
template <typename S, typename Mask, typename Keys>
void AttendDecode(const DecodeSplit& split, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    std::fill(state.chains, state.chains + kChains * dim, 0.0f);
    S::Store(state.sums, S::Zero());
    *state.row_max = kEmptyRowMax;
  }
  Keys::template Each<S, Mask>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head)
      DecodeKeys<S, Mask, Keys::kForm>(block, split.mask.groups, dim, head_at(head));
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

// The scores that AttendDecode computes weights from, under its mask, for a visitor.
template <typename S, typename Mask, typename Keys>
void VisitScores(const DecodeSplit& split, ScoreVisitor& visitor, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  Keys::template Each<S, Mask>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head) {
      MaskedScores<S, Mask>(block, split.mask.groups, dim, head_at(head));
      visitor.Visit(head, {.scores = head_at(head).weights,
                           .from = block.from,
                           .to = block.to,
                           .first = block.first,
                           .positions = block.positions});
    }
  });
}

}  // namespace varifocal::kernels::cpu

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

#include "kernels/cpu/collect_keys.h"

namespace varifocal::kernels::cpu {

inline constexpr int kChains = 4;

// Scores of a page's 128 keys, four vectors of keys at a time; the query in words. With `key_groups`, [128],
// kMaskedScore for keys whose groups the mask does not match.
template <typename S, typename Mask>
inline void ScorePage(const float* keys, int words, const float* query, const uint32_t* key_groups, uint32_t row_groups,
                      float* scores) {
  for (int tile = 0; tile < kPageTokens / kTile; tile += 4) {
    const float* from = keys + tile * words * kTile;
    typename S::V sum[4] = {S::Zero(), S::Zero(), S::Zero(), S::Zero()};
    for (int i = 0; i < words; ++i) {
      const typename S::V q = S::Set1(query[i]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] = S::Dot(q, S::Load(from + (j * words + i) * kTile), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const int first = (tile + j) * kTile;
      if constexpr (Mask::kReadsGroups) {
        const typename S::V of_keys = S::Load(reinterpret_cast<const float*>(key_groups + first));
        sum[j] = MaskByGroups<S, Mask>(of_keys, row_groups, sum[j]);
      }
      S::Store(scores + first, sum[j]);
    }
  }
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
  return S::SumEach(sum);
}

// A block of up to 128 keys: K [128/16][D/per][16] of a page, V [D/16][128/per][16]. Of keys [from, to) those are visible
// that share a group with the row, or all where `groups` is null. Or listed keys, all visible, with the words of their
// values; key n has slot slots[n] among those of the words.
struct DecodeBlock {
  const float* keys = nullptr;
  const float* values = nullptr;
  int from = 0, to = 0;  // listed: slots
  const uint32_t* groups = nullptr;
  int32_t first = 0;                   // position of key 0, unless
  const int32_t* positions = nullptr;  // lists those of the slots

  int listed = 0;
  const float* const* key_rows = nullptr;  // to a whole tile
  const float* const* value_words = nullptr;
  const uint8_t* slots = nullptr;
};

// chains[word % 4][D] += weights[word] * values of the word, over the words with keys [block.from, block.to). Words
// before them have weight zero; words after them are not read: they may contain data of another sequence.
template <typename S, bool kListed>
inline void AddValues(const DecodeBlock& block, int dim, const float* weights, float* chains) {
  const int from = block.from, to = block.to, first = from / S::kPer / kChains * kChains,
            last = (to + S::kPer - 1) / S::kPer;
  for (int d = 0; d < dim; d += kTile) {
    const int column = d / kTile * kValueStride<S>;
    const auto value = [&](int n) {
      return S::Load((kListed ? block.value_words[n] : block.values + n * kTile) + column);
    };
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

// Pages read in place.
struct PageKeys {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    const int words = PaddedDim(split.head_dim) / S::kPer;
    const RowInterval seen = split.mask.seen;
    for (int first = seen.begin / kPageTokens * kPageTokens; first < seen.end; first += kPageTokens) {
      block(DecodeBlock{.keys = split.kv.keys(first / kPageTokens),
                        .values = split.kv.values(first / kPageTokens, words),
                        .from = std::max(seen.begin - first, 0),
                        .to = std::min(seen.end - first, kPageTokens),
                        .first = first});
    }
  }
};

// Pages whose keys are rows.
struct TransposedKeys {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float* tile, const Block& block) {
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      const int words = PaddedDim(split.head_dim) / S::kPer;
      for (int first = 0; first < kPageTokens; first += kTile) {
        const float* rows[kTile];
        for (int key = 0; key < kTile; ++key) rows[key] = page.keys + (first + key) * words;
        TransposeRows<S>(rows, words, tile + first * words, kTile);
      }
      page.keys = tile;
      block(page);
    });
  }
};

// Pages read in place, with keys of the row's window in every group.
struct MaskedPages {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      page.groups = split.kv.groups(page.first / kPageTokens);
      uint32_t groups[kPageTokens];
      if (split.mask.window_begin < page.first + kPageTokens) {
        std::copy_n(page.groups, kPageTokens, groups);
        std::fill(groups + std::max(0, split.mask.window_begin - page.first), groups + kPageTokens, ~0u);
        page.groups = groups;
      }
      block(page);
    });
  }
};

// Positions of the keys visible to the row under WindowOrGroupMask, in order; `list` has a tile of room behind them.
template <typename S>
inline int ListKeys(const DecodeSplit& split, int32_t* list) {
  const RowInterval seen = split.mask.seen;
  int count = 0;
  for (int first = seen.begin / kTile * kTile; first < seen.end; first += kTile) {
    const uint32_t* groups = split.kv.groups(first / kPageTokens) + first % kPageTokens;
    const auto from_lane = [&](int key) { return key <= first ? 0xFFFFu : 0xFFFFu << std::min(key - first, kTile); };
    uint32_t seen_keys = S::AnyBits(groups, split.mask.groups) | from_lane(split.mask.window_begin);
    seen_keys &= from_lane(seen.begin) & ~from_lane(seen.end) & 0xFFFFu;
    S::CompressIndices(first, seen_keys, list + count);
    count += std::popcount(seen_keys);
  }
  return count;
}

// Visible keys, read in place, as many at a time as their values have 128 / per words.
struct ListedKeys {
  static constexpr bool kListed = true;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    constexpr int kWordsMax = kPageTokens / S::kPer;
    const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
    int32_t list[kSplitTokens + kTile], positions[kPageTokens];
    const float *keys[kPageTokens], *values[kWordsMax];
    uint8_t slots[kPageTokens];
    const int count = ListKeys<S>(split, list);
    for (int first = 0, taken = 0; first < count; first += taken) {
      int word_count = 0;
      for (taken = 0; first + taken < count; ++taken) {
        const int position = list[first + taken], odd = position % S::kPer;
        if (taken == 0 || position / S::kPer != list[first + taken - 1] / S::kPer) {
          if (word_count == kWordsMax) break;
          values[word_count] = ValueRow<S>(split.kv, dim, position);
          for (int i = 0; i < S::kPer; ++i) positions[word_count * S::kPer + i] = position - odd + i;
          ++word_count;
        }
        keys[taken] = KeyRow<S>(split.kv, words, position);
        slots[taken] = static_cast<uint8_t>((word_count - 1) * S::kPer + odd);
      }
      for (int n = taken; n % kTile != 0; ++n) keys[n] = keys[taken - 1];
      for (int n = first + taken; n < std::min(first + taken + kPageTokens, count); ++n)
        PrefetchKey<S>(split.kv, dim, list[n], list[n - 1]);
      block(DecodeBlock{.to = word_count * S::kPer,
                        .positions = positions,
                        .listed = taken,
                        .key_rows = keys,
                        .value_words = values,
                        .slots = slots});
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
  if (block.key_rows == nullptr)
    ScorePage<S, Mask>(block.keys, dim / S::kPer, head.query, block.groups, row_groups, weights);
  std::fill(weights, weights + block.from, kMaskedScore);
  std::fill(weights + block.to, weights + kPageTokens, kMaskedScore);
}

template <typename S, typename Mask, bool kListed>
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
  if constexpr (S::kPer == 2) {
    for (int word = 0; word < kPageTokens / 2; word += kLanes)
      S::Store(weights + word, S::PackAdjacent(weights + 2 * word));
  }
  AddValues<S, kListed>(block, dim, weights, head.chains);
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

// Scores of listed keys in their slots, sixteen keys at a time, which stay in the first-level cache for all heads.
template <typename S, typename HeadAt>
inline void ScoreKeyRows(const DecodeBlock& block, const DecodeSplit& split, int dim, const HeadAt& head_at) {
  if (block.key_rows == nullptr) return;
  for (int head = 0; head < split.head_count; ++head)
    std::fill(head_at(head).weights, head_at(head).weights + block.to, kMaskedScore);
  for (int first = 0; first < block.listed; first += kTile) {
    for (int head = 0; head < split.head_count; ++head) {
      float* weights = head_at(head).weights;
      const typename S::V scores = ScoreRows<S>(block.key_rows + first, dim / S::kPer, head_at(head).query);
      if constexpr (S::kPer == 1) {
        S::Store(weights + first, scores);
      } else {
        float of_key[kTile];
        S::Store(of_key, scores);
        for (int n = first; n < std::min(first + kTile, block.listed); ++n) weights[block.slots[n]] = of_key[n - first];
      }
    }
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
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head)
      DecodeKeys<S, Mask, Keys::kListed>(block, split.mask.groups, dim, head_at(head));
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

// See MergedParts.
template <typename S>
void MergeRowParts(const MergedParts& args) {
  const int dim = args.dim, whole = dim / kLanes * kLanes;
  float* out = args.out;
  std::fill(out, out + dim, 0.0f);
  float row_max = kEmptyRowMax, sum = 0;
  for (int n = 0; n < args.part_count; ++n) row_max = std::max(row_max, args.parts[n * args.stride + args.sums_at]);
  const auto each = [&](const auto& vectors, const auto& numbers) {
    for (int i = 0; i < whole; i += kLanes) S::Store(out + i, vectors(i));
    for (int i = whole; i < dim; ++i) out[i] = numbers(i);
  };
  for (int n = 0; n < args.part_count; ++n) {
    const float* from = args.parts + n * args.stride;
    // 2^below for a whole number; those that are not normal count as 0.
    const float below = from[args.sums_at] - row_max;
    const float factor = below < -126.0f ? 0.0f : std::bit_cast<float>((127 + static_cast<int32_t>(below)) << 23);
    each([&](int i) { return S::Add(S::Load(out + i), S::Mul(S::Load(from + i), S::Set1(factor))); },
         [&](int i) { return out[i] + from[i] * factor; });
    sum += from[args.sums_at + 1] * factor;
  }
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  each([&](int i) { return S::Mul(S::Load(out + i), S::Set1(inverse)); }, [&](int i) { return out[i] * inverse; });
  if (args.log_sum_exp != nullptr) {
    *args.log_sum_exp =
        sum > 0 ? static_cast<float>((row_max + std::log2(static_cast<double>(sum))) / kLog2EDouble) : kEmptyLse;
  }
}

// The scores that AttendDecode computes weights from, under its mask, for a visitor.
template <typename S, typename Mask, typename Keys>
void VisitScores(const DecodeSplit& split, ScoreVisitor& visitor, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
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

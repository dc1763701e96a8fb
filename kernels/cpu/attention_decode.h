// Decode attention of one query row and one KV group over one split of keys.
//
// Scores have keys in lanes and values have head dims in lanes, so both read the page in place. Under a mask by groups
// either the visible keys are listed and read as rows, or all keys of a page are scored and the values of visible ones read. row_max is the whole part of the largest score
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

// Scores of a page's 128 keys, four vectors of keys at a time; the query in words. Sums begin at `start`, [128], or at
// zero where it is null: kMaskedScore hides a key at no cost, as no score is large enough to change it much.
template <typename S>
inline void ScorePage(const float* keys, int words, const float* query, const float* start, float* scores) {
  for (int tile = 0; tile < kPageTokens / kTile; tile += 4) {
    const float* from = keys + tile * words * kTile;
    typename S::V sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = start == nullptr ? S::Zero() : S::Load(start + (tile + j) * kTile);
    for (int i = 0; i < words; ++i) {
      const typename S::V q = S::Set1(query[i]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] = S::Dot(q, S::Load(from + (j * words + i) * kTile), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) S::Store(scores + (tile + j) * kTile, sum[j]);
  }
}

// Scores of sixteen keys that are rows [D/per]. All loops over keys are unrolled, so that sums stay in registers.
template <typename S>
inline typename S::V ScoreRows(const float* const* rows, int words, const float* query) {
  typename S::V sum[kTile];
#pragma GCC unroll 4
  for (int first = 0; first < kTile; first += S::kScoreKeys) {
    typename S::V part[S::kScoreKeys];
#pragma GCC unroll 8
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
      const typename S::V q = S::Load(padded[0]);
#pragma GCC unroll 8
      for (int j = 0; j < S::kScoreKeys; ++j) {
        std::copy(rows[first + j] + i, rows[first + j] + words, padded[1]);
        part[j] = S::Dot(q, S::Load(padded[1]), part[j]);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < S::kScoreKeys; ++j) sum[first + j] = part[j];
  }
  return S::SumEach(sum);
}

// A block of up to 128 keys: K [128/16][D/per][16] of a page, V [D/16][128/per][16], of which those in [from, to) are
// visible that `start` does not hide. Or listed keys, all visible, with the words of their values.
struct DecodeBlock {
  const float* keys = nullptr;
  const float* values = nullptr;
  int from = 0, to = 0;                // listed: slots of keys, those of the words of values
  int32_t first = 0;                   // position of key 0, unless
  const int32_t* positions = nullptr;  // lists those of the slots

  // A page under a mask: where sums of scores begin, and the first keys of the words with a visible key where the others
  // are not read.
  const float* start = nullptr;  // [128]
  const int32_t* word_keys = nullptr;
  int word_count = 0;

  int listed = 0;
  const float* const* key_rows = nullptr;  // to a whole tile
  const float* const* value_words = nullptr;
  const uint32_t* slots = nullptr;  // bit i of n: slot 16 n + i has a key
};

// The words of values that are added, in order: their number, indices among the weights, and addresses.
struct PageWords {
  const DecodeBlock& block;
  int last = 0;
  int Index(int n) const { return n; }
  const float* At(int n) const { return block.values + n * kTile; }
};
template <int kPer>
struct SomeWords : PageWords {
  uint32_t Index(int n) const { return static_cast<uint32_t>(block.word_keys[n]) / kPer; }
  const float* At(int n) const { return block.values + Index(n) * kTile; }
};
struct ListedWords : PageWords {
  const float* At(int n) const { return block.value_words[n]; }
};

// chains[n % 4][dims] += weights * values of word n, for words [first, words.last) and kTiles tiles of 16 dims.
template <typename S, int kTiles, typename Words>
inline void AddValueTiles(const Words& words, int first, int dim, int dim_first, const float* weights, float* chains) {
  const int column = dim_first / kTile * kValueStride<S>, last = words.last;
  typename S::V sum[kTiles][kChains];
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sum[t][c] = S::Load(chains + c * dim + dim_first + t * kTile);
  }
  const auto add = [&](int n, int c) __attribute__((always_inline)) {
    const float* value = words.At(n) + column;
    const typename S::V weight = S::Set1(weights[words.Index(n)]);
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) sum[t][c] = S::Dot(weight, S::Load(value + t * kValueStride<S>), sum[t][c]);
  };
  int n = first;
  for (; n + kChains <= last; n += kChains) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) add(n + c, c);
  }
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) {
    if (n + c < last) add(n + c, c);
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) S::Store(chains + c * dim + dim_first + t * kTile, sum[t][c]);
  }
}

template <typename S, typename Words>
inline void AddWords(const Words& words, int first, int dim, const float* weights, float* chains) {
  int d = 0;
  if constexpr (S::kLaneVectors >= 3) {
    for (; d + 4 * kTile <= dim; d += 4 * kTile) AddValueTiles<S, 4>(words, first, dim, d, weights, chains);
  }
  for (; d < dim; d += kTile) AddValueTiles<S, 1>(words, first, dim, d, weights, chains);
}

// Adds the values of a block to the chains. Words before the first visible key have weight zero; words after the last one
// are not read: they may contain data of another sequence.
template <typename S, bool kListed>
inline void AddValues(const DecodeBlock& block, int dim, const float* weights, float* chains) {
  const int first = block.from / S::kPer / kChains * kChains, last = (block.to + S::kPer - 1) / S::kPer;
  if constexpr (kListed) {
    AddWords<S>(ListedWords{{block, last}}, first, dim, weights, chains);
  } else if (block.word_keys != nullptr) {
    AddWords<S>(SomeWords<S::kPer>{{block, block.word_count}}, 0, dim, weights, chains);
  } else {
    AddWords<S>(PageWords{block, last}, first, dim, weights, chains);
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

// Room for a page under a mask.
struct MaskedPage {
  float start[kPageTokens];
  int32_t word_keys[kPageTokens + kTile];
};

// Sets block.start, and block.word_keys where at most three quarters of the words have a visible key: an index costs a
// part of its products.
template <typename S>
inline void MaskPage(const DecodeSplit& split, MaskedPage& room, DecodeBlock& block) {
  const uint32_t* groups = split.kv.groups(block.first / kPageTokens);
  uint32_t with_window[kPageTokens];  // keys of the row's window are in every group
  if (split.mask.window_begin < block.first + kPageTokens) {
    std::copy_n(groups, kPageTokens, with_window);
    std::fill(with_window + std::max(0, split.mask.window_begin - block.first), with_window + kPageTokens, ~0u);
    groups = with_window;
  }
  uint32_t words[kPageTokens / kTile];  // bits of first keys
  int count = 0;
#pragma GCC unroll 8
  for (int n = 0; n < kPageTokens / kTile; ++n) {
    const uint32_t* of_tile = groups + n * kTile;
    const typename S::V of_keys = S::Load(reinterpret_cast<const float*>(of_tile));
    S::Store(room.start + n * kTile, S::SelectAnyBit(of_keys, split.mask.groups, S::Zero(), S::Set1(kMaskedScore)));
    words[n] = S::AnyBits(of_tile, split.mask.groups);
    if constexpr (S::kPer == 2) words[n] = (words[n] | words[n] >> 1) & 0x5555u;
    count += std::popcount(words[n]);
  }
  block.start = room.start;
  if (count > kPageTokens / S::kPer * 3 / 4) return;
  for (int n = block.from / kTile, last = (block.to + kTile - 1) / kTile; n < last; ++n) {
    if (block.to < (n + 1) * kTile) words[n] &= (1u << block.to % kTile) - 1;
    S::CompressIndices(n * kTile, words[n], room.word_keys + block.word_count);
    block.word_count += std::popcount(words[n]);
  }
  block.word_keys = room.word_keys;
}

// Pages read in place, without the values of words that have no visible key where these are many.
struct MaskedPages {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    MaskedPage room;
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      if (page.first < split.mask.window_begin) MaskPage<S>(split, room, page);
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
    constexpr uint32_t kPer = S::kPer, kWordsMax = kPageTokens / kPer;
    const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
    int32_t list[kSplitTokens + kTile], positions[kPageTokens];
    const float *keys[kPageTokens], *values[kWordsMax];
    const int count = ListKeys<S>(split, list);
    for (int first = 0, taken = 0; first < count; first += taken) {
      uint32_t slots[kPageTokens / kTile] = {};
      uint32_t word_count = 0, last_word = UINT32_MAX;
      for (taken = 0; first + taken < count; ++taken) {
        const uint32_t position = list[first + taken], word = position / kPer;
        if (word != last_word) {
          if (word_count == kWordsMax) break;
          values[word_count] = ValueRow<S>(split.kv, dim, position);
          for (uint32_t i = 0; i < kPer; ++i) positions[word_count * kPer + i] = word * kPer + i;
          ++word_count;
          last_word = word;
        }
        keys[taken] = KeyRow<S>(split.kv, words, position);
        const uint32_t slot = (word_count - 1) * kPer + position % kPer;
        slots[slot / kTile] |= 1u << slot % kTile;
      }
      for (int n = taken; n % kTile != 0; ++n) keys[n] = keys[taken - 1];
      for (int n = first + taken; n < std::min(first + taken + kPageTokens, count); ++n)
        PrefetchKey<S>(split.kv, dim, list[n], list[n - 1]);
      block(DecodeBlock{.to = static_cast<int>(word_count * kPer),
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

// kMaskedScore at [from, 128).
template <typename S>
inline void MaskScoresFrom(int from, float* scores) {
  int key = from;
  for (; key % kLanes != 0; ++key) scores[key] = kMaskedScore;
  for (; key < kPageTokens; key += kLanes) S::Store(scores + key, S::Set1(kMaskedScore));
}

// Scores of a block in head.weights, kMaskedScore or less than any score where the row does not see the key.
template <typename S>
inline void MaskedScores(const DecodeBlock& block, int dim, const DecodeHead<S>& head) {
  float* weights = head.weights;
  if (block.key_rows == nullptr) ScorePage<S>(block.keys, dim / S::kPer, head.query, block.start, weights);
  std::fill(weights, weights + block.from, kMaskedScore);
  MaskScoresFrom<S>(block.to, weights);
}

template <typename S, bool kListed>
inline void DecodeKeys(const DecodeBlock& block, int dim, const DecodeHead<S>& head) {
  MaskedScores<S>(block, dim, head);
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
  for (int first = 0; first < block.listed; first += kTile) {
    for (int head = 0; head < split.head_count; ++head) {
      S::Store(head_at(head).weights + first, ScoreRows<S>(block.key_rows + first, dim / S::kPer, head_at(head).query));
    }
  }
  if constexpr (S::kPer == 2) {
    // From the last one on: a score's slot is its index or a later one.
    for (int head = 0; head < split.head_count; ++head) {
      float* weights = head_at(head).weights;
      int index = block.listed;
      for (int n = (block.to - 1) / kTile; n >= 0; --n) {
        index -= std::popcount(block.slots[n]);
        S::Store(weights + n * kTile, S::Expand(weights + index, block.slots[n], kMaskedScore));
      }
    }
  }
}

// A block of keys is read once for all heads of the group.
template <typename S, typename Keys>
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
    for (int head = 0; head < split.head_count; ++head) DecodeKeys<S, Keys::kListed>(block, dim, head_at(head));
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
template <typename S, typename Keys>
void VisitScores(const DecodeSplit& split, ScoreVisitor& visitor, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head) {
      MaskedScores<S>(block, dim, head_at(head));
      visitor.Visit(head, {.scores = head_at(head).weights,
                           .from = block.from,
                           .to = block.to,
                           .first = block.first,
                           .positions = block.positions});
    }
  });
}

}  // namespace varifocal::kernels::cpu

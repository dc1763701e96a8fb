// Prefill attention: blocks of up to 48 query rows in vector lanes, one KV head, any interval of keys per row.
//
// Scores are computed transposed, keys by queries, so that the softmax statistics are vertical. The scores of one or two
// tiles of 8 keys, as many as fill the registers, stay in L1 and become weights interleaved with the products of the
// next ones. The running maximum row_max of a row is a whole power of two that changes only when a score exceeds it by
// 20, and only between tiles aligned to absolute position; rescaling is then exact and rare.
// Every lane does the same operations in key order independent of its block, so a row's bits do not depend on chunking,
// batching, threads or the number of vectors. So rows of several sequences may share a block where they share pages
// (Hydragen, Juravsky et al. 2024, without its merge): after those, each sequence's pages are processed with the other
// lanes masked, and a masked key adds an exact zero. Masks (attention_variants.h) and the layout of keys are template
// parameters. "per" is KernelTable::elements_per_word.
//
// In bf16 the words of Q^T, K, P^T and V are pairs along the summation axis; everything else is f32.
//
// Shapes:  scratch holds P^T [128/per][lanes], and per block Q^T [D/per][lanes], O^T [D][lanes], row_max and sum
//          [lanes].
// Cost:    4 D flops per visible (row, key) and about 14 operations for its weight.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <type_traits>
#include <utility>

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

// Keys of a tile, (key, word): columns [D/per][16], or rows [8][D/per].
struct ColumnKeys {
  const float* at;
  float operator()(int key, int word) const { return at[word * kTile + key]; }
};
struct RowKeys {
  const float* at;
  int words;
  float operator()(int key, int word) const { return at[key * words + word]; }
};
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
inline constexpr int kScoredKeys = S::kScoredTiles* kTileKeys;

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

// Sets the masks of lanes [from, to); the others see no key.
template <typename S>
inline void FindRanges(const PrefillBlock& block, int from, int to, PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  const bool whole = from == 0 && to == block.lane_count;
  for (int lane = 0; lane < kWidth; ++lane) {
    // Idle lanes repeat the first row's mask, so that they never turn a full tile into a partial one.
    const MaskRow& row = block.masks[lane < block.lane_count ? lane : 0];
    const RowInterval seen = whole || (lane >= from && lane < to) ? row.seen : RowInterval{0, 0};
    lanes.begins[lane] = seen.begin;
    lanes.ends[lane] = seen.end;
    lanes.window_begins[lane] = row.window_begin;
    lanes.groups[lane] = std::bit_cast<float>(row.groups);
  }
  lanes.range = {};
  for (int lane = from; lane < to; ++lane) lanes.range.Add(block.masks[lane]);
  // No tile is full while some lanes see no key.
  if (!whole) lanes.range.full_last = 0;
  lanes.range.first = lanes.range.first / kTileKeys * kTileKeys;
}

// Sets the scores of the keys a lane does not see to kMaskedScore, in memory, and recomputes the tops. `groups` are
// those of the tile's keys.
template <typename S, int kVectors, typename Mask>
[[gnu::noinline]] void MaskTile(int key, const uint32_t* groups, const PrefillLanes<S>& lanes, float* scores,
                                typename S::V* top) {
  const typename S::V masked = S::Set1(kMaskedScore);
  for (int v = 0; v < kVectors; ++v) {
    const typename S::V begin = S::Load(lanes.begins + v * kLanes), end = S::Load(lanes.ends + v * kLanes);
    top[v] = masked;
    for (int j = 0; j < kTileKeys; ++j) {
      float* at = scores + j * PrefillLanes<S>::kWidth + v * kLanes;
      const typename S::V position = S::Set1(key + j);
      typename S::V score = S::Load(at);
      if constexpr (Mask::kReadsGroups) {
        const typename S::V of_groups = MaskByGroups<S, Mask>(S::Load(lanes.groups + v * kLanes), groups[j], score);
        if constexpr (Mask::kHasWindow) {
          score = S::SelectGreater(S::Load(lanes.window_begins + v * kLanes), position, of_groups, score);
        } else {
          score = of_groups;
        }
      }
      score = S::SelectBetween(position, begin, end, score, masked);
      S::Store(at, score);
      top[v] = S::Max(top[v], score);
    }
  }
}

// A page as passed to AttendPage.
struct KeyPage {
  const float* keys = nullptr;
  const float* values = nullptr;
  const uint32_t* groups = nullptr;  // null unless the mask reads them
};

// The source of pages and the layout of their keys. `first` is the page's first key, `last` the end of the keys read,
// `room` a page of scratch.
struct PoolPages {
  template <typename S, typename Mask>
  static KeyPage Get(const PrefillBlocks&, const KeyValues& kv, int dim, int first, int, float*) {
    const int page = first / kPageTokens;
    return {.keys = kv.keys(page),
            .values = kv.values(page, dim / S::kPer),
            .groups = Mask::kReadsGroups ? kv.groups(page) : nullptr};
  }
  // The tile of 8 keys at `offset`.
  static ColumnKeys Tile(const KeyPage& page, int words, int offset) {
    return {page.keys + (offset / kTile) * words * kTile + offset % kTile};
  }
  // Prefetches the part of the next page that belongs to the tile at `key`.
  template <typename S>
  static void Prefetch(const PrefillBlocks& args, int dim, int key, int last) {
    const int words = dim / S::kPer, next = key / kPageTokens + 1;
    if (next * kPageTokens >= last) return;
    const float* from = args.kv.keys(next) + key % kPageTokens * 2 * words;
    for (int i = 0; i < kTileKeys * 2 * words; i += kTile) __builtin_prefetch(from + i, 0, 2);
  }
};
struct RowPages : PoolPages {
  static RowKeys Tile(const KeyPage& page, int words, int offset) { return {page.keys + offset * words, words}; }
};
struct ListedPages : RowPages {
  template <typename S, typename Mask>
  static KeyPage Get(const PrefillBlocks& args, const KeyValues& kv, int dim, int first, int last, float* room) {
    CollectPage<S>(kv, dim, args.positions + first, std::min(kPageTokens, last - first), room);
    return {.keys = room, .values = room + kPageTokens * (dim / S::kPer), .groups = args.position_groups + first};
  }
  template <typename S>
  static void Prefetch(const PrefillBlocks& args, int dim, int key, int last) {
    for (int n = key + kPageTokens; n < std::min(key + kPageTokens + kTileKeys, last); ++n)
      PrefetchKey<S>(args.kv, dim, args.positions[n], args.positions[n - 1]);
  }
};

// The keys of one page, [page_first, page_first + 128), visible to some row. With `ahead` the next page, keys before
// `ahead_last`, is prefetched into L2.
template <typename S, int kVectors, typename Mask, typename Pages>
void AttendPage(const KeyPage& page, int dim, int page_first, const PrefillBlocks* ahead, int ahead_last,
                PrefillLanes<S>& lanes) {
  constexpr int kWidth = PrefillLanes<S>::kWidth, kKeys = kScoredKeys<S>;
  const int words = dim / S::kPer;
  const float* values = page.values;
  const uint32_t* groups = page.groups;
  // From here on relative to the page's first key.
  const int first = std::max(page_first, lanes.range.first) - page_first;
  const int last = std::min(page_first + kPageTokens, lanes.range.last) - page_first;
  int weighted = first, summed = first;      // keys from here on have no weights yet; are not yet in O
  alignas(64) float scores[kKeys * kWidth];  // of keys without weights; later ones replace earlier ones
  for (int begin = first / kKeys * kKeys; begin < last; begin += kKeys) {
    if (ahead != nullptr) {
      for (int key = begin; key < begin + kKeys; key += kTileKeys)
        Pages::template Prefetch<S>(*ahead, dim, page_first + key, ahead_last);
    }
    typename S::V score[kKeys][kVectors];
    ComputeScores<S, kVectors>(
        Pages::Tile(page, words, begin), words, lanes.queries, score, [&](int pair) __attribute__((always_inline)) {
          const int key = begin - kKeys + 2 * pair;
          if (key >= weighted) ComputeWeightPair<S, kVectors>(scores, key, lanes);
        });
    weighted = std::max(weighted, begin);
#pragma GCC unroll 2
    for (int t = 0; t < S::kScoredTiles; ++t) {
      const int key = begin + t * kTileKeys;
      if (S::kScoredTiles > 1 && (key < first || key >= last)) continue;
      typename S::V(*tile)[kVectors] = score + t * kTileKeys;
      const TileCover cover = Mask::Tile(lanes.range, page_first + key, kTileKeys);
      if constexpr (Mask::kReadsGroups) {
        if (cover == TileCover::kGroups) {
#pragma GCC unroll 3
          for (int v = 0; v < kVectors; ++v) {
            const typename S::V of_lanes = S::Load(lanes.groups + v * kLanes);
#pragma GCC unroll 8
            for (int j = 0; j < kTileKeys; ++j)
              tile[j][v] = MaskByGroups<S, Mask>(of_lanes, groups[key + j], tile[j][v]);
          }
        }
      }
      float* tile_scores = scores + t * kTileKeys * kWidth;
#pragma GCC unroll 8
      for (int j = 0; j < kTileKeys; ++j) {
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) S::Store(tile_scores + j * kWidth + v * kLanes, tile[j][v]);
      }
      typename S::V top[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        top[v] = S::Max(S::Max(S::Max(tile[0][v], tile[1][v]), S::Max(tile[2][v], tile[3][v])),
                        S::Max(S::Max(tile[4][v], tile[5][v]), S::Max(tile[6][v], tile[7][v])));
      }
      if (cover == TileCover::kPartial) [[unlikely]] {
        MaskTile<S, kVectors, Mask>(page_first + key, Mask::kReadsGroups ? groups + key : nullptr, lanes, tile_scores,
                                    top);
      }
      bool passed = false;
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        passed |= S::AnyGreater(top[v], S::Add(S::Load(lanes.row_maxima + v * kLanes), S::Set1(kRowMaxSlack)));
      }
      if (passed && !SetFirstRowMaxima<S, kVectors>(top, lanes)) [[unlikely]] {
        for (; weighted < key; weighted += 2) ComputeWeightPair<S, kVectors>(scores, weighted, lanes);
        AccumulateValues<S, kVectors>(values, dim, summed, key, lanes);
        summed = key;
        UpdateRowMaxima<S, kVectors>(top, dim, lanes);
      }
    }
  }
  // Whole tiles: keys beyond the last visible one have weight zero.
  for (; weighted < last; weighted += 2) ComputeWeightPair<S, kVectors>(scores, weighted, lanes);
  // Not beyond the last visible key: later ones may contain data of another sequence.
  AccumulateValues<S, kVectors>(values, dim, summed, last, lanes);
}

template <typename S>
inline void StoreRows(const PrefillBlock& block, int head_dim, bool is_part, const PrefillLanes<S>& lanes) {
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
    const float sum = lanes.sums[lane];
    *block.log_sum_exps[lane] =
        sum > 0 ? static_cast<float>((lanes.row_maxima[lane] + std::log2(static_cast<double>(sum))) / kLog2EDouble)
                : kEmptyLse;
  }
}

template <typename S, typename Mask, typename Pages>
void AttendPageOf(const PrefillBlock& block, const KeyPage& page, int dim, int page_first, const PrefillBlocks* ahead,
                  int ahead_last, PrefillLanes<S>& lanes) {
  const int vectors = VectorCount(block);
  if constexpr (S::kLaneVectors >= 3) {
    if (vectors == 3) return AttendPage<S, 3, Mask, Pages>(page, dim, page_first, ahead, ahead_last, lanes);
  }
  if constexpr (S::kLaneVectors >= 2) {
    if (vectors == 2) return AttendPage<S, 2, Mask, Pages>(page, dim, page_first, ahead, ahead_last, lanes);
  }
  AttendPage<S, 1, Mask, Pages>(page, dim, page_first, ahead, ahead_last, lanes);
}

// The pages not shared by all lanes, sequence by sequence.
template <typename S, typename Mask, typename Pages>
void AttendOwnPages(const PrefillBlocks& args, const PrefillBlock& block, PrefillLanes<S>& lanes) {
  const int dim = PaddedDim(args.head_dim);
  int to = 0;
  for (int from = 0; from < block.lane_count; from = to) {
    while (to < block.lane_count && block.pages[to] == block.pages[from]) ++to;
    FindRanges<S>(block, from, to, lanes);
    KeyValues kv = args.kv;
    kv.pages = block.pages[from];
    for (int page_first = std::max(args.shared_keys, lanes.range.first / kPageTokens * kPageTokens);
         page_first < lanes.range.last; page_first += kPageTokens) {
      AttendPageOf<S, Mask, Pages>(block,
                                   Pages::template Get<S, Mask>(args, kv, dim, page_first, lanes.range.last, nullptr),
                                   dim, page_first, nullptr, 0, lanes);
    }
  }
}

// Page by page, all blocks in turn, so that a page is read from memory, or collected, once.
template <typename S, typename Mask, typename Pages>
void AttendPrefill(const PrefillBlocks& args, float* scratch) {
  constexpr int kWidth = PrefillLanes<S>::kWidth;
  const int dim = PaddedDim(args.head_dim);
  PrefillLanes<S> lanes[kPrefillBlocksMax];
  constexpr bool kIsListed = std::is_same_v<Pages, ListedPages>;
  float* next = scratch + kPageTokens * kWidth;
  float* room = kIsListed ? std::exchange(next, next + PageFloats(args.head_dim)) : nullptr;
  int first = INT_MAX, last = 0;
  for (int b = 0; b < args.block_count; ++b) {
    lanes[b].weights = scratch;
    lanes[b].queries = next;
    lanes[b].outs = lanes[b].queries + dim * kWidth;
    lanes[b].row_maxima = lanes[b].outs + dim * kWidth;
    lanes[b].sums = lanes[b].row_maxima + kWidth;
    next = lanes[b].sums + kWidth;
    BeginBlock<S>(args.blocks[b], args.head_dim, lanes[b]);
    FindRanges<S>(args.blocks[b], 0, args.blocks[b].lane_count, lanes[b]);
    first = std::min(first, lanes[b].range.first);
    last = std::max(last, lanes[b].range.last);
  }
  last = std::min(last, args.shared_keys);
  for (int page_first = first / kPageTokens * kPageTokens; page_first < last; page_first += kPageTokens) {
    const int behind = page_first + kPageTokens;
    const PrefillBlocks* ahead = &args;
    const KeyPage page = Pages::template Get<S, Mask>(args, args.kv, dim, page_first, last, room);
    for (int b = 0; b < args.block_count; ++b) {
      if (behind > lanes[b].range.first && page_first < lanes[b].range.last) {
        AttendPageOf<S, Mask, Pages>(args.blocks[b], page, dim, page_first, std::exchange(ahead, nullptr), last,
                                     lanes[b]);
      }
    }
  }
  for (int b = 0; b < args.block_count && !kIsListed; ++b) {
    if (lanes[b].range.last > args.shared_keys) AttendOwnPages<S, Mask, Pages>(args, args.blocks[b], lanes[b]);
  }
  for (int b = 0; b < args.block_count; ++b) StoreRows<S>(args.blocks[b], args.head_dim, args.is_part, lanes[b]);
}

}  // namespace varifocal::kernels::cpu

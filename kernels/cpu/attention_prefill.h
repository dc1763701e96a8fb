// Prefill attention: blocks of up to 48 query rows (prefill_block.h), one KV head, any interval of keys per row.
//
// The scores of one or two tiles of 8 keys, as many as fill the registers, stay in L1 and become weights interleaved with
// the products of the next ones. Running maxima change only between tiles aligned to absolute position, so a row's bits
// do not depend on chunking, batching, threads or the number of vectors. So rows of several sequences may share a block
// where they share pages (Hydragen, Juravsky et al. 2024, without its merge): after those, each sequence's pages are
// processed with the other lanes masked, and a masked key adds an exact zero. Masks (attention_variants.h) and the layout
// of keys are template parameters. "per" is KernelTable::elements_per_word.
//
// Shapes:  scratch holds P^T [128/per][lanes], and per block Q^T [D/per][lanes], O^T [D][lanes], row_max and sum
//          [lanes].
// Cost:    4 D flops per visible (row, key) and about 14 operations for its weight.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/collect_keys.h"
#include "kernels/cpu/prefill_block.h"

namespace varifocal::kernels::cpu {

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
    lanes.groups[lane] = std::bit_cast<float>(row.token_groups);
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

// Caps the scores of a tile, and finds its largest again.
template <typename S, int kVectors>
[[gnu::noinline]] void CapTile(float soft_cap, float* scores, typename S::V* top) {
  for (int v = 0; v < kVectors; ++v) {
    top[v] = S::Set1(kMaskedScore);
    for (int j = 0; j < kTileKeys; ++j) {
      float* at = scores + j * PrefillLanes<S>::kWidth + v * kLanes;
      CapScores<S>(soft_cap, kLanes, at);
      top[v] = S::Max(top[v], S::Load(at));
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
      if (lanes.soft_cap > 0) [[unlikely]]
        CapTile<S, kVectors>(lanes.soft_cap, tile_scores, top);
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
  // Whole pairs: a key beyond the last visible one has weight zero.
  for (; weighted < last; weighted += 2) ComputeWeightPair<S, kVectors>(scores, weighted, lanes);
  // Not beyond the last visible key: later ones may contain data of another sequence.
  AccumulateValues<S, kVectors>(values, dim, summed, last, lanes);
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
    lanes[b].soft_cap = args.soft_cap;
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
  for (int b = 0; b < args.block_count; ++b)
    StoreRows<S>(args.blocks[b], args.head_dim, args.is_part, args.has_sinks, lanes[b]);
}

}  // namespace varifocal::kernels::cpu

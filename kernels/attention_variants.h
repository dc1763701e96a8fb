// Masks, softmax scales (temperature) and the learned temperature of attention.
//
// A mask is one interval of keys per query row (causal, chunked or windowed), alone or together with a test of the
// groups that row and key belong to. Kernels take the mask as a template parameter: `IsVisible` decides one pair, `Tile`
// decides whether a tile of keys can be skipped, needs no test, or needs one. Every temperature is a factor of
// the row's scores: kernels take a scale and no mode. All backends and the reference use these functions; the constexpr
// ones are called on devices too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace varifocal::kernels {

// A query row sees keys [begin, end) by absolute position. begin >= end: it sees nothing.
struct RowInterval {
  int32_t begin = 0;
  int32_t end = 0;
};

// Keys 0..position.
inline RowInterval CausalInterval(int32_t position) { return {0, position + 1}; }

// The last `window` keys, the row's own included.
inline RowInterval WindowInterval(int32_t position, int32_t window) {
  return {std::max(0, position + 1 - window), position + 1};
}

// The groups a token is in, a bit each.
using TokenGroups = uint32_t;

// A mask's inputs from one query row.
struct MaskRow {
  RowInterval seen;
  int32_t window_begin = 0;  // keys from here on are inside the row's window
  TokenGroups token_groups = 0;
};

// Over the rows of a block: keys outside [first, last) are in no row's interval, keys in [full_first, full_last) are in that
// of every row. Before window_first no key is inside any row's window; from window_last on every key is inside each of them.
struct MaskRange {
  int32_t first = INT32_MAX, last = 0;
  int32_t full_first = 0, full_last = INT32_MAX;
  int32_t window_first = INT32_MAX, window_last = 0;
  TokenGroups token_groups = 0;  // of any row

  // Of rows with `token_groups` among them whose intervals and positions never decrease: those of the first and last row bound all.
  static constexpr MaskRange Between(const MaskRow& head, const MaskRow& tail, TokenGroups token_groups) {
    return {head.seen.begin,   tail.seen.end,     tail.seen.begin, head.seen.end,
            head.window_begin, tail.window_begin, token_groups};
  }
  constexpr void Add(const MaskRow& row) {
    full_first = std::max(full_first, row.seen.begin);
    full_last = std::min(full_last, row.seen.end);
    window_first = std::min(window_first, row.window_begin);
    window_last = std::max(window_last, row.window_begin);
    token_groups |= row.token_groups;
    if (row.seen.begin >= row.seen.end) return;
    first = std::min(first, row.seen.begin);
    last = std::max(last, row.seen.end);
  }
  constexpr bool Skips(int32_t key, int32_t count) const { return key + count <= first || key >= last; }
  constexpr bool Contains(int32_t key, int32_t count) const { return key >= full_first && key + count <= full_last; }
};

enum class TileCover {
  kSkip,     // no pair of the tile is visible
  kFull,     // every pair is visible
  kGroups,   // a pair is visible by its groups alone
  kPartial,  // each pair is tested
};

// Keys of the interval.
struct IntervalMask {
  static constexpr bool kReadsGroups = false;
  static constexpr bool kHasWindow = false;
  static constexpr bool IsVisible(const MaskRow& row, int32_t key, TokenGroups) {
    return key >= row.seen.begin && key < row.seen.end;
  }
  static constexpr TileCover Tile(const MaskRange& rows, int32_t key, int32_t count) {
    if (rows.Skips(key, count)) return TileCover::kSkip;
    return rows.Contains(key, count) ? TileCover::kFull : TileCover::kPartial;
  }
};

// Focus (arXiv 2604.03260): keys of the interval that are inside the row's window or share a group with the row.
struct WindowOrGroupMask {
  static constexpr bool kReadsGroups = true;
  static constexpr bool kHasWindow = true;          // keys from window_begin on are visible whatever their groups
  static constexpr bool kVisibleWhenShared = true;  // by GroupsMatch
  static constexpr bool GroupsMatch(TokenGroups row, TokenGroups key) { return (row & key) != 0; }
  static constexpr bool IsVisible(const MaskRow& row, int32_t key, TokenGroups groups) {
    return IntervalMask::IsVisible(row, key, groups) &&
           (key >= row.window_begin || GroupsMatch(row.token_groups, groups));
  }
  static constexpr TileCover Tile(const MaskRange& rows, int32_t key, int32_t count) {
    if (rows.Skips(key, count)) return TileCover::kSkip;
    if (!rows.Contains(key, count)) return TileCover::kPartial;
    if (key >= rows.window_last) return TileCover::kFull;
    return key + count <= rows.window_first ? TileCover::kGroups : TileCover::kPartial;
  }
  // Where it is known which groups any key of the tile has.
  static constexpr TileCover Tile(const MaskRange& rows, int32_t key, int32_t count, TokenGroups groups) {
    const TileCover cover = Tile(rows, key, count);
    return cover == TileCover::kGroups && (rows.token_groups & groups) == 0 ? TileCover::kSkip : cover;
  }
};

// Keys of the interval that share none of `groups` with the row: the window's part of an attention by groups, and a
// group's part without the pairs that an earlier group has had.
struct DisjointMask {
  static constexpr bool kReadsGroups = true;
  static constexpr bool kHasWindow = false;
  static constexpr bool kVisibleWhenShared = false;
  static constexpr bool GroupsMatch(TokenGroups row, TokenGroups key) { return (row & key) == 0; }
  static constexpr bool IsVisible(const MaskRow& row, int32_t key, TokenGroups groups) {
    return IntervalMask::IsVisible(row, key, groups) && GroupsMatch(row.token_groups, groups);
  }
  static constexpr TileCover Tile(const MaskRange& rows, int32_t key, int32_t count) {
    if (rows.Skips(key, count)) return TileCover::kSkip;
    if (!rows.Contains(key, count)) return TileCover::kPartial;
    return rows.token_groups == 0 ? TileCover::kFull : TileCover::kGroups;
  }
  static constexpr TileCover Tile(const MaskRange& rows, int32_t key, int32_t count, TokenGroups groups) {
    const TileCover cover = Tile(rows, key, count);
    return cover == TileCover::kGroups && (rows.token_groups & groups) == 0 ? TileCover::kFull : cover;
  }
};

// Groups of one layer, at most; a bit each.
inline constexpr int kGroupCountMax = 32;

// The b of RouteGroups (backend.h):
enum class GroupBias {
  kStored,  // a vector of the checkpoint
  kPaged,   // Sinkhorn over the complete pages before the token's own; zeros in the first page
  kPrompt,  // Sinkhorn over the whole prompt, for later rows too; not causal
};

// Rounds of Sinkhorn; another number gives other groups.
inline constexpr int kSinkhornRounds = 10;

// Two sets of k groups always intersect when 2 k > K: then the mask is the interval.
inline bool AllGroupSetsIntersect(int group_count, int top_k) { return 2 * top_k > group_count; }

// The share of pairs with a group in common, where tokens have uniformly drawn sets of groups.
inline double SharedGroupPairs(int group_count, int top_k) {
  double apart = 1;
  for (int i = 0; i < top_k; ++i) apart *= static_cast<double>(group_count - top_k - i) / (group_count - i);
  return 1 - apart;
}

// Decode of one row reads only the keys of its groups where these are few, and else all keys. Gathering single keys costs
// more per key than reading tiles of 16, and several times more in bf16 (two keys per word).
inline bool DecodeListsKeys(int group_count, int top_k) {
  constexpr double kListedShareMax = 0.3;
  return SharedGroupPairs(group_count, top_k) <= kListedShareMax;
}

// Attention by groups enumerates k^2 / K of the pairs: beyond this share it is not faster than testing every pair.
inline constexpr double kGatherShareMax = 0.75;

// The most groups per token with which attention by groups is used.
inline int GatherTopKMax(int group_count) { return static_cast<int>(std::sqrt(kGatherShareMax * group_count)); }

// The position from which rows are computed by groups. It depends on the setting and the backend alone, so that a
// row has the same bits in every prompt, batch and chunk. INT32_MAX: never.
//
// A row at position p costs p pairs when every pair is tested, and by groups w + pair p k^2 / K pairs and k + 1 parts, whose queries
// and results cost `part` pairs each. Rounded up to whole pages of 128: a few rows at the end of a prompt cost a whole block in every
// group.
struct GatherCosts {
  double part = 45, pair = 1.1;
};
// Measured on CPUs; products of bf16 are faster, the rest is not.
constexpr GatherCosts HostGatherCosts(DType dtype) {
  return dtype == DType::kF32 ? GatherCosts{} : GatherCosts{.part = 85, .pair = 1.4};
}
inline int32_t GatherFrom(int group_count, int top_k, int32_t window, const GatherCosts& costs) {
  if (top_k > GatherTopKMax(group_count)) return INT32_MAX;
  const double gain = 1 - costs.pair * top_k * top_k / group_count;
  const double from = gain > 0 ? (window + costs.part * (top_k + 1)) / gain : 1 << 30;
  return from < 1 << 30 ? static_cast<int32_t>(std::ceil(from / 128)) * 128 : INT32_MAX;
}

// Softmax(q.k * base / t). Divided in float64 and rounded once, so that t = 1 gives the bits of the baseline.
// A quotient beyond 2^100 is clamped: one key already takes all the weight, and a product with it stays finite.
inline float FocalScale(double base, double temperature) {
  constexpr double kScaleMax = 0x1p100;
  return static_cast<float>(std::min(base / temperature, kScaleMax));
}

// Softmax(q.k / tau), tau = clip(mean(x.w + b), tau_min, tau_max); what the mean runs over:
enum class TauMean {
  kCausal,    // positions 0..i
  kToken,     // position i alone
  kSequence,  // prompt rows: the whole prompt; later rows: 0..i
};

constexpr float ClipTau(double mean, float tau_min, float tau_max) {
  return std::min(std::max<float>(mean, tau_min), tau_max);
}

// What replaces the softmax scale: 1 / tau, divided in float64 and rounded once.
constexpr float TauScale(float tau) { return 1.0 / tau; }

}  // namespace varifocal::kernels

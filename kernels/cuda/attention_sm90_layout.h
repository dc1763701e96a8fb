// Sizes of the sm90 attention kernel (attention_sm90.h), shared with the host: key blocks, stages, shared memory.
#pragma once

#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {

// Threads: a producer warpgroup and two consumers of 64 tile rows each.
inline constexpr int kSm90Threads = 384;
inline constexpr int kSm90QueryThreads = 96;  // of the producer, where the others copy pages
inline constexpr int kSm90Consumers = 2;
inline constexpr int kSm90ConsumerRows = 64;
inline constexpr int kSm90TileRows = kSm90Consumers * kSm90ConsumerRows;
inline constexpr int kSm90WorkSlots = 2;

// Head dims it is compiled for; of 256 the mask by groups does not fit the registers, and keeps the mma kernel. So do caps. Passes
// over gathered keys fit where attention without groups does.
VF_HD constexpr bool Sm90Supports(int dim, bool reads_groups, bool has_cap) {
  return dim >= 64 && dim <= 256 && (dim < 256 || !reads_groups) && !has_cap;
}

// Part of a result's definition: blocks begin at multiples of this.
VF_HD constexpr int Sm90BlockKeys(int dim) { return dim > 128 ? 64 : 128; }

// What a block processes next, as its warps pass it on.
struct alignas(16) WorkRecord {
  int32_t first_row = 0;                           // of the tile's sequence, in the step
  int32_t first_tile_row = 0, tile_row_count = 0;  // of the sequence's; no rows: the work has ended
  int32_t kv_head = 0, segment = 0;
  int32_t first_block = 0, last_block = 0;
  int32_t list = 0;  // of gathered keys
};

// Offsets in dynamic shared memory.
template <int kDim, bool kReadsGroups>
struct Sm90Memory {
  static constexpr int kKeys = Sm90BlockKeys(kDim);
  static constexpr int kStages = kDim == 64 ? 4 : kDim <= 96 ? 3 : 2;
  static constexpr int kQueryBuffers = kDim == 256 ? 1 : 2;
  static constexpr int kQueryBytes = TileBytes(kDim, kSm90ConsumerRows);  // of a consumer
  static constexpr int kTileBytes = TileBytes(kDim, kKeys);
  static constexpr int kGroupBytes = kReadsGroups ? kKeys * 4 : 0;
  static constexpr int kMaskBytes = kSm90TileRows * (kReadsGroups ? 16 : 8);
  static constexpr int kExponentBytes = kSm90TileRows * 4;

  static constexpr int kQueries = 0;
  static constexpr int kKeyRing = kQueries + kQueryBuffers * kSm90Consumers * kQueryBytes;
  static constexpr int kValueRing = kKeyRing + kStages * kTileBytes;
  static constexpr int kGroups = kValueRing + kStages * kTileBytes;
  static constexpr int kMasks = kGroups + kStages * kGroupBytes;
  static constexpr int kExponents = kMasks + kSm90WorkSlots * kMaskBytes;
  static constexpr int kWork = kExponents + kSm90WorkSlots * kExponentBytes;
  static constexpr int kBarriers = kWork + kSm90WorkSlots * static_cast<int>(sizeof(WorkRecord));
  // Barriers in pairs, full and empty, a pair a slot.
  static constexpr int kWorkBarriers = kBarriers;
  static constexpr int kQueryBarriers = kWorkBarriers + 16 * kSm90WorkSlots;
  static constexpr int kKeyBarriers = kQueryBarriers + 16 * kQueryBuffers;
  static constexpr int kValueBarriers = kKeyBarriers + 16 * kStages;
  static constexpr int kBytes = kValueBarriers + 16 * kStages;

  static_assert(kQueryBytes % 1024 == 0 && kTileBytes % 1024 == 0, "swizzles repeat every 1,024 bytes");
  static_assert(kBytes <= 232448, "the largest block of compute capability 9.0");
};

// How the work is divided; no result depends on it.
struct Sm90Tuning {
  int32_t items_per_block = 8;  // at most, once every multiprocessor has a block; 0: all
  bool turns = true;            // of the consumers' products
  bool sections = true;         // heads in groups whose keys and values stay in the L2 cache
};

// Items of a step's work: a tile under a KV head, all of its keys or, with segments apart, those of one segment. Blocks take them
// in order, each the next one when it is done with the one before.
struct Sm90Grid {
  int32_t work_count = 0, block_count = 0, section_heads = 1;
  int32_t section_items = 0, segment_items = 0;  // of a section of heads, and of all heads
  VF_HD constexpr void SetItems(int tiles, int heads, int segments) {
    section_items = tiles * section_heads;
    segment_items = tiles * heads;
    work_count = segment_items * segments;
  }
};

// Heads of a section: their keys and values take at most this much of the L2 cache.
inline constexpr int64_t kSm90SectionBytes = 32 << 20;

// `keys`: up to the last one that any row sees.
VF_HD constexpr Sm90Grid PlanSm90Grid(int tiles, int heads, int keys, bool segments_apart, int dim,
                                      const Sm90Tuning& tuning, int multiprocessors) {
  const int64_t fitting = kSm90SectionBytes / (int64_t{keys > 1 ? keys : 1} * dim * 4);
  Sm90Grid grid;
  grid.section_heads = !tuning.sections || fitting > heads ? heads : fitting < 1 ? 1 : static_cast<int>(fitting);
  grid.SetItems(tiles, heads, segments_apart ? CeilDivide(keys, kSegmentKeys) : 1);
  const int by_items = tuning.items_per_block > 0 ? CeilDivide(grid.work_count, tuning.items_per_block) : 1;
  const int wanted = by_items < multiprocessors ? multiprocessors : by_items;
  grid.block_count = grid.work_count < wanted ? grid.work_count : wanted;
  return grid;
}

// Segments apart, then sections of heads, in each the longest tiles of all its heads first.
struct Sm90ItemPlace {
  int segment = 0, tile = 0, kv_head = 0;
};
VF_HD constexpr Sm90ItemPlace Sm90PlaceOf(const Sm90Grid& grid, int heads, int item) {
  Sm90ItemPlace place;
  place.segment = item / grid.segment_items;
  item -= place.segment * grid.segment_items;
  const int section = item / grid.section_items, first_head = section * grid.section_heads;
  item -= section * grid.section_items;
  const int left = heads - first_head, width = left < grid.section_heads ? left : grid.section_heads;
  place.tile = item / width;
  place.kv_head = first_head + item % width;
  return place;
}

// Key blocks [first, last) of an item whose rows see keys [begin, end) altogether.
VF_HD constexpr BlockRange Sm90BlocksOf(int begin, int end, int keys, bool segments_apart, int segment) {
  if (begin >= end) return {};
  BlockRange blocks{begin / keys, CeilDivide(end, keys)};
  if (segments_apart) {
    const int first = segment * (kSegmentKeys / keys), last = first + kSegmentKeys / keys;
    blocks = {blocks.first > first ? blocks.first : first, blocks.last < last ? blocks.last : last};
  }
  return blocks;
}

}  // namespace varifocal::kernels::cuda

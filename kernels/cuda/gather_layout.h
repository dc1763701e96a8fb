// Attention by groups with gathered keys (attention_gathered.h): what its lists contain and how large they are, shared with the host.
//
// A sequence of T tokens of k groups each has k T entries in its lists. A list has the tokens of one group in order of position,
// so an entry's rank depends on earlier tokens alone. Rows are listed by pass: pass n has each row in its n-th lowest group.
#pragma once

#include "kernels/attention_variants.h"
#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {

// Passes, at most: GatherTopKMax of the most groups.
inline constexpr int kGatherPassesMax = 4;
inline constexpr int kGatherThreads = 1024;  // of a block that lists a group

// Other settings and head dims have every pair tested.
VF_HD constexpr bool GatherSupports(int dim, int top_k) { return dim <= kValueDimsMax && top_k <= kGatherPassesMax; }

// Row tiles of 16 a warp of a pass has, at most: as in attention without groups where ptxas fits the test of groups into 255 registers.
// Narrow heads have one variant.
VF_HD constexpr int GatherTilesPerWarp(int dim, bool reads_groups) {
  return dim < 64 || (reads_groups && dim == 128) ? 1 : RowTilesPerWarp(dim, false);
}

// A row of a pass: of the step, and the rank of its own key in the list of the group.
struct GatherRow {
  int32_t row = 0, rank = 0;
};

// A group of a sequence: its entries, and of each pass its rows.
struct GatherList {
  int32_t first_key = 0, key_count = 0;
  int32_t first_rows[kGatherPassesMax] = {}, row_counts[kGatherPassesMax] = {};
};

// Tile rows of one group: tile row t is row t / G of the list's rows, query head t % G.
struct GatherTile {
  int32_t list = 0;  // sequence of the step's part * groups + group
  int32_t first_tile_row = 0;
  int32_t tile_row_count = 0;
  int32_t unused = 0;
};

// A list begins at a multiple of four entries and is read in blocks of 64, so the lists of a sequence take a little more than k T.
VF_HD constexpr int GatherRoom(int top_k, int token_count, int group_count) {
  return (top_k * token_count + 3) / 4 * 4 + 4 * group_count + kBlockKeys;
}
// Where a list begins whose lower groups have `lower` entries altogether.
VF_HD constexpr int GatherFirstKey(int lower, int group) { return (lower + 3) / 4 * 4 + 4 * group; }

// Tiles of a pass over this many rows, at most; every list may have one that is not full.
VF_HD constexpr int GatherTilesMax(int rows, int queries_per_kv, int tile_rows, int list_count) {
  const int all = rows * queries_per_kv, most = CeilDivide(all, tile_rows) + list_count;
  return all < most ? all : most;
}

// A tile's place in time, longest first: its last row's rank, interpolated between those of the list's first and last row.
VF_HD constexpr int GatherCost(int first_rank, int key_count, int index, int tile_count) {
  return first_rank + static_cast<int>(int64_t{key_count - first_rank} * (index + 1) / tile_count);
}

// Shared memory of a pass: that of attention without lists, and the places of two blocks of keys.
VF_HD constexpr int GatherStaticBytes(bool reads_groups, int tile_rows) { return tile_rows * (reads_groups ? 24 : 16); }
VF_HD constexpr int GatherSharedBytes(int dim, bool reads_groups, int tile_rows) {
  return PrefillSharedBytes(dim, reads_groups, tile_rows) + kGatheredBytes;
}

}  // namespace varifocal::kernels::cuda

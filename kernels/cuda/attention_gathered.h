// Prefill attention by groups with gathered keys: rows from GatherView::from on.
//
// A row's softmax goes through parts in a fixed order, and its state (weighted sums, maximum, sum) is kept in memory between them:
// the keys of its window that share no group with it, then for each of its groups, lowest first, the keys of that group that share no
// lower one. Keys of a group are read through its list, row by row. Blocks of keys begin at multiples of 64, of positions in the
// window's part and of ranks in a list, and what a row does not see of them leaves its state unchanged, bit for bit. So its bits
// depend on its tokens alone.
//
// Pass n computes rows under their n-th lowest group: of the first no pair is tested for groups.
//
// Cost:    k^2 / K of the pairs and the window's; a state of D + 2 numbers a row and head is written and read between parts.
// Source:  docs/focus.md; the decomposition into disjoint parts is that of kernels/cpu/group_attention.h.
#pragma once

#include "kernels/cuda/attention_gathered_state.h"
#include "kernels/cuda/attention_prefill.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// ---- the window's part ----

// Rows [first, last) of a tile are those from GatherView::from on; keys from the first one's window on.
template <int kTileRows, int kParts>
VF_DEVICE PrefillWork FindWindowWork(const AttendParams& p) {
  PrefillWork work;
  work.tile = p.tiles[BlockY() / kParts];
  work.kv_head = BlockX();
  QueryTile& tile = work.tile;
  int first = tile.first_tile_row + BlockY() % kParts * kTileRows, end = first + kTileRows;
  const int tile_end = tile.first_tile_row + tile.tile_row_count;
  end = end < tile_end ? end : tile_end;
  if (first < end && !IsOmitted(GatherStep::kWindowRowsBelow))
    first += TileRowsBelow(p, tile.sequence, first, end - first);
  if (first >= end) return {};
  tile.first_tile_row = first;
  tile.tile_row_count = end - first;
  work.first_row = p.step.first_rows[tile.sequence];
  work.table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const int first_position = p.step.first_positions[tile.sequence];
  const int begin = first_position + first / p.queries_per_kv - p.token_groups.window;
  work.key_end = first_position + (end - 1) / p.queries_per_kv + 1;
  work.blocks = BlocksOf(begin > 0 ? begin : 0, work.key_end);
  return work;
}

template <int kDim, int kTileRows>
VF_DEVICE void StageWindowTile(const AttendParams& p, const PrefillWork& work,
                               PrefillRows<DisjointMask, kTileRows>& tile_rows) {
  StageTile<kDim>(p, work, tile_rows);
  for (int index = ThreadX(); index < kTileRows; index += kAttendThreads) {
    MaskRow& mask = tile_rows.masks[index];
    if (mask.seen.begin < mask.window_begin && !IsOmitted(GatherStep::kWindowBegin))
      mask.seen.begin = mask.window_begin;
    if (IsOmitted(GatherStep::kWindowDisjoint)) mask.token_groups = 0;
  }
  SyncThreads();
}

template <int kDim, int kTiles>
VF_DEVICE void StoreWindowStates(const AttendParams& p, const PrefillWork& work,
                                 const PrefillSums<kDim, kTiles>& sums) {
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = ThreadTileRow<kTiles>(m, r);
      const float sum = QuadSum(sums.rows[m].sum[r]);
      if (index >= work.tile.tile_row_count) continue;
      const TileRowPlace at = PlaceOf(p, work, index);
      StoreState(GatheredState(p, kDim, at.row, QueryHeadOf(p, work, at)), r, sums.rows[m].largest[r], sum,
                 sums.outputs[m]);
    }
  }
}

template <int kDim, int kTiles>
VF_KERNEL(kAttendThreads, 1)
AttendWindowKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kTileRows = 64 * kTiles;
  using Mask = DisjointMask;
  VF_SHARED PrefillRows<Mask, kTileRows> tile_rows;
  const PrefillWork work = FindWindowWork<kTileRows, PrefillTileRows(kDim) / kTileRows>(p);
  if (work.tile.tile_row_count <= 0) return;
  StageKeys<kDim, Mask, kTileRows>(p, work, 0, work.blocks.first, work.key_end);
  StageWindowTile<kDim>(p, work, tile_rows);

  const TokenGroups row_groups = GroupsOfWarp<Mask, kTiles>(tile_rows);
  PrefillSums<kDim, kTiles> sums;
  sums.Reset();
  for (int block = work.blocks.first; block < work.blocks.last; ++block) {
    const int slot = (block - work.blocks.first) % 2;
    if (!IsOmitted(GatherStep::kWindowAwait)) WaitCopies<0>();
    if (!IsOmitted(GatherStep::kWindowSync)) SyncThreads();
    StageKeys<kDim, Mask, kTileRows>(p, work, 1 - slot, block + 1, work.key_end);
    ProcessBlock<kDim, Mask, kTiles>(tile_rows, row_groups, p.soft_cap, slot, block, sums);
  }
  StoreWindowStates<kDim, kTiles>(p, work, sums);
}

// ---- a pass over the lists ----

// What a thread block processes: tile rows of one group, of one KV head.
struct GatheredWork {
  int first_tile_row = 0, tile_row_count = 0;  // without rows: nothing to do
  int kv_head = 0;
  const GatherRow* rows = nullptr;  // of the list under this pass
  const int32_t* places = nullptr;  // of the list's keys
  const TokenGroups* key_groups = nullptr;
  TokenGroups below = 0;             // the lower groups
  int key_end = 0, block_count = 0;  // up to the last row's own key
};

VF_DEVICE GatheredWork FindGatheredWork(const AttendParams& p) {
  const int pass = p.gather.pass;
  GatheredWork work;
  if (static_cast<int>(BlockY()) >= p.gather.tile_counts[pass]) return work;
  const GatherTile tile = p.gather.tiles[WideProduct(pass, p.gather.tile_stride) + BlockY()];
  const GatherList& list = p.gather.lists[tile.list];
  work.first_tile_row = tile.first_tile_row;
  work.tile_row_count = tile.tile_row_count;
  work.kv_head = BlockX();
  work.rows = p.gather.rows + WideProduct(pass, p.step.row_count) + list.first_rows[pass];
  work.places = p.gather.places + list.first_key;
  work.key_groups = p.gather.key_groups + list.first_key;
  work.below = (1u << tile.list % p.gather.group_count) - 1;
  work.key_end = work.rows[(tile.first_tile_row + tile.tile_row_count - 1) / p.queries_per_kv].rank + 1;
  work.block_count = CeilDivide(work.key_end, kBlockKeys);
  return work;
}

template <typename Mask, int kTileRows>
struct GatheredRows {
  PrefillRows<Mask, kTileRows> tile;
  int32_t rows[kTileRows];  // of the step
};

// Tile rows past the last one repeat its computation and store nothing.
VF_DEVICE int GatheredTileRow(const GatheredWork& work, int index) {
  return work.first_tile_row + (index < work.tile_row_count ? index : work.tile_row_count - 1);
}

// What each tile row sees, by rank, and its exponent; then the queries.
template <int kDim, typename Mask, int kTileRows>
VF_DEVICE void StageGatheredTile(const AttendParams& p, const GatheredWork& work, GatheredRows<Mask, kTileRows>& rows) {
  for (int index = ThreadX(); index < kTileRows; index += kAttendThreads) {
    const int tile_row = GatheredTileRow(work, index), head = tile_row % p.queries_per_kv;
    const GatherRow at = work.rows[tile_row / p.queries_per_kv];
    const int end = IsOmitted(GatherStep::kSeenByRank) ? work.key_end : at.rank + 1;
    rows.rows[index] = at.row;
    if constexpr (Mask::kReadsGroups) {
      const TokenGroups lower = IsOmitted(GatherStep::kLowerGroups) ? 0 : work.key_groups[at.rank] & work.below;
      rows.tile.masks[index] = {{0, end}, 0, lower};
    } else {
      rows.tile.masks[index] = {0, end};
    }
    rows.tile.exponents[index] = ScaleLog2(ScaleOf(p, at.row, work.kv_head * p.queries_per_kv + head));
  }
  if (!IsOmitted(GatherStep::kSyncRows)) SyncThreads();
  StageQueries<kDim, kTileRows>(0, p, work.kv_head, [&](int index) {
    return TileRowPlace{rows.rows[index], GatheredTileRow(work, index) % p.queries_per_kv};
  });
}

// Dynamic shared memory: PrefillMemory, and behind it the places of two blocks' keys.
template <int kDim, bool kReadsGroups, int kTileRows>
VF_DEVICE int GatheredPlaces(int block) {
  return PrefillSharedBytes(kDim, kReadsGroups, kTileRows) + (block & 1) * kBlockGroupBytes;
}

// The places of a block's keys, if there is such a block.
VF_DEVICE void StagePlaces(int to, const GatheredWork& work, int block) {
  constexpr int kWords = kChunkBytes / static_cast<int>(sizeof(int32_t));
  if (block >= work.block_count || ThreadX() >= kBlockKeys / kWords) return;
  CopyAsync(to + ThreadX() * kChunkBytes, work.places + block * kBlockKeys + ThreadX() * kWords, true);
}

// One panel of the keys and values of a block, row by row from where they are; past the tile's last key zeros.
template <int kDim, int kFirst, int kWidth>
VF_DEVICE void StageGatheredPanel(int to, uint32_t page_bytes, const unsigned char* head, int places, int visible) {
  constexpr int kRowChunks = kWidth / kChunkDims, kRowsAtOnce = kAttendThreads / kRowChunks;
  constexpr int kSteps = kBlockKeys / kRowsAtOnce;
  const int chunk = ThreadX() % kRowChunks;
  VF_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    const int row = i * kRowsAtOnce + ThreadX() / kRowChunks;
    const bool valid = row < visible || IsOmitted(GatherStep::kZeroPast);
    const uint32_t place = valid ? reinterpret_cast<const uint32_t*>(SharedMemory() + places)[row] : 0;
    const int token = static_cast<int>(place % kPageTokenCount);
    const int logical = SwizzledChunk(kWidth, row, chunk);
    const int stored = IsOmitted(GatherStep::kOwnSwizzle) ? logical : SwizzledChunk(kWidth, token, logical);
    const unsigned char* from = head + uint64_t{place / kPageTokenCount} * page_bytes +
                                (kFirst * kPageTokenCount + token * kWidth) * 2 + stored * kChunkBytes;
    const int at = to + (kFirst * kBlockKeys + row * kWidth) * 2 + chunk * kChunkBytes;
    CopyAsync(at, from, valid);
    CopyAsync(at + TileBytes(kDim, kBlockKeys), from + TileBytes(kDim, kPageTokenCount), valid);
  }
}
template <int kDim, int kFirst = 0>
VF_DEVICE void StageGatheredPanels(int to, uint32_t page_bytes, const unsigned char* head, int places, int visible) {
  constexpr int kWidth = PanelOf(kDim, kFirst).width;
  StageGatheredPanel<kDim, kFirst, kWidth>(to, page_bytes, head, places, visible);
  if constexpr (kFirst + kWidth < kDim)
    StageGatheredPanels<kDim, kFirst + kWidth>(to, page_bytes, head, places, visible);
}

// Starts the copies of a block's keys and of the next one's places, as far as there are such blocks. The block's places are there.
template <int kDim, typename Mask, int kTileRows>
VF_DEVICE void StageGatheredKeys(const AttendParams& p, const GatheredWork& work, int block) {
  using Memory = PrefillMemory<kDim, kTileRows>;
  if (block < work.block_count) {
    const unsigned char* head = p.pool.tiles + WideProduct(work.kv_head, HeadPageBytes(kDim));
    const auto page_bytes = static_cast<uint32_t>(p.pool.kv_head_count * HeadPageBytes(kDim));
    StageGatheredPanels<kDim>(Memory::Keys(block & 1), page_bytes, head,
                              GatheredPlaces<kDim, Mask::kReadsGroups, kTileRows>(block),
                              work.key_end - block * kBlockKeys);
    if constexpr (Mask::kReadsGroups) {
      constexpr int kWords = kChunkBytes / static_cast<int>(sizeof(TokenGroups));
      if (ThreadX() < kBlockKeys / kWords) {
        CopyAsync(Memory::Groups(block & 1) + ThreadX() * kChunkBytes,
                  work.key_groups + block * kBlockKeys + ThreadX() * kWords, true);
      }
    }
  }
  StagePlaces(GatheredPlaces<kDim, Mask::kReadsGroups, kTileRows>(block + 1), work, block + 1);
  if (!IsOmitted(GatherStep::kCommitKeys)) CommitCopies();
}

// The states of the part before, if there is one.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void LoadStates(const AttendParams& p, const GatheredWork& work, const GatheredRows<Mask, 64 * kTiles>& rows,
                          PrefillSums<kDim, kTiles>& sums) {
  sums.Reset();
  if (!HasGatheredState(p)) return;
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = ThreadTileRow<kTiles>(m, r);
      const int head = work.kv_head * p.queries_per_kv + GatheredTileRow(work, index) % p.queries_per_kv;
      LoadState(GatheredState(p, kDim, rows.rows[index], head), r, sums.rows[m], sums.outputs[m]);
    }
  }
}

// The states for the next part, or after the last one the results.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void FinishRows(const AttendParams& p, const GatheredWork& work, const GatheredRows<Mask, 64 * kTiles>& rows,
                          const PrefillSums<kDim, kTiles>& sums) {
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = ThreadTileRow<kTiles>(m, r), row = rows.rows[index];
      const float largest = sums.rows[m].largest[r], sum = QuadSum(sums.rows[m].sum[r]);
      if (index >= work.tile_row_count) continue;
      const int head = work.kv_head * p.queries_per_kv + GatheredTileRow(work, index) % p.queries_per_kv;
      FinishGatheredRow(p, row, head, r, largest, sum, rows.tile.exponents[index], sums.outputs[m]);
    }
  }
}

template <int kDim, typename Mask, int kTiles>
VF_KERNEL(kAttendThreads, 1)
AttendGatheredKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kTileRows = 64 * kTiles;
  VF_SHARED GatheredRows<Mask, kTileRows> rows;
  const GatheredWork work = FindGatheredWork(p);
  if (work.tile_row_count <= 0) return;
  StagePlaces(GatheredPlaces<kDim, Mask::kReadsGroups, kTileRows>(0), work, 0);
  if (!IsOmitted(GatherStep::kCommitPlaces)) CommitCopies();
  StageGatheredTile<kDim>(p, work, rows);
  if (!IsOmitted(GatherStep::kAwaitPlaces)) WaitCopies<0>();
  if (!IsOmitted(GatherStep::kSyncPlaces)) SyncThreads();
  StageGatheredKeys<kDim, Mask, kTileRows>(p, work, 0);

  const TokenGroups row_groups = GroupsOfWarp<Mask, kTiles>(rows.tile);
  PrefillSums<kDim, kTiles> sums;
  LoadStates(p, work, rows, sums);
  for (int block = 0; block < work.block_count; ++block) {
    if (!IsOmitted(GatherStep::kAwaitKeys)) WaitCopies<0>();
    // The copies of all threads for this block are complete, and no thread reads the other stage any more.
    if (!IsOmitted(GatherStep::kSyncKeys)) SyncThreads();
    StageGatheredKeys<kDim, Mask, kTileRows>(p, work, block + 1);
    ProcessBlock<kDim, Mask, kTiles>(rows.tile, row_groups, p.soft_cap, block & 1, block, sums);
  }
  FinishRows(p, work, rows, sums);
}

}  // namespace

// The window's part of all rows from GatherView::from on.
template <int kDim>
int StartGatheredWindow(const AttendParams& p, LaunchStream stream) {
  return VF_LAUNCH((AttendWindowKernel<kDim, 1>), p.pool.kv_head_count, p.item_count * (PrefillTileRows(kDim) / 64), 1,
                   kAttendThreads, PrefillSharedBytes(kDim, true, 64), stream, p);
}

// A pass over the lists of some sequences.
template <int kDim>
int StartGatheredPass(const AttendParams& p, LaunchStream stream) {
  const int list_count = p.gather.sequence_count * p.gather.group_count;
  const auto start = [&](const auto kernel, bool reads_groups, int tiles) {
    const int blocks = GatherTilesMax(p.gather.row_count, p.queries_per_kv, 64 * tiles, list_count);
    return VF_LAUNCH(kernel, p.pool.kv_head_count, blocks, 1, kAttendThreads,
                     GatherSharedBytes(kDim, reads_groups, 64 * tiles), stream, p);
  };
  const int tiles = p.gather.tile_rows[p.gather.pass] / 64;
  if (p.gather.pass == 0) {
    constexpr int kTiles = GatherTilesPerWarp(kDim, false);
    return tiles < kTiles ? start(AttendGatheredKernel<kDim, IntervalMask, 1>, false, 1)
                          : start(AttendGatheredKernel<kDim, IntervalMask, kTiles>, false, kTiles);
  }
  constexpr int kTiles = GatherTilesPerWarp(kDim, true);
  return tiles < kTiles ? start(AttendGatheredKernel<kDim, DisjointMask, 1>, true, 1)
                        : start(AttendGatheredKernel<kDim, DisjointMask, kTiles>, true, kTiles);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

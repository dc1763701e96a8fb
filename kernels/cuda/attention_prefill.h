// Prefill attention of kind `mma`: a block processes a tile of queries of one KV head, or a part of one, and iterates
// over the 64-key blocks visible to them, with K and V double-buffered and one barrier per block. Masked keys have weight
// exactly 0; a warp skips blocks that are masked for all its rows. A row's result does not depend on the block's size.
//
// Keys are processed in segments of 8,192, each from an empty state, and merged in order. Where the tiles are few, every
// segment has blocks of its own and MergeSegmentsKernel merges: the same operations, so the same bits.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_segments.h"
#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Dynamic shared memory: the tile's queries, the ring of key blocks, and where the mask reads them the groups of its keys.
template <int kDim, int kTileRows>
struct PrefillMemory {
  static constexpr int kQueries = 0, kRing = TileBytes(kDim, kTileRows);
  static constexpr int kRingGroups = kRing + PrefillStages(kDim) * StageBytes(kDim);
  VF_DEVICE static int Keys(int slot) { return kRing + slot * StageBytes(kDim); }
  VF_DEVICE static int Groups(int slot) { return kRingGroups + slot * kBlockGroupBytes; }
};
// Static shared memory: what each tile row sees, and its exponent.
template <typename Mask, int kTileRows>
struct PrefillRows {
  StoredRow<Mask> masks[kTileRows];
  float exponents[kTileRows];
};

// What a thread block processes: a part of a query tile, of one KV head, over some of the keys that the rows see.
struct PrefillWork {
  QueryTile tile;                  // the part alone; without rows: nothing to do
  int first_row = 0;               // of the tile's sequence, in the step
  const int32_t* table = nullptr;  // its pages
  int kv_head = 0, segment = 0;
  int part = 0;     // of the values of a wide head
  int key_end = 0;  // of the last row
  BlockRange blocks;
};

// Tile rows past the last one repeat its computation and store nothing.
VF_DEVICE TileRowPlace PlaceOf(const AttendParams& p, const PrefillWork& work, int index) {
  const QueryTile& tile = work.tile;
  const int at = tile.first_tile_row + (index < tile.tile_row_count ? index : tile.tile_row_count - 1);
  return {work.first_row + at / p.queries_per_kv, at % p.queries_per_kv};
}
VF_DEVICE int QueryHeadOf(const AttendParams& p, const PrefillWork& work, TileRowPlace at) {
  return work.kv_head * p.queries_per_kv + at.head;
}

// The place of a query head's result, or of a part of it.
template <int kDim>
VF_DEVICE int ResultOf(const AttendParams& p, const PrefillWork& work, TileRowPlace at) {
  const int head = QueryHeadOf(p, work, at);
  return ValueParts(kDim) == 1 ? head : head * ValueParts(kDim) + work.part;
}

// The work of this block, one of kParts of its query tile. Rows that are computed by groups are left out.
template <int kTileRows, int kParts, typename Mask>
VF_DEVICE PrefillWork FindWork(const AttendParams& p) {
  // The KV head is the fast index: the longest tiles of all heads start first.
  PrefillWork work;
  work.tile = p.tiles[BlockY() / kParts];
  work.kv_head = BlockX();
  work.segment = BlockZ();
  QueryTile& tile = work.tile;
  if constexpr (kParts > 1) {
    const int first = BlockY() % kParts * kTileRows, left = tile.tile_row_count - first;
    if (left <= 0) return {};
    tile.first_tile_row += first;
    tile.tile_row_count = left < kTileRows ? left : kTileRows;
  }
  if constexpr (Mask::kReadsGroups) {
    tile.tile_row_count = TileRowsBelow(p, tile.sequence, tile.first_tile_row, tile.tile_row_count);
    if (tile.tile_row_count == 0) return {};
  }
  work.first_row = p.step.first_rows[tile.sequence];
  work.table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const RowInterval head = p.mask[work.first_row + tile.first_tile_row / p.queries_per_kv];
  const RowInterval tail = p.mask[work.first_row + (tile.first_tile_row + tile.tile_row_count - 1) / p.queries_per_kv];
  work.key_end = tail.end;
  work.blocks = BlocksOf(head.begin, tail.end);
  if (p.segments_apart) {
    const int first = work.segment * kSegmentBlocks, last = first + kSegmentBlocks;
    BlockRange& blocks = work.blocks;
    blocks = {blocks.first > first ? blocks.first : first, blocks.last < last ? blocks.last : last};
    if (blocks.first >= blocks.last) tile.tile_row_count = 0;
  }
  return work;
}

// Starts the copies of a block of keys, if there is such a block, into a slot of the ring.
template <int kDim, typename Mask, int kTileRows>
VF_DEVICE void StageKeys(const AttendParams& p, const PrefillWork& work, int slot, int block, int key_end) {
  using Memory = PrefillMemory<kDim, kTileRows>;
  if (block < work.blocks.last) {
    StageBlock<kDim>(Memory::Keys(slot), p, work.table, work.kv_head, block, key_end);
    StageGroups<Mask>(Memory::Groups(slot), p, work.table, block);
  }
  CommitCopies();
}

// The tile's queries, masks and exponents into shared memory.
template <int kDim, typename Mask, int kTileRows>
VF_DEVICE void StageTile(const AttendParams& p, const PrefillWork& work, PrefillRows<Mask, kTileRows>& tile_rows) {
  StageQueries<kDim, kTileRows>(PrefillMemory<kDim, kTileRows>::kQueries, p, work.kv_head,
                                [&](int index) { return PlaceOf(p, work, index); });
  for (int index = ThreadX(); index < kTileRows; index += kAttendThreads) {
    const TileRowPlace at = PlaceOf(p, work, index);
    tile_rows.masks[index] = LoadRow<Mask>(p, at.row);
    tile_rows.exponents[index] = ScaleLog2(ScaleOf(p, at.row, QueryHeadOf(p, work, at)));
  }
  SyncThreads();
}

// A thread's state: two rows of each row tile of its warp, and of their sums of values 2 of every 8 columns.
template <int kDim, int kTiles>
struct PrefillSums {
  RowPair rows[kTiles];
  float outputs[kTiles][ValueDims(kDim) / 8][4];

  VF_DEVICE void Reset() {
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      VF_UNROLL
      for (int r = 0; r < 2; ++r) {
        rows[m].largest[r] = -INFINITY;
        rows[m].sum[r] = 0;
      }
    }
    Clear(outputs);
  }
};

// The thread's row r of row tile m, as a row of the tile.
template <int kTiles>
VF_DEVICE int ThreadTileRow(int m, int r) {
  return WarpIndex() * 16 * kTiles + LaneIndex() / 4 + m * 16 + 8 * r;
}

// The groups of the warp's rows, where the mask reads them.
template <typename Mask, int kTiles>
VF_DEVICE TokenGroups GroupsOfWarp(const PrefillRows<Mask, 64 * kTiles>& tile_rows) {
  if constexpr (!Mask::kReadsGroups) return 0;
  return WarpOr(RowOf(tile_rows.masks[WarpIndex() * 16 * kTiles + LaneIndex() % (16 * kTiles)]).token_groups);
}

// Whether the warp's rows see pairs of a staged block. `row_groups` are those of the warp's rows.
template <typename Mask, int kTiles>
VF_DEVICE TileCover CoverOf(const PrefillRows<Mask, 64 * kTiles>& tile_rows, TokenGroups row_groups, int groups,
                            int block) {
  if constexpr (Mask::kReadsGroups) {
    const int warp_tile_row = WarpIndex() * 16 * kTiles, lane = LaneIndex();
    const MaskRow first = tile_rows.masks[warp_tile_row], last = tile_rows.masks[warp_tile_row + 16 * kTiles - 1];
    const TokenGroups key_groups = WarpOr(KeyGroups<Mask>(groups, lane) | KeyGroups<Mask>(groups, lane + 32));
    return Mask::Tile(MaskRange::Between(first, last, row_groups), block * kBlockKeys, kBlockKeys, key_groups);
  } else {
    // Blocks that are masked for all rows of the tile are not among its blocks.
    const MaskRange range = MaskRange::Between(RowOf(tile_rows.masks[0]), RowOf(tile_rows.masks[64 * kTiles - 1]), 0);
    return range.Contains(block * kBlockKeys, kBlockKeys) ? TileCover::kFull : TileCover::kPartial;
  }
}

// The weights of a block's values from the scores, to which the sums so far are rescaled.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void WeighScores(const PrefillRows<Mask, 64 * kTiles>& tile_rows, TileCover cover, float soft_cap, int groups,
                           int block, float (&scores)[kTiles][kBlockKeys / 8][4], PrefillSums<kDim, kTiles>& sums,
                           uint32_t (&weights)[kTiles][kBlockKeys / 16][4]) {
  // Two tiles leave no registers for it: StartPrefill gives such work one.
  if constexpr (kTiles == 1) {
    CapScores(
        soft_cap, [&](int m, int r) { return tile_rows.exponents[ThreadTileRow<kTiles>(m, r)]; }, scores);
  }
  MaskScores<Mask>(
      cover, groups, 0, block * kBlockKeys, [&](int m, int r) { return tile_rows.masks[ThreadTileRow<kTiles>(m, r)]; },
      scores);
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    OnlineSoftmaxStep(
        scores[m], [&](int r) { return tile_rows.exponents[ThreadTileRow<kTiles>(m, r)]; }, sums.rows[m]);
    Pack(scores[m], weights[m]);
  }
  RescaleOutputs(sums.rows, sums.outputs);
}

// Adds the keys and values of a staged block to the warp's rows.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void ProcessBlock(const PrefillRows<Mask, 64 * kTiles>& tile_rows, TokenGroups row_groups, float soft_cap,
                            int slot, int block, PrefillSums<kDim, kTiles>& sums) {
  using Memory = PrefillMemory<kDim, 64 * kTiles>;
  const int keys = Memory::Keys(slot), groups = Memory::Groups(slot);
  const TileCover cover = CoverOf<Mask, kTiles>(tile_rows, row_groups, groups, block);
  if (cover == TileCover::kSkip) return;
  float scores[kTiles][kBlockKeys / 8][4];
  Scores<kDim, 64 * kTiles>(Memory::kQueries, WarpIndex() * 16 * kTiles, keys, 0, scores);
  uint32_t weights[kTiles][kBlockKeys / 16][4];
  WeighScores<kDim, Mask, kTiles>(tile_rows, cover, soft_cap, groups, block, scores, sums, weights);
  AccumulateValues<ValueDims(kDim)>(weights, keys + TileBytes(kDim, kBlockKeys), 0, sums.outputs);
}

// Merges the sums of a segment into the results of the rows' earlier segments; `merges`: there are some.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void StoreSegment(const AttendParams& p, const PrefillWork& work,
                            const PrefillRows<Mask, 64 * kTiles>& tile_rows, bool merges,
                            const PrefillSums<kDim, kTiles>& sums) {
  constexpr int kParts = ValueParts(kDim), kValues = ValueDims(kDim);
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = ThreadTileRow<kTiles>(m, r);
      const float sum = QuadSum(sums.rows[m].sum[r]), largest = sums.rows[m].largest[r];
      const TileRowPlace at = PlaceOf(p, work, index);
      float* total = SegmentResult<kParts>(p, kValues, at.row, ResultOf<kDim>(p, work, at), work.segment);
      MergeFactors merged{0, 1, largest, sum};
      if (merges) merged = Merge(total[kValues], total[kValues + 1], largest, sum, tile_rows.exponents[index]);
      // All four threads of a row have read its maximum and sum.
      SyncWarp();
      if (index < work.tile.tile_row_count) StoreSegmentRow(total, !merges, merged, r, sums.outputs[m]);
    }
  }
}

// Outputs and log-sum-exps of the rows: from their stored segments (`merges`), or from the sums of the only one.
template <int kDim, typename Mask, int kTiles>
VF_DEVICE void WriteRows(const AttendParams& p, const PrefillWork& work,
                         const PrefillRows<Mask, 64 * kTiles>& tile_rows, bool merges,
                         const PrefillSums<kDim, kTiles>& sums) {
  constexpr int kParts = ValueParts(kDim), kValues = ValueDims(kDim);
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = ThreadTileRow<kTiles>(m, r);
      float largest = sums.rows[m].largest[r], sum = QuadSum(sums.rows[m].sum[r]);
      if (index >= work.tile.tile_row_count) continue;
      const TileRowPlace at = PlaceOf(p, work, index);
      const int query_head = QueryHeadOf(p, work, at);
      const float* total = nullptr;
      if (merges) {
        total = SegmentResult<kParts>(p, kValues, at.row, ResultOf<kDim>(p, work, at), work.segment);
        largest = total[kValues];
        sum = total[kValues + 1];
      }
      WriteRow<kParts>(p, at.row, query_head, kParts == 1 ? 0 : work.part, total, largest, sum,
                       tile_rows.exponents[index], r, sums.outputs[m]);
    }
  }
}

template <int kDim, typename Mask, int kTiles>
VF_KERNEL(kAttendThreads, 1)
AttendPrefillKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kTileRows = 64 * kTiles;
  VF_SHARED PrefillRows<Mask, kTileRows> tile_rows;
  const PrefillWork work = FindWork<kTileRows, PrefillTileRows(kDim) / kTileRows, Mask>(p);
  if (work.tile.tile_row_count <= 0) return;
  StageKeys<kDim, Mask, kTileRows>(p, work, 0, work.blocks.first, work.key_end);
  StageTile<kDim>(p, work, tile_rows);

  const TokenGroups row_groups = GroupsOfWarp<Mask, kTiles>(tile_rows);
  PrefillSums<kDim, kTiles> sums;
  sums.Reset();
  bool merges = false;  // an earlier segment was stored
  for (int block = work.blocks.first; block < work.blocks.last; ++block) {
    const int slot = (block - work.blocks.first) % 2;
    WaitCopies<0>();
    // The copies of all threads for this block are complete, and no thread reads the other stage any more.
    SyncThreads();
    StageKeys<kDim, Mask, kTileRows>(p, work, 1 - slot, block + 1, RowOf(tile_rows.masks[kTileRows - 1]).seen.end);
    if (block % kSegmentBlocks == 0 && block != work.blocks.first) {
      StoreSegment(p, work, tile_rows, merges, sums);
      merges = true;
      sums.Reset();
    }
    ProcessBlock<kDim, Mask, kTiles>(tile_rows, row_groups, p.soft_cap, slot, block, sums);
  }
  WaitCopies<0>();
  if (p.segments_apart || merges) StoreSegment(p, work, tile_rows, merges, sums);
  if (!p.segments_apart) WriteRows(p, work, tile_rows, merges, sums);
}

// Shared memory for wide heads: one stage of keys and one of a part of the values, each copied while the other is read.
template <int kDim, int kTileRows>
struct WidePrefillMemory {
  static constexpr int kKeys = TileBytes(kDim, kTileRows), kValues = kKeys + TileBytes(kDim, kBlockKeys);
  static constexpr int kGroups = kKeys + RingBytes(kDim, PrefillStages(kDim));
  VF_DEVICE static int Groups(int block) { return kGroups + (block & 1) * kBlockGroupBytes; }
};

// Starts the copies of a block of keys, if there is such a block. A function: nvcc takes shared memory with default values, which
// are not stored, for dynamically initialized in a kernel that has lambdas.
template <int kDim, typename Mask, int kTileRows>
VF_DEVICE void StageWideKeys(const AttendParams& p, const PrefillWork& work, int block) {
  using Memory = WidePrefillMemory<kDim, kTileRows>;
  if (block < work.blocks.last) {
    StageWideKeys<kDim>(Memory::kKeys, p, work.table, work.kv_head, block);
    StageGroups<Mask>(Memory::Groups(block), p, work.table, block);
  }
  CommitCopies();
}

template <int kDim, typename Mask, int kTiles>
VF_KERNEL(kAttendThreads, 1)
AttendWidePrefillKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kTileRows = 64 * kTiles, kParts = ValueParts(kDim);
  using Memory = WidePrefillMemory<kDim, kTileRows>;
  VF_SHARED PrefillRows<Mask, kTileRows> tile_rows;
  PrefillWork work = FindWork<kTileRows, 1, Mask>(p);
  if (work.tile.tile_row_count <= 0) return;
  work.kv_head = BlockX() / kParts;
  work.part = BlockX() % kParts;
  StageWideKeys<kDim, Mask, kTileRows>(p, work, work.blocks.first);
  StageTile<kDim>(p, work, tile_rows);

  const TokenGroups row_groups = GroupsOfWarp<Mask, kTiles>(tile_rows);
  PrefillSums<kDim, kTiles> sums;
  sums.Reset();
  bool merges = false;  // an earlier segment was stored
  for (int block = work.blocks.first; block < work.blocks.last; ++block) {
    WaitCopies<0>();
    // The keys are there, and no thread reads the values of the block before any more.
    SyncThreads();
    StageWideValues<kDim>(Memory::kValues, p, work.table, work.kv_head, work.part, block,
                          RowOf(tile_rows.masks[kTileRows - 1]).seen.end);
    CommitCopies();
    if (block % kSegmentBlocks == 0 && block != work.blocks.first) {
      StoreSegment(p, work, tile_rows, merges, sums);
      merges = true;
      sums.Reset();
    }
    const int groups = Memory::Groups(block);
    const TileCover cover = CoverOf<Mask, kTiles>(tile_rows, row_groups, groups, block);
    uint32_t weights[kTiles][kBlockKeys / 16][4];
    if (cover != TileCover::kSkip) {
      float scores[kTiles][kBlockKeys / 8][4];
      Scores<kDim, kTileRows>(0, WarpIndex() * 16 * kTiles, Memory::kKeys, 0, scores);
      WeighScores<kDim, Mask, kTiles>(tile_rows, cover, p.soft_cap, groups, block, scores, sums, weights);
    }
    WaitCopies<0>();
    // The values are there, and no thread reads the keys any more.
    SyncThreads();
    StageWideKeys<kDim, Mask, kTileRows>(p, work, block + 1);
    if (cover != TileCover::kSkip) AccumulateValues<ValueDims(kDim)>(weights, Memory::kValues, 0, sums.outputs);
  }
  WaitCopies<0>();
  if (p.segments_apart || merges) StoreSegment(p, work, tile_rows, merges, sums);
  if (!p.segments_apart) WriteRows(p, work, tile_rows, merges, sums);
}

}  // namespace

template <int kDim, typename Mask>
int StartPrefill(const AttendParams& p, LaunchStream stream) {
  constexpr int kParts = ValueParts(kDim);
  const auto start = [&](const auto kernel, int tiles) {
    const int blocks = p.item_count * (PrefillTileRows(kDim) / (64 * tiles));
    const int code = VF_LAUNCH(kernel, p.pool.kv_head_count * kParts, blocks, p.segments_apart ? p.segment_count : 1,
                               kAttendThreads, PrefillSharedBytes(kDim, Mask::kReadsGroups, 64 * tiles), stream, p);
    if (code != 0 || !p.segments_apart) return code;
    return StartMergeSegments<kParts>(p, stream);
  };
  if constexpr (kParts > 1) {
    return start(AttendWidePrefillKernel<kDim, Mask, 1>, 1);
  } else {
    constexpr int kTiles = RowTilesPerWarp(kDim, Mask::kReadsGroups);
    if constexpr (kTiles > 1) {
      // A short suffix has fewer whole tiles than the device has multiprocessors.
      if (p.soft_cap > 0 || p.item_count * p.pool.kv_head_count < p.multiprocessor_count) {
        return start(AttendPrefillKernel<kDim, Mask, 1>, 1);
      }
    }
    return start(AttendPrefillKernel<kDim, Mask, kTiles>, kTiles);
  }
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Prefill attention of kind `mma`: a block processes PrefillLanes query lanes of one KV head and iterates over the
// 64-key blocks visible to them, with K and V double-buffered and one barrier per block. Masked keys have weight
// exactly 0; a warp skips blocks that are masked for all its lanes.
#pragma once

#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

template <int kDim, typename Mask>
VF_KERNEL(kAttendThreads, 1)
AttendPrefillKernel(const AttendParams p) {
  constexpr int kTiles = RowTilesPerWarp(kDim, Mask::kReadsGroups), kLanes = PrefillLanes(kDim, Mask::kReadsGroups);
  constexpr int kColumns = kBlockKeys / 8, kOutputs = kDim / 8;
  VF_SHARED StoredRow<Mask> mask_rows[kLanes];
  VF_SHARED float exponents[kLanes];
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kLanes);
  constexpr int kGroups = kStage + PrefillStages(kDim) * StageBytes(kDim);
  constexpr int kParts = PrefillLanes(kDim) / kLanes;  // blocks of a tile
  QueryTile tile = p.tiles[BlockX() / kParts];
  if constexpr (kParts > 1) {
    const int first = BlockX() % kParts * kLanes, left = tile.lane_count - first;
    if (left <= 0) return;
    tile.first_lane += first;
    tile.lane_count = left < kLanes ? left : kLanes;
  }
  const int kv_head = BlockY(), warp = WarpIndex(), lane = LaneIndex();
  const int first_row = p.step.first_rows[tile.sequence];
  const int32_t* table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const int first_lane = warp * 16 * kTiles;
  const RowInterval head = p.mask[first_row + tile.first_lane / p.group];
  const RowInterval tail = p.mask[first_row + (tile.first_lane + tile.lane_count - 1) / p.group];
  const BlockRange blocks = BlocksOf(head.begin, tail.end);

  if (blocks.first < blocks.last) {
    StageBlock<kDim>(kStage, p, table, kv_head, blocks.first, tail.end);
    StageGroups<Mask>(kGroups, p, table, blocks.first);
  }
  CommitCopies();
  // Lanes past the last one repeat its computation and store nothing.
  const auto place = [&](int index) {
    return PlaceOf(first_row, tile.first_lane + (index < tile.lane_count ? index : tile.lane_count - 1), p.group);
  };
  StageQueries<kDim, kLanes>(kQueries, p, kv_head, place);
  for (int index = ThreadX(); index < kLanes; index += kAttendThreads) {
    const LanePlace at = place(index);
    mask_rows[index] = LoadRow<Mask>(p, at.row);
    exponents[index] = Sharpness(ScaleOf(p, at.row, kv_head * p.group + at.head));
  }
  SyncThreads();

  const int my_lane = first_lane + lane / 4;
  uint32_t row_groups = 0;  // of the warp's lanes
  if constexpr (Mask::kReadsGroups) row_groups = WarpOr(mask_rows[first_lane + lane % (16 * kTiles)].groups);
  RowPair rows[kTiles];
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      rows[m].largest[r] = -INFINITY;
      rows[m].sum[r] = 0;
    }
  }
  float outputs[kTiles][kOutputs][4];
  Clear(outputs);

  for (int block = blocks.first; block < blocks.last; ++block) {
    const int slot = (block - blocks.first) % 2;
    WaitCopies<0>();
    // The copies of all threads for this block are complete, and no thread reads the other stage any more.
    SyncThreads();
    if (block + 1 < blocks.last) {
      StageBlock<kDim>(kStage + (1 - slot) * StageBytes(kDim), p, table, kv_head, block + 1,
                       RowOf(mask_rows[kLanes - 1]).seen.end);
      StageGroups<Mask>(kGroups + (1 - slot) * kBlockGroupBytes, p, table, block + 1);
    }
    CommitCopies();
    const int keys = kStage + slot * StageBytes(kDim), groups = kGroups + slot * kBlockGroupBytes;
    TileCover cover;
    if constexpr (Mask::kReadsGroups) {
      const MaskRow first = mask_rows[first_lane], last = mask_rows[first_lane + 16 * kTiles - 1];
      const uint32_t key_groups = WarpOr(KeyGroups<Mask>(groups, lane) | KeyGroups<Mask>(groups, lane + 32));
      cover = Mask::Tile(MaskRange::Between(first, last, row_groups), block * kBlockKeys, kBlockKeys, key_groups);
      if (cover == TileCover::kSkip) continue;
    } else {
      // Blocks that are masked for all rows of the tile are skipped.
      const MaskRange range = MaskRange::Between(RowOf(mask_rows[0]), RowOf(mask_rows[kLanes - 1]), 0);
      cover = range.Contains(block * kBlockKeys, kBlockKeys) ? TileCover::kFull : TileCover::kPartial;
    }
    float scores[kTiles][kColumns][4];
    Scores<kDim, kLanes>(kQueries, first_lane, keys, 0, scores);
    HideScores<Mask>(
        cover, groups, 0, block * kBlockKeys, [&](int m, int r) { return mask_rows[my_lane + m * 16 + 8 * r]; },
        scores);
    uint32_t weights[kTiles][kColumns / 2][4];
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      Soften(
          scores[m], [&](int r) { return exponents[my_lane + m * 16 + 8 * r]; }, rows[m]);
      Pack(scores[m], weights[m]);
    }
    RescaleOutputs(rows, outputs);
    Weigh<kDim>(weights, keys + TileBytes(kDim, kBlockKeys), 0, outputs);
  }
  WaitCopies<0>();

  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float sum = QuadSum(rows[m].sum[r]), inverse = sum > 0 ? 1.0f / sum : 0.0f;
      if (my_lane + m * 16 + 8 * r >= tile.lane_count) continue;
      const LanePlace at = place(my_lane + m * 16 + 8 * r);
      const size_t row = static_cast<size_t>(at.row) * p.query_head_count + kv_head * p.group + at.head;
      uint16_t* out = p.out + row * kDim + (lane % 4) * 2;
      VF_UNROLL
      for (int n = 0; n < kOutputs; ++n) {
        StorePair(out + n * 8, PackBf16(outputs[m][n][2 * r] * inverse, outputs[m][n][2 * r + 1] * inverse));
      }
      if (p.log_sum_exp != nullptr && lane % 4 == 0) {
        p.log_sum_exp[row] = LogSumExp(rows[m].largest[r], sum, exponents[my_lane + m * 16 + 8 * r], kEmptyLogSumExp);
      }
    }
  }
}

}  // namespace

template <int kDim, typename Mask>
int StartPrefill(const AttendParams& p, LaunchStream stream) {
  const auto kernel = AttendPrefillKernel<kDim, Mask>;
  constexpr int kParts = PrefillLanes(kDim) / PrefillLanes(kDim, Mask::kReadsGroups);
  return VF_LAUNCH(kernel, p.item_count * kParts, p.pool.kv_head_count, 1, kAttendThreads,
                   PrefillSharedBytes(kDim, Mask::kReadsGroups), stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

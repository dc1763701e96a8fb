// The `mma` row of the attention table, prefill: a block owns PrefillLanes(D) query lanes of one KV head and walks the
// 64-key blocks its lanes see, K and V staged two deep with one barrier a block. Keys a lane does not see weigh exactly
// nothing.
#pragma once

#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

template <int kDim>
VF_KERNEL(kAttendThreads, 1)
AttendPrefillKernel(const AttendParams p) {
  constexpr int kTiles = RowTilesPerWarp(kDim), kLanes = PrefillLanes(kDim), kColumns = kBlockKeys / 8;
  constexpr int kOutputs = kDim / 8;
  VF_SHARED KeyInterval intervals[kLanes];
  VF_SHARED float exponents[kLanes];
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kLanes);
  const QueryTile tile = p.tiles[BlockX()];
  const int kv_head = BlockY(), warp = WarpIndex(), lane = LaneIndex();
  const int first_row = p.step.first_rows[tile.sequence];
  const int32_t* table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const int first_lane = warp * 16 * kTiles;
  const KeyInterval head = p.mask[first_row + tile.first_lane / p.group];
  const KeyInterval tail = p.mask[first_row + (tile.first_lane + tile.lane_count - 1) / p.group];
  const BlockRange blocks = BlocksOf(head.begin, tail.end);

  if (blocks.first < blocks.last) StageBlock<kDim>(kStage, p, table, kv_head, blocks.first, tail.end);
  CommitCopies();
  // Lanes past the last one compute what it does and store nothing.
  const auto place = [&](int index) {
    return PlaceOf(first_row, tile.first_lane + (index < tile.lane_count ? index : tile.lane_count - 1), p.group);
  };
  StageQueries<kDim, kLanes>(kQueries, p, kv_head, place);
  for (int index = ThreadX(); index < kLanes; index += kAttendThreads) {
    const LanePlace at = place(index);
    intervals[index] = p.mask[at.row];
    exponents[index] = Sharpness(ScaleOf(p, at.row, kv_head * p.group + at.head));
  }
  SyncThreads();

  const int my_lane = first_lane + lane / 4;
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
    // This block has landed for everybody, and nobody reads the other stage any more.
    SyncThreads();
    if (block + 1 < blocks.last) {
      StageBlock<kDim>(kStage + (1 - slot) * StageBytes(kDim), p, table, kv_head, block + 1, intervals[kLanes - 1].end);
    }
    CommitCopies();
    const int keys = kStage + slot * StageBytes(kDim);
    float scores[kTiles][kColumns][4];
    Scores<kDim, kLanes>(kQueries, first_lane, keys, 0, scores);
    // Intervals never decrease, so the tile's first and last rows speak for those between.
    if (!BlockIsFull(block, intervals[kLanes - 1].begin, intervals[0].end)) {
      VF_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        VF_UNROLL
        for (int r = 0; r < 2; ++r) {
          const KeyInterval seen = intervals[my_lane + m * 16 + 8 * r];
          VF_UNROLL
          for (int n = 0; n < kColumns; ++n) {
            VF_UNROLL
            for (int i = 0; i < 2; ++i) {
              const int key = block * kBlockKeys + n * 8 + (lane % 4) * 2 + i;
              if (key < seen.begin || key >= seen.end) scores[m][n][2 * r + i] = -INFINITY;
            }
          }
        }
      }
    }
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

template <int kDim>
int StartPrefill(const AttendParams& p, LaunchStream stream) {
  return VF_LAUNCH(AttendPrefillKernel<kDim>, p.item_count, p.pool.kv_head_count, 1, kAttendThreads,
                   PrefillSharedBytes(kDim), stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Prefill attention of kind `mma`: a block processes a tile of query lanes of one KV head, or a part of one, and iterates
// over the 64-key blocks visible to them, with K and V double-buffered and one barrier per block. Masked keys have weight
// exactly 0; a warp skips blocks that are masked for all its lanes. A lane's result does not depend on the block's size.
//
// Keys are processed in segments of 8,192, each from an empty state, and merged in order. Where the tiles are few, every
// segment has blocks of its own and MergeSegmentsKernel merges: the same operations, so the same bits.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Results of one query head over the segments so far, or over segment `segment` alone.
VF_DEVICE float* SegmentResult(const AttendParams& p, int dim, int row, int head, int segment) {
  const size_t at = WideProduct(row, p.query_head_count) + head;
  return p.partials + (p.segments_apart ? at * p.segment_count + segment : at) * (dim + 2);
}

// All loads of a group are issued before its stores: a store might alias a later load, which would then wait for it.
constexpr int kPairsAtOnce = 4;

// A thread's share of one row: 2 of every 8 numbers, merged into `total`.
template <int kOutputs>
VF_DEVICE void StoreSegment(float* total, bool is_first, const MergeFactors& merged, int row_half,
                            const float (&outputs)[kOutputs][4]) {
  constexpr int kDim = kOutputs * 8;
  const int mine = (LaneIndex() % 4) * 2;
  VF_UNROLL
  for (int first = 0; first < kOutputs; first += kPairsAtOnce) {
    TwoFloats pairs[kPairsAtOnce];
    VF_UNROLL
    for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
      if (is_first) {
        pairs[n - first] = {};
      } else {
        pairs[n - first] = LoadAligned<TwoFloats>(total + n * 8 + mine);
      }
    }
    VF_UNROLL
    for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
      TwoFloats& pair = pairs[n - first];
      VF_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float earlier = is_first ? 0.0f : pair.at[i] * merged.earlier;
        pair.at[i] = earlier + outputs[n][2 * row_half + i] * merged.later;
      }
      StoreAligned(total + n * 8 + mine, pair);
    }
  }
  // The four threads of a row store the same numbers.
  total[kDim] = merged.largest;
  total[kDim + 1] = merged.sum;
}

template <int kDim, typename Mask, int kTiles>
VF_KERNEL(kAttendThreads, 1)
AttendPrefillKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kLanes = 64 * kTiles;
  constexpr int kColumns = kBlockKeys / 8, kOutputs = kDim / 8;
  VF_SHARED StoredRow<Mask> mask_rows[kLanes];
  VF_SHARED float exponents[kLanes];
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kLanes);
  constexpr int kGroups = kStage + PrefillStages(kDim) * StageBytes(kDim);
  constexpr int kParts = PrefillLanes(kDim) / kLanes;  // blocks of a tile
  // The KV head is the fast index: the longest tiles of all heads start first.
  QueryTile tile = p.tiles[BlockY() / kParts];
  if constexpr (kParts > 1) {
    const int first = BlockY() % kParts * kLanes, left = tile.lane_count - first;
    if (left <= 0) return;
    tile.first_lane += first;
    tile.lane_count = left < kLanes ? left : kLanes;
  }
  const int kv_head = BlockX(), warp = WarpIndex(), lane = LaneIndex();
  const int first_row = p.step.first_rows[tile.sequence];
  const int32_t* table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const int first_lane = warp * 16 * kTiles;
  const RowInterval head = p.mask[first_row + tile.first_lane / p.group];
  const RowInterval tail = p.mask[first_row + (tile.first_lane + tile.lane_count - 1) / p.group];
  BlockRange blocks = BlocksOf(head.begin, tail.end);
  const int segment = BlockZ();
  if (p.segments_apart) {
    const int first = segment * kSegmentBlocks, last = first + kSegmentBlocks;
    blocks = {blocks.first > first ? blocks.first : first, blocks.last < last ? blocks.last : last};
    if (blocks.first >= blocks.last) return;
  }

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
    exponents[index] = ScaleLog2(ScaleOf(p, at.row, kv_head * p.group + at.head));
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
  bool merges = false;  // an earlier segment was stored
  const auto store_segment = [&] {
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      VF_UNROLL
      for (int r = 0; r < 2; ++r) {
        const int index = my_lane + m * 16 + 8 * r;
        const float sum = QuadSum(rows[m].sum[r]), largest = rows[m].largest[r];
        const LanePlace at = place(index);
        float* total = SegmentResult(p, kDim, at.row, kv_head * p.group + at.head, segment);
        MergeFactors merged{0, 1, largest, sum};
        if (merges) merged = Merge(total[kDim], total[kDim + 1], largest, sum, exponents[index]);
        // All four threads of a row have read its maximum and sum.
        SyncWarp();
        if (index < tile.lane_count) StoreSegment(total, !merges, merged, r, outputs[m]);
      }
    }
  };

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
    if (block % kSegmentBlocks == 0 && block != blocks.first) {
      store_segment();
      merges = true;
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
      OnlineSoftmaxStep(
          scores[m], [&](int r) { return exponents[my_lane + m * 16 + 8 * r]; }, rows[m]);
      Pack(scores[m], weights[m]);
    }
    RescaleOutputs(rows, outputs);
    AccumulateValues<kDim>(weights, keys + TileBytes(kDim, kBlockKeys), 0, outputs);
  }
  WaitCopies<0>();
  if (p.segments_apart || merges) store_segment();
  if (p.segments_apart) return;

  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int index = my_lane + m * 16 + 8 * r;
      float largest = rows[m].largest[r], sum = QuadSum(rows[m].sum[r]);
      if (index >= tile.lane_count) continue;
      const LanePlace at = place(index);
      const int query_head = kv_head * p.group + at.head;
      const float* total = nullptr;
      if (merges) {
        total = SegmentResult(p, kDim, at.row, query_head, segment);
        largest = total[kDim];
        sum = total[kDim + 1];
      }
      const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
      const size_t row = WideProduct(at.row, p.query_head_count) + query_head;
      const int mine = (lane % 4) * 2;
      VF_UNROLL
      for (int first = 0; first < kOutputs; first += kPairsAtOnce) {
        TwoFloats pairs[kPairsAtOnce];
        VF_UNROLL
        for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
          if (merges) {
            pairs[n - first] = LoadAligned<TwoFloats>(total + n * 8 + mine);
          } else {
            // A merged result has no negative zero, so a single one must have none.
            pairs[n - first] = {{outputs[m][n][2 * r] + 0.0f, outputs[m][n][2 * r + 1] + 0.0f}};
          }
        }
        VF_UNROLL
        for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
          const TwoFloats& pair = pairs[n - first];
          StorePair(p.out + row * kDim + n * 8 + mine, PackBf16(pair.at[0] * inverse, pair.at[1] * inverse));
        }
      }
      if (p.log_sum_exp != nullptr && lane % 4 == 0) {
        p.log_sum_exp[row] = LogSumExp(largest, sum, exponents[index], kEmptyLogSumExp);
      }
    }
  }
}

// One warp per query head: its segments in order, by the operations of StoreSegment.
VF_KERNEL(kAttendThreads, 1) MergeSegmentsKernel(const AttendParams p) {
  FollowPreviousLaunch();
  constexpr int kNumbers = kHeadDimMax / 32;
  const int row = BlockX(), lane = LaneIndex(), dim = p.pool.head_dim;
  const int head = BlockY() * (kAttendThreads / 32) + WarpIndex();
  if (head >= p.query_head_count) return;
  const RowInterval seen = p.mask[row];
  const BlockRange segments = SegmentsOf(seen.begin, seen.end);
  const float c = ScaleLog2(ScaleOf(p, row, head));
  float largest = -INFINITY, sum = 0, values[kNumbers];
  VF_UNROLL
  for (int n = 0; n < kNumbers; ++n) values[n] = 0;
  for (int segment = segments.first; segment < segments.last; ++segment) {
    const float* part = SegmentResult(p, dim, row, head, segment);
    const bool is_first = segment == segments.first;
    MergeFactors merged{0, 1, part[dim], part[dim + 1]};
    if (!is_first) merged = Merge(largest, sum, part[dim], part[dim + 1], c);
    largest = merged.largest;
    sum = merged.sum;
    VF_UNROLL
    for (int n = 0; n < kNumbers; ++n) {
      const float earlier = is_first ? 0.0f : values[n] * merged.earlier;
      if (lane + 32 * n < dim) values[n] = earlier + part[lane + 32 * n] * merged.later;
    }
  }
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  const size_t at = WideProduct(row, p.query_head_count) + head;
  VF_UNROLL
  for (int n = 0; n < kNumbers; ++n) {
    if (lane + 32 * n < dim) p.out[at * dim + lane + 32 * n] = RoundBf16(values[n] * inverse);
  }
  if (p.log_sum_exp != nullptr && lane == 0) p.log_sum_exp[at] = LogSumExp(largest, sum, c, kEmptyLogSumExp);
}

}  // namespace

template <int kDim, typename Mask>
int StartPrefill(const AttendParams& p, LaunchStream stream) {
  const auto start = [&](const auto kernel, int tiles) {
    const int parts = PrefillLanes(kDim) / (64 * tiles), segments = p.segments_apart ? p.segment_count : 1;
    const int code = VF_LAUNCH(kernel, p.pool.kv_head_count, p.item_count * parts, segments, kAttendThreads,
                               PrefillSharedBytes(kDim, Mask::kReadsGroups, 64 * tiles), stream, p);
    if (code != 0 || !p.segments_apart) return code;
    return VF_LAUNCH(MergeSegmentsKernel, p.step.row_count, CeilDivide(p.query_head_count, kAttendThreads / 32), 1,
                     kAttendThreads, 0, stream, p);
  };
  constexpr int kTiles = RowTilesPerWarp(kDim, Mask::kReadsGroups);
  if constexpr (kTiles > 1) {
    // A short suffix has fewer whole tiles than the device has multiprocessors.
    if (p.item_count * p.pool.kv_head_count < p.multiprocessor_count) {
      return start(AttendPrefillKernel<kDim, Mask, 1>, 1);
    }
  }
  return start(AttendPrefillKernel<kDim, Mask, kTiles>, kTiles);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

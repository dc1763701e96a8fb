// Decode attention of kind `mma`: keys are split, and the splits are merged in order.
//
// A block processes up to 16 lanes and 512 keys; its lanes belong to one row or to several rows whose sequences share
// these pages. Each warp processes 16 keys of every 64-key block, and the four results are merged in order. Masked keys
// have weight exactly 0.
//
// Source:  split decode after Dao et al., "Flash-Decoding", 2023.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

inline constexpr int kMergeHeads = kAttendThreads / 32;

// Offset of a split's result for one query head: D sums, the largest score, the sum of weights.
VF_DEVICE float* PartialOf(const AttendParams& p, int dim, int row, int head, int split) {
  return p.partials + ((WideProduct(row, p.query_head_count) + head) * p.split_count_max + split) * (dim + 2);
}

template <int kDim, typename Mask, int kStages>
VF_KERNEL(kAttendThreads, 1)
AttendDecodeKernel(const AttendParams p) {
  AllowNextLaunch();
  constexpr int kOutputs = kDim / 8;
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kDecodeLanes), kWarpKeys = kBlockKeys / 4;
  constexpr int kGroups = kStage + kStages * StageBytes(kDim);
  // The KV head is the fast index: a page's heads are adjacent in memory.
  const DecodeItem item = p.items[BlockX() / p.pool.kv_head_count];
  const int32_t* item_rows = p.item_rows + item.first_row;
  const int kv_head = BlockX() % p.pool.kv_head_count, first_lane = BlockY() * kDecodeLanes;
  const int warp = WarpIndex(), lane = LaneIndex();
  const int lanes_left = item.row_count * p.group - first_lane;
  const int lane_count = lanes_left < kDecodeLanes ? lanes_left : kDecodeLanes;
  // Lanes past the last one repeat its computation and store nothing.
  const auto place = [&](int index) {
    const int at = first_lane + (index < lane_count ? index : lane_count - 1);
    return LanePlace{item_rows[at / p.group], at % p.group};
  };
  const auto scale_log2 = [&](LanePlace at) { return ScaleLog2(ScaleOf(p, at.row, kv_head * p.group + at.head)); };
  // The rows of an item share their pages; the union of their key ranges is from the first begin to the last end.
  const int32_t* table = p.step.page_tables + p.pool.table_starts[p.step.row_sequences[item_rows[0]]];
  RowInterval seen = p.mask[item_rows[0]];
  for (int i = 1; i < item.row_count; ++i) {
    const RowInterval other = p.mask[item_rows[i]];
    seen.begin = other.begin < seen.begin ? other.begin : seen.begin;
    seen.end = other.end > seen.end ? other.end : seen.end;
  }
  const int split_begin = item.split * kSplitKeys;
  const BlockRange blocks = BlocksOf(seen.begin > split_begin ? seen.begin : split_begin,
                                     seen.end < split_begin + kSplitKeys ? seen.end : split_begin + kSplitKeys);
  const auto stage = [&](int block) {
    if (block < blocks.last) {
      const int slot = (block - blocks.first) % kStages;
      StageBlock<kDim>(kStage + slot * StageBytes(kDim), p, table, kv_head, block, seen.end);
      StageGroups<Mask>(kGroups + slot * kBlockGroupBytes, p, table, block);
    }
    CommitCopies();
  };
  // Until here only what the host has written for this step was read.
  WaitForPreviousLaunch();
  for (int s = 0; s < kStages - 1; ++s) stage(blocks.first + s);
  StageQueries<kDim, kDecodeLanes>(kQueries, p, kv_head, place);

  // This thread's two lanes, lane / 4 and 8 further on.
  StoredRow<Mask> mine[2];
  float c[2];
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const LanePlace at = place(lane / 4 + 8 * r);
    mine[r] = LoadRow<Mask>(p, at.row);
    c[r] = scale_log2(at);
  }
  MaskRange range;
  if constexpr (Mask::kReadsGroups) {
    for (int i = 0; i < item.row_count; ++i) range.Add(LoadRow<Mask>(p, item_rows[i]));
  }
  RowPair rows[1];
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    rows[0].largest[r] = -INFINITY;
    rows[0].sum[r] = 0;
  }
  float outputs[1][kOutputs][4];
  Clear(outputs);
  for (int block = blocks.first; block < blocks.last; ++block) {
    WaitCopies<kStages - 2>();
    SyncThreads();
    stage(block + kStages - 1);
    const int slot = (block - blocks.first) % kStages, first = warp * kWarpKeys;
    const int keys = kStage + slot * StageBytes(kDim), groups = kGroups + slot * kBlockGroupBytes;
    // Masking a warp's few intervals costs no more than testing whether it is needed.
    TileCover cover = TileCover::kPartial;
    if constexpr (Mask::kReadsGroups) {
      const uint32_t key_groups = WarpOr(KeyGroups<Mask>(groups, first + lane % kWarpKeys));
      cover = Mask::Tile(range, block * kBlockKeys + first, kWarpKeys, key_groups);
      if (cover == TileCover::kSkip) continue;
    }
    float scores[1][2][4];
    Scores<kDim, kDecodeLanes>(kQueries, 0, keys, first, scores);
    HideScores<Mask>(
        cover, groups, first, block * kBlockKeys + first, [&](int, int r) { return mine[r]; }, scores);
    OnlineSoftmaxStep(
        scores[0], [&](int r) { return c[r]; }, rows[0]);
    RescaleOutputs(rows, outputs);
    uint32_t weights[1][1][4];
    Pack(scores[0], weights[0]);
    AccumulateValues<kDim>(weights, keys + TileBytes(kDim, kBlockKeys), first, outputs);
  }
  WaitCopies<0>();
  // The staging memory is reused for the warps' results: [warp][lane][D + 2].
  SyncThreads();
  float* results = reinterpret_cast<float*>(SharedMemory() + kStage);
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float sum = QuadSum(rows[0].sum[r]);
    float* result = results + (warp * kDecodeLanes + lane / 4 + 8 * r) * (kDim + 2);
    VF_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      result[n * 8 + (lane % 4) * 2] = outputs[0][n][2 * r];
      result[n * 8 + (lane % 4) * 2 + 1] = outputs[0][n][2 * r + 1];
    }
    if (lane % 4 == 0) {
      result[kDim] = rows[0].largest[r];
      result[kDim + 1] = sum;
    }
  }
  SyncThreads();
  // Each warp merges every fourth lane, the four partial results in order.
  for (int index = warp; index < lane_count; index += 4) {
    const auto part = [&](int w) { return results + (w * kDecodeLanes + index) * (kDim + 2); };
    const LanePlace at = place(index);
    const float sharp = scale_log2(at);
    float largest = part(0)[kDim];
    for (int w = 1; w < 4; ++w) largest = fmaxf(largest, part(w)[kDim]);
    float factors[4], sum = 0;
    VF_UNROLL
    for (int w = 0; w < 4; ++w) {
      factors[w] = Rescale(part(w)[kDim], largest, sharp);
      sum += part(w)[kDim + 1] * factors[w];
    }
    float* out = PartialOf(p, kDim, at.row, kv_head * p.group + at.head, item.split);
    for (int i = lane; i < kDim; i += 32) {
      float value = 0;
      VF_UNROLL
      for (int w = 0; w < 4; ++w) value += part(w)[i] * factors[w];
      out[i] = value;
    }
    if (lane == 0) {
      out[kDim] = largest;
      out[kDim + 1] = sum;
    }
  }
}

// One warp per query head: the splits in index order. Their factors are computed 32 at a time, one per lane.
VF_KERNEL(kAttendThreads, 1) MergeSplitsKernel(const AttendParams p) {
  AllowNextLaunch();
  constexpr int kNumbers = kHeadDimMax / 32;
  VF_SHARED float factors[kMergeHeads][32];
  VF_SHARED float sums[kMergeHeads][32];
  const int row = BlockX(), warp = WarpIndex(), lane = LaneIndex(), dim = p.pool.head_dim;
  const int wanted = BlockY() * kMergeHeads + warp;
  const bool inside = wanted < p.query_head_count;
  const int head = inside ? wanted : p.query_head_count - 1;
  const RowInterval seen = p.mask[row];
  const BlockRange splits = SplitsOf(seen.begin, seen.end);
  WaitForPreviousLaunch();
  const float c = ScaleLog2(ScaleOf(p, row, head));
  float largest = -INFINITY, sum = 0, values[kNumbers];
  VF_UNROLL
  for (int n = 0; n < kNumbers; ++n) values[n] = 0;
  for (int split = splits.first + lane; split < splits.last; split += 32) {
    largest = fmaxf(largest, PartialOf(p, dim, row, head, split)[dim]);
  }
  largest = WarpMax(largest);
  for (int first = splits.first; first < splits.last; first += 32) {
    const int count = splits.last - first < 32 ? splits.last - first : 32;
    SyncThreads();
    if (lane < count) {
      const float* part = PartialOf(p, dim, row, head, first + lane);
      factors[warp][lane] = Rescale(part[dim], largest, c);
      sums[warp][lane] = part[dim + 1];
    }
    SyncThreads();
    const float* part = PartialOf(p, dim, row, head, first);
    VF_UNROLL_BY(8)
    for (int split = 0; split < count; ++split, part += dim + 2) {
      const float factor = factors[warp][split];
      sum += sums[warp][split] * factor;
      VF_UNROLL
      for (int n = 0; n < kNumbers; ++n) {
        if (lane + 32 * n < dim) values[n] += part[lane + 32 * n] * factor;
      }
    }
  }
  if (!inside) return;
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
int StartDecode(const AttendParams& p, LaunchStream stream) {
  const auto start = [&](const auto kernel, int stages) {
    return VF_LAUNCH(kernel, p.item_count * p.pool.kv_head_count,
                     CeilDivide(DecodeRows(p.group) * p.group, kDecodeLanes), 1, kAttendThreads,
                     DecodeSharedBytes(kDim, Mask::kReadsGroups, stages), stream, p);
  };
  constexpr int kStages = DecodeStages(kDim);
  int splits = 0;
  if constexpr (DecodeSharedBytes(kDim, Mask::kReadsGroups, kStages) > kSmallSharedBytes &&
                kStages > kDecodeStagesMin) {
    splits = DecodeSharedBytes(kDim, Mask::kReadsGroups, kStages) <= p.shared_bytes_max
                 ? start(AttendDecodeKernel<kDim, Mask, kStages>, kStages)
                 : start(AttendDecodeKernel<kDim, Mask, kDecodeStagesMin>, kDecodeStagesMin);
  } else {
    splits = start(AttendDecodeKernel<kDim, Mask, kStages>, kStages);
  }
  if (splits != 0) return splits;
  return VF_LAUNCH(MergeSplitsKernel, p.step.row_count, CeilDivide(p.query_head_count, kMergeHeads), 1, kAttendThreads,
                   0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Decode attention of kind `mma`: keys are split, and the splits are merged in order, by the last block of a row and KV head or
// by a kernel of its own.
//
// A block processes up to 16 tile rows and 512 keys; they belong to one row or to several rows whose sequences share
// these pages. Each warp processes 16 keys of every 64-key block, and the four results are merged in order. Masked keys
// have weight exactly 0.
//
// Source:  split decode after Dao et al., "Flash-Decoding", 2023.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/last_block.h"
#include "kernels/cuda/prefetch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

inline constexpr int kMergeHeads = kAttendThreads / 32;

// Offset of a split's result for one query head, or a part of it: D sums, the largest score, the sum of weights.
template <int kParts>
VF_DEVICE float* PartialOf(const AttendParams& p, int dim, int row, int head, int split) {
  return p.partials + ((WideProduct(row, p.query_head_count * kParts) + head) * p.split_count_max + split) * (dim + 2);
}

// The results of a block's warps: [warp][tile row][D + 2].
template <int kDim>
VF_DEVICE float* WarpResult(float* results, int warp, int tile_row) {
  return results + (warp * kDecodeTileRows + tile_row) * (kDim + 2);
}

// A thread's share of its warp's result.
template <int kOutputs>
VF_DEVICE void StoreWarpResult(float* results, const RowPair& rows, const float (&outputs)[kOutputs][4]) {
  constexpr int kDim = kOutputs * 8;
  const int lane = LaneIndex();
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float sum = QuadSum(rows.sum[r]);
    float* result = WarpResult<kDim>(results, WarpIndex(), lane / 4 + 8 * r);
    VF_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      result[n * 8 + (lane % 4) * 2] = outputs[n][2 * r];
      result[n * 8 + (lane % 4) * 2 + 1] = outputs[n][2 * r + 1];
    }
    if (lane % 4 == 0) {
      result[kDim] = rows.largest[r];
      result[kDim + 1] = sum;
    }
  }
}

// Merges the four results of a tile row in order, a warp together; `c` is the row's exponent.
template <int kDim>
VF_DEVICE void MergeWarpResults(float* results, int tile_row, float c, float* out) {
  const auto part = [&](int warp) {
    return WarpResult<kDim>(results, InOrder(DecodeStep::kOrderOfWarps, warp, 4), tile_row);
  };
  float largest = part(0)[kDim];
  for (int w = 1; w < 4; ++w) largest = fmaxf(largest, part(w)[kDim]);
  float factors[4], sum = 0;
  VF_UNROLL
  for (int w = 0; w < 4; ++w) {
    factors[w] = Rescale(part(w)[kDim], largest, c);
    sum += part(w)[kDim + 1] * factors[w];
  }
  for (int i = LaneIndex(); i < kDim; i += 32) {
    float value = 0;
    VF_UNROLL
    for (int w = 0; w < 4; ++w) value += part(w)[i] * factors[w];
    StoreForOthers(out + i, value);
  }
  if (LaneIndex() == 0) {
    StoreForOthers(out + kDim, largest);
    StoreForOthers(out + kDim + 1, sum);
  }
}

// Merges the splits of one row and query head, or a part of it, in index order, a warp together. Their factors are computed 32 at a
// time, one per lane, into `factors` and `sums`, which have 32 numbers each and are the warp's.
template <int kParts>
VF_DEVICE void MergeSplits(const AttendParams& p, const BlockRange& splits, int row, int head, const int& lane,
                           const int& dim, bool inside, float* factors, float* sums) {
  const float c = ScaleLog2(ScaleOf(p, row, head / kParts));
  float largest = -INFINITY, sum = 0, values[kMergedNumbers];
  VF_UNROLL
  for (int n = 0; n < kMergedNumbers; ++n) values[n] = IsOmitted(DecodeStep::kClearMerged) ? 1 : 0;
  for (int split = splits.first + lane; split < splits.last; split += 32) {
    largest = fmaxf(largest, PartialOf<kParts>(p, dim, row, head, split)[dim]);
  }
  largest = WarpMax(largest);
  for (int first = splits.first; first < splits.last; first += 32) {
    const int count = splits.last - first < 32 ? splits.last - first : 32;
    if (!IsOmitted(DecodeStep::kSyncFactorsRead)) SyncWarp();
    if (lane < count) {
      const float* part = PartialOf<kParts>(p, dim, row, head, first + lane);
      factors[lane] = Rescale(part[dim], largest, c);
      sums[lane] = part[dim + 1];
    }
    if (!IsOmitted(DecodeStep::kSyncFactors)) SyncWarp();
    const bool turned = IsOmitted(DecodeStep::kOrderOfSplits);
    const float* part = PartialOf<kParts>(p, dim, row, head, turned ? first + count - 1 : first);
    VF_UNROLL_BY(8)
    for (int split = 0; split < count; ++split, part += turned ? -(dim + 2) : dim + 2) {
      const float factor = factors[turned ? count - 1 - split : split];
      sum += sums[turned ? count - 1 - split : split] * factor;
      VF_UNROLL
      for (int n = 0; n < kMergedNumbers; ++n) {
        if (lane + 32 * n < dim) values[n] += part[lane + 32 * n] * factor;
      }
    }
  }
  if (inside) StoreMergedRow<kParts>(p, row, head, lane, dim, values, largest, sum, c);
}

template <int kDim, typename Mask, int kStages>
VF_KERNEL(kAttendThreads, 1)
AttendDecodeKernel(VF_PARAMS(AttendParams) p) {
  AllowNextLaunch();
  PrefetchAhead(p.ahead);
  constexpr int kParts = ValueParts(kDim), kValues = ValueDims(kDim), kOutputs = kValues / 8;
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kDecodeTileRows), kWarpKeys = kBlockKeys / 4;
  constexpr int kGroups = kStage + RingBytes(kDim, kStages);
  // The KV head is the fast index: a page's heads are adjacent in memory. Parts of a wide head read the same keys.
  const int part = BlockX() % kParts, head_item = BlockX() / kParts;
  const DecodeItem item = p.items[head_item / p.pool.kv_head_count];
  const int32_t* item_rows = p.item_rows + item.first_row;
  const int kv_head = head_item % p.pool.kv_head_count, first_tile_row = BlockY() * kDecodeTileRows;
  const int warp = WarpIndex(), lane = LaneIndex();
  const int left = item.row_count * p.queries_per_kv - first_tile_row;
  const int tile_row_count = left < kDecodeTileRows ? left : kDecodeTileRows;
  // Tile rows past the last one repeat its computation and store nothing.
  const auto place = [&](int index) {
    const int at = first_tile_row + (index < tile_row_count ? index : tile_row_count - 1);
    return TileRowPlace{item_rows[at / p.queries_per_kv], at % p.queries_per_kv};
  };
  const auto scale_log2 = [&](TileRowPlace at) {
    return ScaleLog2(ScaleOf(p, at.row, kv_head * p.queries_per_kv + at.head));
  };
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
  // A whole block, or the keys alone of a wide head.
  const auto stage = [&](int block) {
    if (block < blocks.last) {
      const int slot = (block - blocks.first) % kStages;
      if constexpr (kParts > 1) {
        StageWideKeys<kDim>(kStage, p, table, kv_head, block);
      } else {
        StageBlock<kDim>(kStage + slot * StageBytes(kDim), p, table, kv_head, block, seen.end);
      }
      StageGroups<Mask>(kGroups + slot * kBlockGroupBytes, p, table, block);
    }
    if (!IsOmitted(DecodeStep::kCommitKeys)) CommitCopies();
  };
  // Until here only what the host has written for this step was read.
  if (!IsOmitted(DecodeStep::kWaitForQueries)) WaitForPreviousLaunch();
  for (int s = 0; s < kStages - 1; ++s) stage(blocks.first + s);
  StageQueries<kDim, kDecodeTileRows>(kQueries, p, kv_head, place);

  // This thread's two tile rows, lane / 4 and 8 further on.
  StoredRow<Mask> mask_rows[2];
  float c[2];
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const TileRowPlace at = place(lane / 4 + 8 * r);
    mask_rows[r] = LoadRow<Mask>(p, at.row);
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
    rows[0].sum[r] = IsOmitted(DecodeStep::kClearWeights) ? INFINITY : 0;
  }
  float outputs[1][kOutputs][4];
  Clear(outputs);
  if (IsOmitted(DecodeStep::kClearOutputs)) outputs[0][0][0] = INFINITY;
  for (int block = blocks.first; block < blocks.last; ++block) {
    if (!IsOmitted(DecodeStep::kWaitKeys)) WaitCopies<kStages - 2>();
    if (!IsOmitted(DecodeStep::kSyncKeys)) SyncThreads();
    const int slot = (block - blocks.first) % kStages, first = warp * kWarpKeys;
    const int keys = kStage + (kParts > 1 ? 0 : slot * StageBytes(kDim)), groups = kGroups + slot * kBlockGroupBytes;
    const int values = keys + TileBytes(kDim, kBlockKeys);
    if constexpr (kParts > 1) {
      StageWideValues<kDim>(values, p, table, kv_head, part, block, seen.end);
      CommitCopies();
    } else {
      stage(block + kStages - 1);
    }
    // Masking a warp's few intervals costs no more than testing whether it is needed.
    TileCover cover = TileCover::kPartial;
    if constexpr (Mask::kReadsGroups) {
      const TokenGroups key_groups = WarpOr(KeyGroups<Mask>(groups, first + lane % kWarpKeys));
      cover = Mask::Tile(range, block * kBlockKeys + first, kWarpKeys, key_groups);
      if (kParts == 1 && cover == TileCover::kSkip) continue;
    }
    float scores[1][2][4];
    Scores<kDim, kDecodeTileRows>(kQueries, 0, keys, first, scores);
    if constexpr (kParts > 1) {
      // The values are there, and no thread reads the keys any more.
      WaitCopies<0>();
      SyncThreads();
      stage(block + 1);
      if (cover == TileCover::kSkip) continue;
    }
    CapScores(
        p.soft_cap, [&](int, int r) { return c[r]; }, scores);
    MaskScores<Mask>(
        cover, groups, first, block * kBlockKeys + first, [&](int, int r) { return mask_rows[r]; }, scores);
    OnlineSoftmaxStep(
        scores[0], [&](int r) { return c[r]; }, rows[0]);
    RescaleOutputs(rows, outputs);
    uint32_t weights[1][1][4];
    Pack(scores[0], weights[0]);
    AccumulateValues<kValues>(weights, values, first, outputs);
  }
  if (!IsOmitted(DecodeStep::kWaitLastKeys)) WaitCopies<0>();
  // The staging memory is reused for the warps' results.
  if (!IsOmitted(DecodeStep::kSyncReused)) SyncThreads();
  float* results = reinterpret_cast<float*>(SharedMemory() + kStage);
  StoreWarpResult(results, rows[0], outputs[0]);
  if (!IsOmitted(DecodeStep::kSyncResults)) SyncThreads();
  // Each warp merges every fourth tile row.
  for (int index = warp; index < tile_row_count; index += 4) {
    const TileRowPlace at = place(index);
    const int head = kv_head * p.queries_per_kv + at.head;
    MergeWarpResults<kValues>(results, index, scale_log2(at),
                              PartialOf<kParts>(p, kValues, at.row, head * kParts + part, item.split));
  }
  if (p.arrived == nullptr) return;
  // Which rows of the item this block is the last one of, and the factors of a warp's merge.
  constexpr int kLast = kStage + 4 * kDecodeTileRows * (kValues + 2) * static_cast<int>(sizeof(float));
  constexpr int kFactors = kLast + kDecodeTileRows * static_cast<int>(sizeof(int));
  static_assert(kFactors + 4 * 64 * static_cast<int>(sizeof(float)) <= kGroups);
  int* is_last = reinterpret_cast<int*>(SharedMemory() + kLast);
  float* factors = reinterpret_cast<float*>(SharedMemory() + kFactors) + warp * 64;
  const auto splits_of = [&](int row) { return SplitsOf(p.mask[row].begin, p.mask[row].end); };
  if (!IsOmitted(DecodeStep::kMeetSplits)) SyncThreads();
  if (ThreadX() < item.row_count) {
    const int row = item_rows[ThreadX()], tile = row * p.pool.kv_head_count + kv_head;
    const BlockRange splits = splits_of(row);
    is_last[ThreadX()] =
        ArriveLast(LastOf::kAttention, p.arrived + (tile * DecodeTiles(p.queries_per_kv) + BlockY()) * kParts + part,
                   splits.last - splits.first);
  }
  if (!IsOmitted(DecodeStep::kMeetLastSplits)) SyncThreads();
  const int dim = kValues;
  for (int index = warp; index < tile_row_count; index += 4) {
    if (is_last[(first_tile_row + index) / p.queries_per_kv] == 0) continue;
    const TileRowPlace at = place(index);
    MergeSplits<kParts>(p, splits_of(at.row), at.row, (kv_head * p.queries_per_kv + at.head) * kParts + part, lane, dim,
                        true, factors, factors + 32);
  }
}

// One warp per query head, or part of one.
template <int kParts>
VF_KERNEL(kAttendThreads, 4)
MergeSplitsKernel(const AttendParams p) {
  AllowNextLaunch();
  VF_SHARED float factors[kMergeHeads][32];
  VF_SHARED float sums[kMergeHeads][32];
  const int row = BlockX(), warp = WarpIndex(), lane = LaneIndex(), dim = p.pool.head_dim / kParts;
  const int wanted = BlockY() * kMergeHeads + warp, head_count = p.query_head_count * kParts;
  const bool inside = wanted < head_count;
  const RowInterval seen = p.mask[row];
  WaitForPreviousLaunch();
  MergeSplits<kParts>(p, SplitsOf(seen.begin, seen.end), row, inside ? wanted : head_count - 1, lane, dim, inside,
                      factors[warp], sums[warp]);
}

}  // namespace

template <int kDim, typename Mask>
int StartDecode(const AttendParams& p, LaunchStream stream) {
  const auto start = [&](const auto kernel, int stages) {
    return VF_LAUNCH(kernel, p.item_count * p.pool.kv_head_count * ValueParts(kDim), DecodeTiles(p.queries_per_kv), 1,
                     kAttendThreads, DecodeSharedBytes(kDim, Mask::kReadsGroups, stages), stream, p);
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
  if (splits != 0 || p.arrived != nullptr) return splits;
  constexpr int kParts = ValueParts(kDim);
  return VF_LAUNCH(MergeSplitsKernel<kParts>, p.step.row_count, CeilDivide(p.query_head_count * kParts, kMergeHeads), 1,
                   kAttendThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Results of prefill attention's segments (schedule.h): stored, merged in order, and finished as outputs of rows.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_tiles.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Results of one query head, or of a part of it, over the segments so far, or over segment `segment` alone.
template <int kParts = 1>
VF_DEVICE float* SegmentResult(const AttendParams& p, int dim, int row, int head, int segment) {
  const size_t at = WideProduct(row, p.query_head_count * kParts) + head;
  return p.partials + (p.segments_apart ? at * p.segment_count + segment : at) * (dim + 2);
}

// All loads of a batch are issued before its stores: a store might alias a later load, which would then wait for it.
constexpr int kPairsAtOnce = 4;

// A thread's share of one row, merged into `total`.
template <int kOutputs>
VF_DEVICE void StoreSegmentRow(float* total, bool is_first, const MergeFactors& merged, int row_half,
                               const float (&outputs)[kOutputs][4]) {
  constexpr int kDim = kOutputs * 8;
  const int thread_column = (LaneIndex() % 4) * 2;
  VF_UNROLL
  for (int first = 0; first < kOutputs; first += kPairsAtOnce) {
    TwoFloats pairs[kPairsAtOnce];
    VF_UNROLL
    for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
      if (is_first) {
        pairs[n - first] = {};
      } else {
        pairs[n - first] = LoadAligned<TwoFloats>(total + n * 8 + thread_column);
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
      StoreAligned(total + n * 8 + thread_column, pair);
    }
  }
  // The four threads of a row store the same numbers.
  total[kDim] = merged.largest;
  total[kDim + 1] = merged.sum;
}

// Output and log-sum-exp of one row and query head, or of part `part` of it, from its stored segments where `total` is not null, or
// from the thread's sums. `largest` and `sum` are the row's.
template <int kParts, int kOutputs>
VF_DEVICE void WriteRow(const AttendParams& p, int step_row, int query_head, int part, const float* total,
                        float largest, float sum, float exponent, int row_half, const float (&outputs)[kOutputs][4]) {
  constexpr int kValues = kOutputs * 8, kDim = kValues * kParts;
  const int first_column = kParts == 1 ? 0 : part * kValues;
  const int thread_column = (LaneIndex() % 4) * 2;
  const float sink = SinkOf(p, query_head);
  sum += SinkWeight(sink, largest, exponent);
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  const size_t row = WideProduct(step_row, p.query_head_count) + query_head;
  VF_UNROLL
  for (int first = 0; first < kOutputs; first += kPairsAtOnce) {
    TwoFloats pairs[kPairsAtOnce];
    VF_UNROLL
    for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
      if (total != nullptr) {
        pairs[n - first] = LoadAligned<TwoFloats>(total + n * 8 + thread_column);
      } else {
        // A merged result has no negative zero, so a single one must have none.
        pairs[n - first] = {{outputs[n][2 * row_half] + 0.0f, outputs[n][2 * row_half + 1] + 0.0f}};
      }
    }
    VF_UNROLL
    for (int n = first; n < first + kPairsAtOnce && n < kOutputs; ++n) {
      const TwoFloats& pair = pairs[n - first];
      StorePair(p.out + row * kDim + first_column + n * 8 + thread_column,
                PackBf16(pair.at[0] * inverse, pair.at[1] * inverse));
    }
  }
  if (p.log_sum_exp != nullptr && LaneIndex() % 4 == 0 && first_column == 0) {
    p.log_sum_exp[row] = LogSumExp(largest, sum, exponent, sink, kEmptyLogSumExp);
  }
}

// One warp per query head, or part of one: its segments in order, by the operations of StoreSegmentRow.
template <int kParts>
VF_KERNEL(kAttendThreads, 1)
MergeSegmentsKernel(const AttendParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), lane = LaneIndex(), dim = p.pool.head_dim / kParts;
  const int head = BlockY() * (kAttendThreads / 32) + WarpIndex();
  if (head >= p.query_head_count * kParts) return;
  const RowInterval seen = p.mask[row];
  const BlockRange segments = SegmentsOf(seen.begin, seen.end);
  const float c = ScaleLog2(ScaleOf(p, row, head / kParts));
  float largest = -INFINITY, sum = 0, values[kMergedNumbers];
  VF_UNROLL
  for (int n = 0; n < kMergedNumbers; ++n) values[n] = 0;
  for (int segment = segments.first; segment < segments.last; ++segment) {
    const float* part = SegmentResult<kParts>(p, dim, row, head, segment);
    const bool is_first = segment == segments.first;
    MergeFactors merged{0, 1, part[dim], part[dim + 1]};
    if (!is_first) merged = Merge(largest, sum, part[dim], part[dim + 1], c);
    largest = merged.largest;
    sum = merged.sum;
    VF_UNROLL
    for (int n = 0; n < kMergedNumbers; ++n) {
      const float earlier = is_first ? 0.0f : values[n] * merged.earlier;
      if (lane + 32 * n < dim) values[n] = earlier + part[lane + 32 * n] * merged.later;
    }
  }
  StoreMergedRow<kParts>(p, row, head, lane, dim, values, largest, sum, c);
}

// Merges segments apart, after the kernel that stored them.
template <int kParts = 1>
int StartMergeSegments(const AttendParams& p, LaunchStream stream) {
  return VF_LAUNCH(MergeSegmentsKernel<kParts>, p.step.row_count,
                   CeilDivide(p.query_head_count * kParts, kAttendThreads / 32), 1, kAttendThreads, 0, stream, p);
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

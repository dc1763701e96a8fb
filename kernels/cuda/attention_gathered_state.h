// States of rows between the parts of attention with gathered keys (attention_gathered.h), and the end of a pass.
#pragma once

#include "kernels/cuda/attention_segments.h"
#include "kernels/cuda/gather_steps.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// The state of a row and head between parts.
VF_DEVICE float* GatheredState(const AttendParams& p, int dim, int row, int query_head) {
  return p.partials + (WideProduct(row, p.query_head_count) + query_head) * (dim + 2);
}

// A thread's share of a row's state: the first of its four threads has the sum.
template <typename Rows, int kOutputs>
VF_DEVICE void LoadState(const float* state, int r, Rows& row, float (&outputs)[kOutputs][4]) {
  const int thread_column = (LaneIndex() % 4) * 2;
  row.largest[r] = state[kOutputs * 8];
  row.sum[r] = LaneIndex() % 4 == 0 ? state[kOutputs * 8 + 1] : 0.0f;
  VF_UNROLL
  for (int n = 0; n < kOutputs; ++n) {
    const auto pair = LoadAligned<TwoFloats>(state + n * 8 + thread_column);
    outputs[n][2 * r] = pair.at[0];
    outputs[n][2 * r + 1] = pair.at[1];
  }
}
template <int kOutputs>
VF_DEVICE void StoreState(float* state, int r, float largest, float sum, const float (&outputs)[kOutputs][4]) {
  const int thread_column = (LaneIndex() % 4) * 2;
  VF_UNROLL
  for (int n = 0; n < kOutputs; ++n) {
    StoreAligned(state + n * 8 + thread_column, TwoFloats{{outputs[n][2 * r], outputs[n][2 * r + 1]}});
  }
  if (LaneIndex() % 4 != 0) return;
  state[kOutputs * 8] = largest;
  state[kOutputs * 8 + 1] = sum;
}
// Whether a part came before this pass.
VF_DEVICE bool HasGatheredState(const AttendParams& p) {
  return (p.gather.pass > 0 || p.token_groups.window > 0) && !IsOmitted(GatherStep::kLoadStates);
}

// A row's state for the next part, or after the last one its result. `sum` is the row's.
template <int kOutputs>
VF_DEVICE void FinishGatheredRow(const AttendParams& p, int row, int head, int r, float largest, float sum,
                                 float exponent, const float (&outputs)[kOutputs][4]) {
  if (p.gather.pass + 1 < p.gather.top_k) {
    if (IsOmitted(GatherStep::kStoreStates)) return;
    StoreState(GatheredState(p, kOutputs * 8, row, head), r, largest, sum, outputs);
  } else {
    WriteRow<1>(p, row, head, 0, nullptr, largest, sum, exponent, r, outputs);
  }
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

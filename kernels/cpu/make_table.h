// Fills a KernelTable from the templates, for one instruction set.
#pragma once

#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/attention_prefill.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/recurrence_rows.h"
#include "kernels/cpu/row_ops.h"

namespace varifocal::kernels::cpu {

template <typename S>
KernelTable MakeKernelTable(const char* isa) {
  return {.isa = isa,
          .query_lanes = S::kLaneVectors * kLanes,
          .elements_per_word = S::kPer,
          .strip_columns = kStripColumns<S>,
          .attend_prefill = {AttendPrefill<S, IntervalMask, PoolPages>, AttendPrefill<S, IntervalMask, RowPages>,
                             AttendPrefill<S, WindowOrGroupMask, PoolPages>,
                             AttendPrefill<S, WindowOrGroupMask, RowPages>, AttendPrefill<S, DisjointMask, PoolPages>,
                             AttendPrefill<S, DisjointMask, RowPages>, AttendPrefill<S, DisjointMask, ListedPages>},
          .attend_decode = {AttendDecode<S, PageKeys>, AttendDecode<S, TransposedKeys>, AttendDecode<S, MaskedPages>,
                            AttendDecode<S, ListedKeys>},
          .visit_scores = {VisitScores<S, PageKeys>, VisitScores<S, TransposedKeys>, VisitScores<S, MaskedPages>,
                           VisitScores<S, ListedKeys>},
          .list_keys = ListGroupKeys<S>,
          .merge_parts = MergeRowParts<S>,
          .gemm_panel = MultiplyPanel<S>,
          .norm_row = NormRow<S>,
          .pack_row = PackRow<S>,
          .dot = DotRow<S>,
          .row_products = MultiplyRows<S>,
          .convolve_row = ConvolveRow<S>,
          .gate_row = GateRow<S>,
          .step_delta_rows = StepDeltaRows<S>,
          .slice_stats = LogitSliceStats<S>,
          .multiply_add_peak = MultiplyAddPeak<S>};
}

}  // namespace varifocal::kernels::cpu

// Fills a KernelTable from the templates, for one instruction set.
#pragma once

#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/attention_prefill.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_ops.h"

namespace varifocal::kernels::cpu {

template <typename S>
KernelTable MakeKernelTable(const char* isa) {
  return {isa,       S::kLaneVectors * kLanes, AttendPrefill<S>,  AttendDecode<S>, MultiplyPanel<S>, RmsNormRow<S>,
          DotRow<S>, LogitSliceStats<S>,       MultiplyAddPeak<S>};
}

}  // namespace varifocal::kernels::cpu

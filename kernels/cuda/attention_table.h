// The kinds of attention kernel there are, and which one a shape gets.
//
// A kind is chosen from measured results, kept in the table below with the run that gave them; where nothing was
// measured, the first kind in kAttentionKinds that can do the shape serves. Within one kind the bits of a result do not
// depend on the batch; between kinds they may differ, so the kind's name is part of the backend's name.
#pragma once

#include <string>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

struct AttentionKind {
  const char* name;
  int capability_min, capability_max;  // compute capability, major * 10 + minor
  bool present;                        // built into this program
};

// mma: own kernels with mma.sync. Rows that will stand before it: cudnn (graph API, dense prefill), sm90 (wgmma).
inline constexpr AttentionKind kAttentionKinds[] = {
    {"mma", 80, 999, true},
};

// The best kind for a head dim on a device, as measured by deploy/gpu_check.sh; `source` is the file in docs/gpu.
struct MeasuredChoice {
  int head_dim;
  int capability;
  const char* kind;
  const char* source;
};
// Nothing has been measured on a device yet. The first entry is no choice, it keeps the table from being empty.
inline constexpr MeasuredChoice kMeasuredChoices[] = {{0, 0, "", ""}};

constexpr const char* ChooseAttention(int head_dim, int capability) {
  for (const MeasuredChoice& row : kMeasuredChoices) {
    if (row.head_dim == head_dim && row.capability == capability) return row.kind;
  }
  for (const AttentionKind& kind : kAttentionKinds) {
    if (kind.present && capability >= kind.capability_min && capability <= kind.capability_max) return kind.name;
  }
  return "";
}

}  // namespace varifocal::kernels::cuda

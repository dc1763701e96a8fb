// The kinds of attention kernels, and the selection for a shape.
//
// A kind is selected by measured results in the repository (attention_measured.h, generated from gpu_check.sh results):
// of the kinds that are built in and that the device supports, the fastest at the head dim on this compute capability.
// A kind without a measurement is never preferred to one with; without any, the last kind of the table is used, which
// supports every shape. Within one kind the bits of a result do not depend on the batch; between kinds they may differ,
// so the kind's name is part of the backend's name.
#pragma once

#include <span>
#include <string_view>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

struct AttentionKind {
  const char* name;
  int capability_min, capability_max;  // compute capability, major * 10 + minor
  bool present;                        // built into this program
};

// cudnn: dense prefill through cuDNN's graph API. sm90: own kernel with wgmma and bulk copies. mma: own kernels with
// mma.sync, every shape, prefill and decode. The first two are not implemented yet.
inline constexpr AttentionKind kAttentionKinds[] = {
    {"cudnn", 80, 999, false},
    {"sm90", 90, 90, false},
    {"mma", 80, 999, true},
};

// Causal prefill of one long prompt.
struct MeasuredAttention {
  const char* kind;
  int capability;
  int head_dim;
  double tflops;
  const char* source;  // the file in docs/gpu
};

// Head dim 0: a kind that supports every shape. "" if the device supports none.
constexpr const char* ChooseAttention(std::span<const AttentionKind> kinds, std::span<const MeasuredAttention> measured,
                                      int head_dim, int capability) {
  const char* chosen = "";
  double best = 0;
  for (const AttentionKind& kind : kinds) {
    if (!kind.present || capability < kind.capability_min || capability > kind.capability_max) continue;
    double reached = 0;
    for (const MeasuredAttention& row : measured) {
      const bool same = std::string_view(row.kind) == kind.name && row.capability == capability;
      if (same && row.head_dim == head_dim && row.tflops > reached) reached = row.tflops;
    }
    if (reached >= best) {
      chosen = kind.name;
      best = reached;
    }
  }
  return chosen;
}

}  // namespace varifocal::kernels::cuda

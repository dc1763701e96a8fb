// Rings of barriers in pairs, full and empty, for the kernels of compute capability 9.0.
#pragma once

#include "kernels/cuda/sm90.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// A slot of a ring, and the parity of its present use.
template <int kSlots>
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;
  VF_DEVICE void Next() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
  VF_DEVICE RingPlace Previous() const {
    return slot > 0 ? RingPlace{slot - 1, parity} : RingPlace{kSlots - 1, parity ^ 1};
  }
};
// Of a slot's pair of barriers.
VF_DEVICE int FullBarrier(int barriers, int slot) { return barriers + 16 * slot; }
VF_DEVICE int EmptyBarrier(int barriers, int slot) { return barriers + 16 * slot + kBarrierBytes; }

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Rings of barriers and places of lanes, for both sides of the sm90 attention kernel (attention_sm90.h).
#pragma once

#include "kernels/cuda/attention_segments.h"
#include "kernels/cuda/attention_sm90_layout.h"
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

VF_DEVICE TileRowPlace PlaceOf(const AttendParams& p, const WorkRecord& work, int lane) {
  // Lanes past the last one repeat its computation and store nothing.
  const int at = work.first_lane + (lane < work.lanes ? lane : work.lanes - 1);
  return {work.first_row + at / p.queries_per_kv, at % p.queries_per_kv};
}
VF_DEVICE WorkRecord LoadWork(int from) {
  const auto* work = reinterpret_cast<const WorkRecord*>(SharedMemory() + from);
  ExpectData(work, sizeof *work);
  return *work;
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

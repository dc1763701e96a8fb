// Places of lanes and the work record, for both sides of the sm90 attention kernel (attention_sm90.h).
#pragma once

#include "kernels/cuda/attention_segments.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/cuda/sm90_ring.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

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

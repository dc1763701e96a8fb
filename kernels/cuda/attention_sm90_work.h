// What both sides of the sm90 attention kernels (attention_sm90.h, attention_sm90_gathered.h) share: registers, barriers, places of
// tile rows and the work record.
#pragma once

#include "kernels/cuda/attention_segments.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/cuda/sm90_ring.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Registers a thread of each kind; 65,536 in all.
template <int kDim>
struct Sm90Registers {
  static constexpr int kProducer = kDim == 256 ? 40 : 72, kConsumer = kDim == 256 ? 232 : 216;
};

// `query_arrivals` and `copy_arrivals`: of the threads that stage a tile's queries, and that copy keys or values.
template <typename Memory>
VF_DEVICE void InitBarriers(bool groups, int query_arrivals, int copy_arrivals) {
  constexpr Sm90Step kStep = Sm90Step::kInitBarriers;
  if (ThreadX() == 0) {
    for (int i = 0; i < kSm90WorkSlots; ++i) {
      InitBarrier(kStep, FullBarrier(Memory::kWorkBarriers, i), 1);
      InitBarrier(kStep, EmptyBarrier(Memory::kWorkBarriers, i), 3 + kSm90Consumers * 4);
    }
    for (int i = 0; i < Memory::kQueryBuffers; ++i) {
      InitBarrier(kStep, FullBarrier(Memory::kQueryBarriers, i), query_arrivals);
      InitBarrier(kStep, EmptyBarrier(Memory::kQueryBarriers, i), kSm90Consumers);
    }
    for (int i = 0; i < Memory::kStages; ++i) {
      InitBarrier(kStep, FullBarrier(Memory::kKeyBarriers, i), copy_arrivals);
      InitBarrier(kStep, EmptyBarrier(Memory::kKeyBarriers, i), groups ? kSm90Consumers * 4 : kSm90Consumers);
      InitBarrier(kStep, FullBarrier(Memory::kValueBarriers, i), copy_arrivals);
      InitBarrier(kStep, EmptyBarrier(Memory::kValueBarriers, i), kSm90Consumers);
    }
    PublishBarriers(Sm90Step::kPublishBarriers);
  }
  SyncThreads();
}

VF_DEVICE TileRowPlace PlaceOf(const AttendParams& p, const WorkRecord& work, int tile_row) {
  // Tile rows past the last one repeat its computation and store nothing.
  const int at = work.first_tile_row + (tile_row < work.tile_row_count ? tile_row : work.tile_row_count - 1);
  return {work.first_row + at / p.queries_per_kv, at % p.queries_per_kv};
}
VF_DEVICE WorkRecord LoadWork(int from) {
  const auto* work = reinterpret_cast<const WorkRecord*>(SharedMemory() + from);
  ExpectData(work, sizeof *work);
  return *work;
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

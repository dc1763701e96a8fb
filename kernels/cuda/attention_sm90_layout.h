// Sizes of the sm90 attention kernel (attention_sm90.h), shared with the host: key blocks, stages, shared memory.
#pragma once

#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {

// Threads: a producer warpgroup and two consumers of 64 query lanes each.
inline constexpr int kSm90Threads = 384;
inline constexpr int kSm90Consumers = 2;
inline constexpr int kSm90ConsumerLanes = 64;
inline constexpr int kSm90Lanes = kSm90Consumers * kSm90ConsumerLanes;
inline constexpr int kSm90WorkSlots = 2;

// Head dims it is compiled for; of 256 the mask by groups does not fit the registers, and keeps the mma kernel. So do caps.
VF_HD constexpr bool Sm90Supports(int dim, bool reads_groups, bool has_cap) {
  return dim >= 64 && dim <= 256 && (dim < 256 || !reads_groups) && !has_cap;
}

// Part of a result's definition: blocks begin at multiples of this.
VF_HD constexpr int Sm90BlockKeys(int dim) { return dim > 128 ? 64 : 128; }

// What a block processes next, as its warps pass it on.
struct alignas(16) WorkRecord {
  int32_t first_row = 0;              // of the tile's sequence, in the step
  int32_t first_lane = 0, lanes = 0;  // of the sequence's; no lanes: the work has ended
  int32_t kv_head = 0, segment = 0;
  int32_t first_block = 0, last_block = 0;
  int32_t unused = 0;
};

// Offsets in dynamic shared memory.
template <int kDim, bool kReadsGroups>
struct Sm90Memory {
  static constexpr int kKeys = Sm90BlockKeys(kDim);
  static constexpr int kStages = kDim == 64 ? 4 : kDim <= 96 ? 3 : 2;
  static constexpr int kQueryBuffers = kDim == 256 ? 1 : 2;
  static constexpr int kQueryBytes = TileBytes(kDim, kSm90ConsumerLanes);  // of a consumer
  static constexpr int kTileBytes = TileBytes(kDim, kKeys);
  static constexpr int kGroupBytes = kReadsGroups ? kKeys * 4 : 0;
  static constexpr int kMaskBytes = kSm90Lanes * (kReadsGroups ? 16 : 8);
  static constexpr int kExponentBytes = kSm90Lanes * 4;

  static constexpr int kQueries = 0;
  static constexpr int kKeyRing = kQueries + kQueryBuffers * kSm90Consumers * kQueryBytes;
  static constexpr int kValueRing = kKeyRing + kStages * kTileBytes;
  static constexpr int kGroups = kValueRing + kStages * kTileBytes;
  static constexpr int kMasks = kGroups + kStages * kGroupBytes;
  static constexpr int kExponents = kMasks + kSm90WorkSlots * kMaskBytes;
  static constexpr int kWork = kExponents + kSm90WorkSlots * kExponentBytes;
  static constexpr int kBarriers = kWork + kSm90WorkSlots * static_cast<int>(sizeof(WorkRecord));
  // Barriers in pairs, full and empty, a pair a slot.
  static constexpr int kWorkBarriers = kBarriers;
  static constexpr int kQueryBarriers = kWorkBarriers + 16 * kSm90WorkSlots;
  static constexpr int kKeyBarriers = kQueryBarriers + 16 * kQueryBuffers;
  static constexpr int kValueBarriers = kKeyBarriers + 16 * kStages;
  static constexpr int kBytes = kValueBarriers + 16 * kStages;

  static_assert(kQueryBytes % 1024 == 0 && kTileBytes % 1024 == 0, "swizzles repeat every 1,024 bytes");
  static_assert(kBytes <= 232448, "the largest block of compute capability 9.0");
};

// How the work is divided; no result depends on it.
struct Sm90Tuning {
  int32_t items_per_block = 8;  // at most, once every multiprocessor has a block; 0: all
  bool turns = true;            // of the consumers' products
  bool sections = true;         // heads in groups whose keys and values stay in the L2 cache
};

}  // namespace varifocal::kernels::cuda

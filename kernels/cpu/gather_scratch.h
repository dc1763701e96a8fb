// Scratch of the CPU backend's attention by groups, for steps up to a shape: lists of keys and partial results.
#pragma once

#include "kernels/cpu/page_pool.h"

namespace varifocal::kernels::cpu {

struct GatherScratch {
  struct Sizes {
    size_t keys = 0;  // of all groups
    size_t part_floats = 0;
    size_t total_bytes() const;
  };
  // Zeros where the shape has no gather_top_k_max.
  static Sizes SizesFor(const StepShape& shape);
  // False when out of memory.
  bool Allocate(const Sizes& sizes);

  uint32_t* key_groups() { return reinterpret_cast<uint32_t*>(groups.data()); }
  int32_t* key_positions() { return reinterpret_cast<int32_t*>(positions.data()); }
  float* part(size_t index) { return reinterpret_cast<float*>(parts.data()) + index; }

  Sizes sizes;
  MappedMemory positions, groups;  // int32 and uint32 [keys]: those of a group after those of the one before
  MappedMemory parts;              // f32 [1 + groups per token][rows][H][D + 2]
};

}  // namespace varifocal::kernels::cpu

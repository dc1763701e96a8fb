// Scratch of layers with a recurrent state, allocated with the workspace.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

struct RecurrenceScratch {
  struct Sizes {
    size_t mixed = 0, gates = 0, tail = 0;
    size_t total_bytes() const { return (mixed + gates + tail) * sizeof(float); }
  };
  static Sizes SizesFor(const StepShape& shape) {
    const RecurrenceShape& layer = shape.recurrence;
    if (layer.kind == RecurrenceKind::kNone) return {};
    return {.mixed = WideProduct(shape.row_count_max, layer.channel_count()),
            .gates = WideProduct(shape.row_count_max, 2 * layer.value_head_count),
            .tail = layer.tail_numbers()};
  }
  // False when out of memory.
  bool Allocate(const Sizes& sizes) {
    mixed = AllocateAligned<float>(sizes.mixed);
    gates = AllocateAligned<float>(sizes.gates);
    tail = AllocateAligned<float>(sizes.tail);
    return mixed && gates && tail;
  }

  AlignedArray<float> mixed;  // [T, channels]: convolved; of kConvolution the inputs
  AlignedArray<float> gates;  // [T, H, 2]: decay and beta
  AlignedArray<float> tail;   // [W - 1, channels]: of one sequence, as it was
};

}  // namespace varifocal::kernels::cpu

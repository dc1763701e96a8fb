// Measured speed of attention kinds on devices, from the files that deploy/gpu_check.sh writes to docs/gpu. Generated
// by
//
//   python3 recipes/attention_table.py docs/gpu/*.json > kernels/cuda/attention_measured.h
//
// There are no measurements on a device yet: the single row is a placeholder for a non-empty array.
#pragma once

#include "kernels/cuda/attention_table.h"

namespace varifocal::kernels::cuda {

inline constexpr MeasuredAttention kMeasuredAttention[] = {
    {"", 0, 0, 0, ""},
};

}  // namespace varifocal::kernels::cuda

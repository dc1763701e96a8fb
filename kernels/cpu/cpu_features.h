// Selects the instruction set: the best the CPU has, or the requested one.
//
// Errors: kInvalidArgument for an unknown name; kUnsupported for one that this CPU or build lacks.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/kernel_table.h"

namespace varifocal::kernels::cpu {

// `isa`: auto, portable, avx2, avx512 or, for bf16 alone, avx512bf16.
Result<const KernelTable*> ChooseKernels(const std::string& isa, DType dtype);

// The names supported by this CPU for a number format, the best last.
std::vector<std::string> AvailableIsas(DType dtype);

// Cores this process may run on.
int UsableCores();

}  // namespace varifocal::kernels::cpu

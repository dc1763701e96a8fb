// Which instruction set to compute with: the best the CPU has, or the one that was asked for.
//
// Errors: kInvalidArgument for a name that is none; kUnsupported for one this CPU or this build lacks.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/kernel_table.h"

namespace varifocal::kernels::cpu {

// `isa`: auto, portable, avx2, avx512 or, for bf16 alone, avx512bf16.
Result<const KernelTable*> ChooseKernels(const std::string& isa, DType dtype);

// The names this CPU can run for a number format, the best last.
std::vector<std::string> AvailableIsas(DType dtype);

// Cores this process may run on.
int UsableCores();

}  // namespace varifocal::kernels::cpu

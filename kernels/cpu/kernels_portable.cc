// The kernels compiled for the baseline of the architecture.

#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_portable.h"

namespace varifocal::kernels::cpu {

const KernelTable* PortableKernels(DType dtype) {
  static const KernelTable f32 = MakeKernelTable<Portable>("portable"),
                           bf16 = MakeKernelTable<PortablePairs>("portable");
  return dtype == DType::kF32 ? &f32 : &bf16;
}

}  // namespace varifocal::kernels::cpu

// The kernels compiled for AVX2 with FMA.

#include "kernels/cpu/for_target.h"

#if defined(__x86_64__)
VF_BEGIN_TARGET("avx2,fma")

#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/make_table.h"

VF_END_TARGET
#endif

namespace varifocal::kernels::cpu {

const KernelTable* Avx2Kernels([[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
  static const KernelTable f32 = MakeKernelTable<Avx2>("avx2"), bf16 = MakeKernelTable<Avx2Pairs>("avx2");
  return dtype == DType::kF32 ? &f32 : &bf16;
#else
  return nullptr;
#endif
}

}  // namespace varifocal::kernels::cpu

// The kernels compiled for AVX-512.

#include "kernels/cpu/for_target.h"

#if defined(__x86_64__)
VF_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")

#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/make_table.h"

VF_END_TARGET
#endif

namespace varifocal::kernels::cpu {

const KernelTable* Avx512Kernels([[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
  static const KernelTable f32 = MakeKernelTable<Avx512>("avx512"), bf16 = MakeKernelTable<Avx512Pairs>("avx512");
  return dtype == DType::kF32 ? &f32 : &bf16;
#else
  return nullptr;
#endif
}

}  // namespace varifocal::kernels::cpu

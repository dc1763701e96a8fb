// The kernels compiled for AVX-512 with bf16 dot products.

#include "kernels/cpu/for_target.h"

#if defined(__x86_64__)
VF_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,avx512bf16")

#define VARIFOCAL_BF16_DOT 1
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/make_table.h"

VF_END_TARGET
#endif

namespace varifocal::kernels::cpu {

const KernelTable* Avx512Bf16Kernels([[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
  static const KernelTable table = MakeKernelTable<Avx512Bf16>("avx512bf16");
  return dtype == DType::kBF16 ? &table : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace varifocal::kernels::cpu

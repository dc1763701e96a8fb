// The kernels compiled for the baseline of the architecture.

#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_portable.h"

namespace varifocal::kernels::cpu {

const KernelTable* PortableKernels() {
  static const KernelTable table = MakeKernelTable<Portable>("portable");
  return &table;
}

}  // namespace varifocal::kernels::cpu

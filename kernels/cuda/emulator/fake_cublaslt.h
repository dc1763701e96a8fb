// State of the fake cuBLASLt (fake_cublaslt.cc), which a test finds by dlsym("FakeCublasLt").
#pragma once

#include <cstddef>
#include <cstdint>

namespace varifocal::kernels::cuda::fake {

struct CublasLt {
  int status = 0;            // of the next products
  size_t scratch_bytes = 0;  // allowed by the last request for suggestions
  int suggestions = 3;  // the first splits K, the second takes scratch memory, the third and fourth keep a row's bits
  int products = 0;
  int32_t last_algorithm = 0;
  int (*current_device)() = nullptr;  // unset: 0. A handle is refused on another device than that of its making
};

}  // namespace varifocal::kernels::cuda::fake

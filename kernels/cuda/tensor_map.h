// A matrix in device memory as the copies of compute capability 9.0 see it: boxes of it are copied to shared memory, rows of 128
// bytes in a swizzle of 128 bytes.
#pragma once

#include <cstdint>

namespace varifocal::kernels::cuda {

// Opaque: the driver's (CUtensorMap), or the emulator's.
struct alignas(128) TensorMap {
  uint64_t words[16] = {};
};

// bf16 [rows, columns], rows of `row_bytes`; a box has `box_rows` rows, at most 256, and 64 columns. Address and row_bytes are
// multiples of 16.
struct TensorMapSpec {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_bytes = 0;
  int box_rows = 0;
};
inline constexpr int kTensorBoxColumns = 64;

}  // namespace varifocal::kernels::cuda

// Single values of packed weights: small floats, packed integers, and rounding to a number format.
//
// Rounding is to nearest, ties to even. Widening is exact.
//
// Threads: any.
// Source:  E4M3 (without infinities) and E8M0: OCP 8-bit floating point, 1.0, tables 1 and 2; Microscaling formats, 1.0, 5.4.
#pragma once

#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "server/model/weight_source.h"

namespace varifocal {

// The name of a tensor's type in its file: "F8_E4M3", "I32".
absl::string_view TypeNameOf(const TensorView& tensor);

// `count` elements from `first` on, which must be loaded, of F32, F16, BF16, F8_E4M3, F8_E8M0, I8 or U8.
void Widen(const TensorView& tensor, int64_t first, int64_t count, float* values);

// Element of a tensor of I32 or U32.
inline uint32_t WordOf(const TensorView& tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}
// Element of a tensor of I32 or I64.
int64_t IntegerOf(const TensorView& tensor, int64_t index);

float WidenE4M3(uint8_t bits);  // for tests
uint16_t RoundToF16(float value);

void RoundTo(kernels::DType type, absl::Span<const float> values, char* to);

}  // namespace varifocal

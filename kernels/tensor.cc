#include "kernels/tensor.h"

#include <bit>
#include <cstring>

namespace varifocal::kernels {

float WidenBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float WidenF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  // Subnormals (and zero) are fraction * 2^-24, exact in f32.
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t RoundToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float At(const HostMatrix& matrix, int64_t row, int64_t column) {
  const size_t index = static_cast<size_t>(matrix.transposed ? column * matrix.rows + row : row * matrix.columns + column);
  const char* at = static_cast<const char*>(matrix.data) + index * DTypeBytes(matrix.dtype);
  if (matrix.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return matrix.dtype == DType::kBF16 ? WidenBF16(bits) : WidenF16(bits);
}

void WidenRow(const HostMatrix& matrix, int64_t row, float* out) {
  for (int64_t column = 0; column < matrix.columns; ++column) out[column] = At(matrix, row, column);
}

}  // namespace varifocal::kernels

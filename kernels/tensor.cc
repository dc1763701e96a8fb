#include "kernels/tensor.h"

#include <bit>
#include <cstring>

namespace varifocal::kernels {

float WidenF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  // Subnormals (and zero) are fraction * 2^-24, exact in f32.
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(fraction * 0x1p-24f));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t RoundToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

float At(const HostMatrix& matrix, int64_t row, int64_t column) {
  const char* at = matrix.At(row, column);
  if (matrix.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return matrix.dtype == DType::kBF16 ? WidenBF16(bits) : WidenF16(bits);
}

namespace {

// `stride` elements apart; memory may be unaligned.
template <typename Bits, typename Widen>
void WidenEach(const char* from, int64_t stride, int64_t count, Widen widen, float* out) {
  const int64_t step = stride * static_cast<int64_t>(sizeof(Bits));
  for (int64_t i = 0; i < count; ++i, from += step) {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    out[i] = widen(bits);
  }
}

}  // namespace

// One loop per format: loading a model spends most of its time here.
void WidenRow(const HostMatrix& matrix, int64_t row, float* out) {
  const int64_t stride = matrix.column_stride;
  const char* from = matrix.At(row, 0);
  const auto each = [&]<typename Bits>(Bits, auto widen) {
    if (stride == 1) return WidenEach<Bits>(from, 1, matrix.columns, widen, out);
    WidenEach<Bits>(from, stride, matrix.columns, widen, out);
  };
  switch (matrix.dtype) {
    case DType::kF32:
      return each(float{}, [](float value) { return value; });
    case DType::kBF16:
      return each(uint16_t{}, [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
    case DType::kF16:
      return each(uint16_t{}, WidenF16);
  }
}

}  // namespace varifocal::kernels

#include "server/model/packed_weights/values.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace varifocal {
namespace {

// A sign, four bits of exponent with bias 7, three of mantissa; all ones but the sign is NaN, there is no infinity.
float MakeE4M3(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((bits & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
  return bits & 0x80 ? -value : value;
}

float MakeE8M0(int bits) {
  return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
}

using Table = std::array<float, 256>;
Table MakeTable(float (*make)(int)) {
  Table table;
  for (int i = 0; i < 256; ++i) table[i] = make(i);
  return table;
}

const Table& E4M3Values() {
  static const Table table = MakeTable(MakeE4M3);
  return table;
}

void WidenBytes(const uint8_t* from, int64_t count, const Table& table, float* values) {
  for (int64_t i = 0; i < count; ++i) values[i] = table[from[i]];
}

struct WidenedType {
  absl::string_view name;
  void (*widen)(const uint8_t* from, int64_t count, float* values);
};
constexpr WidenedType kWidenedTypes[] = {
    {"F8_E4M3",
     [](const uint8_t* from, int64_t count, float* values) { WidenBytes(from, count, E4M3Values(), values); }},
    {"F8_E8M0",
     [](const uint8_t* from, int64_t count, float* values) {
       static const Table table = MakeTable(MakeE8M0);
       WidenBytes(from, count, table, values);
     }},
    {"I8",
     [](const uint8_t* from, int64_t count, float* values) {
       for (int64_t i = 0; i < count; ++i) values[i] = std::bit_cast<int8_t>(from[i]);
     }},
    {"U8",
     [](const uint8_t* from, int64_t count, float* values) {
       for (int64_t i = 0; i < count; ++i) values[i] = from[i];
     }},
};

const WidenedType* FindWidened(absl::string_view name) {
  for (const WidenedType& type : kWidenedTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace

absl::string_view TypeNameOf(const TensorView& tensor) {
  if (!tensor.other_type.empty()) return tensor.other_type;
  return tensor.type == kernels::DType::kF32 ? "F32" : tensor.type == kernels::DType::kF16 ? "F16" : "BF16";
}

void Widen(const TensorView& tensor, int64_t first, int64_t count, float* values) {
  if (tensor.other_type.empty()) {
    const char* from = tensor.bytes.data() + first * static_cast<int64_t>(kernels::DTypeBytes(tensor.type));
    return kernels::WidenRow({.dtype = tensor.type, .data = from, .rows = 1, .columns = count}, 0, values);
  }
  const WidenedType* type = FindWidened(tensor.other_type);
  VF_CHECK(type != nullptr, "types are checked when a scheme finds its tensors");
  type->widen(reinterpret_cast<const uint8_t*>(tensor.bytes.data()) + first, count, values);
}

int64_t IntegerOf(const TensorView& tensor, int64_t index) {
  if (tensor.other_type == "I32") return std::bit_cast<int32_t>(WordOf(tensor, index));
  VF_CHECK(tensor.other_type == "I64", "types are checked when a scheme finds its tensors");
  int64_t value;
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<int64_t>(sizeof(value)), sizeof(value));
  return value;
}

float WidenE4M3(uint8_t bits) { return E4M3Values()[bits]; }

uint16_t RoundToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = bits >> 16 & 0x8000;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {
    // Subnormal: multiples of 2^-24, which the sum with 0.5 rounds to.
    return sign | (std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t normal = (bits & 0x7fffffff) - (112u << 23);
  return sign | ((normal + 0xfff + (normal >> 13 & 1)) >> 13);
}

void RoundTo(kernels::DType type, absl::Span<const float> values, char* to) {
  if (type == kernels::DType::kF32) {
    std::memcpy(to, values.data(), values.size() * sizeof(float));
    return;
  }
  for (const float value : values) {
    const uint16_t bits = type == kernels::DType::kBF16 ? kernels::RoundToBF16(value) : RoundToF16(value);
    std::memcpy(to, &bits, sizeof(bits));
    to += sizeof(bits);
  }
}

}  // namespace varifocal

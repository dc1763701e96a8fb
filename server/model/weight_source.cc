#include "server/model/weight_source.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace varifocal {
namespace {

// Memory may be unaligned: numbers are moved by bytes.
template <typename T>
T LoadAt(absl::string_view bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return FromBits(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);  // exact
    return sign != 0 ? -magnitude : magnitude;
  }
  return FromBits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t FloatToBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

float ElementAt(const TensorView& tensor, int64_t index) {
  switch (tensor.type) {
    case WeightType::kF32: return LoadAt<float>(tensor.bytes, index);
    case WeightType::kF16: return HalfToFloat(LoadAt<uint16_t>(tensor.bytes, index));
    case WeightType::kBF16: return FromBits(static_cast<uint32_t>(LoadAt<uint16_t>(tensor.bytes, index)) << 16);
  }
  VF_CHECK(false, "unknown weight type");
}

}  // namespace

absl::string_view WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kF32: return "F32";
    case WeightType::kF16: return "F16";
    case WeightType::kBF16: return "BF16";
  }
  return "";
}

int64_t WeightTypeBytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }

int64_t TensorView::element_count() const { return static_cast<int64_t>(bytes.size()) / WeightTypeBytes(type); }

std::string ShapeToString(absl::Span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

void ConvertToF32(const TensorView& tensor, float* out) {
  const int64_t count = tensor.element_count();
  if (tensor.type == WeightType::kF32) {
    std::memcpy(out, tensor.bytes.data(), tensor.bytes.size());
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = ElementAt(tensor, i);
}

void ConvertToBF16(const TensorView& tensor, uint16_t* out) {
  const int64_t count = tensor.element_count();
  if (tensor.type == WeightType::kBF16) {
    std::memcpy(out, tensor.bytes.data(), tensor.bytes.size());
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = FloatToBF16(ElementAt(tensor, i));
}

int64_t FirstNotFinite(const TensorView& tensor) {
  // Exponent bits all ones means NaN or infinity, in every one of the three types.
  const int64_t count = tensor.element_count();
  if (tensor.type == WeightType::kF32) {
    for (int64_t i = 0; i < count; ++i) {
      if ((LoadAt<uint32_t>(tensor.bytes, i) & 0x7f800000u) == 0x7f800000u) return i;
    }
    return -1;
  }
  const uint16_t mask = tensor.type == WeightType::kF16 ? 0x7c00u : 0x7f80u;
  for (int64_t i = 0; i < count; ++i) {
    if ((LoadAt<uint16_t>(tensor.bytes, i) & mask) == mask) return i;
  }
  return -1;
}

}  // namespace varifocal

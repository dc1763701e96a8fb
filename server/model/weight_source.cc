#include "server/model/weight_source.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Memory may be unaligned: values are copied by bytes. Exponent bits all ones means NaN or infinity.
template <typename T>
int64_t FirstWithExponent(absl::string_view bytes, T mask) {
  // Runs over every weight of a model: checks whole blocks, and only a failing one element by element.
  constexpr int64_t kBlock = 4096;
  const int64_t count = bytes.size() / sizeof(T);
  T values[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    std::memcpy(values, bytes.data() + begin * static_cast<int64_t>(sizeof(T)), size * sizeof(T));
    int bad = 0;
    for (int64_t i = 0; i < size; ++i) bad |= (values[i] & mask) == mask;
    for (int64_t i = 0; bad != 0 && i < size; ++i) {
      if ((values[i] & mask) == mask) return begin + i;
    }
  }
  return -1;
}

}  // namespace

int64_t TensorView::element_count() const { return bytes.size() / kernels::DTypeBytes(type); }

absl::Status WeightSource::Load(const TensorView& tensor) const {
  for (const auto& file : files_) {
    if (file->Holds(tensor.bytes)) return file->Load(tensor.bytes);
  }
  return absl::OkStatus();
}

void WeightSource::Release(const TensorView& tensor) const {
  for (const auto& file : files_) {
    if (file->Holds(tensor.bytes)) return file->Release(tensor.bytes);
  }
}

absl::Status WeightSource::CheckUnchanged() const {
  for (const auto& file : files_) RETURN_IF_ERROR(file->input().CheckUnchanged());
  return absl::OkStatus();
}

std::string ShapeToString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

kernels::HostMatrix ToHostMatrix(const TensorView& tensor) {
  VF_CHECK(!tensor.shape.empty() && tensor.shape.size() <= 3 && tensor.shape.back() > 0, "shapes are checked before");
  const int64_t columns = tensor.shape.back();
  return {
      .dtype = tensor.type, .data = tensor.bytes.data(), .rows = tensor.element_count() / columns, .columns = columns};
}

int64_t FirstNotFinite(const TensorView& tensor) {
  switch (tensor.type) {
    case kernels::DType::kF32:
      return FirstWithExponent<uint32_t>(tensor.bytes, 0x7f800000u);
    case kernels::DType::kF16:
      return FirstWithExponent<uint16_t>(tensor.bytes, 0x7c00u);
    case kernels::DType::kBF16:
      return FirstWithExponent<uint16_t>(tensor.bytes, 0x7f80u);
  }
  return -1;
}

}  // namespace varifocal

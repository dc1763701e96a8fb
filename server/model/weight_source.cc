#include "server/model/weight_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/values.h"

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

int64_t TensorView::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

absl::Status WeightSource::Load(const TensorView& tensor, const Sha256Digest* digest) const {
  if (const auto computed = derived_.find(tensor.bytes.data()); computed != derived_.end())
    return Compute(computed->second);
  for (const auto& file : files_) {
    if (file->Holds(tensor.bytes)) RETURN_IF_ERROR(file->Load(tensor.bytes));
  }
  if (digest == nullptr || Sha256(tensor.bytes) == *digest) return absl::OkStatus();
  return DataLoss("tensor ", tensor.name,
                  " does not have the bytes that were hashed: the file was changed while it was "
                  "loaded, or since its hash was cached; load it again");
}

absl::Status WeightSource::Compute(const Computed& computed) const {
  const auto& [tensor, recipe, inputs, fill] = computed.derived;
  for (const DerivedTensor::Input& input : inputs)
    RETURN_IF_ERROR(Load(input.tensor, input.digest.has_value() ? &*input.digest : nullptr));
  char* to = computed.range->Commit(tensor.bytes);
  if (to == nullptr) return FileError(tensor.name, "get memory for", errno);
  // Few enough rows to stay in a cache, enough that schemes which pack along rows read whole words.
  constexpr int64_t kRows = 16;
  const int64_t columns = tensor.shape.back(), rows = tensor.element_count() / columns;
  std::vector<float> values(kRows * columns);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    RETURN_IF_ERROR(fill(inputs, first, count, values.data()));
    RoundTo(tensor.type, absl::MakeConstSpan(values.data(), count * columns), to);
    to += count * columns * kernels::DTypeBytes(tensor.type);
  }
  for (const DerivedTensor::Input& input : inputs) Release(input.tensor);
  return absl::OkStatus();
}

DerivedTensor::Input WeightSource::Hide(const std::string& name, TensorDigests& digests) {
  const auto tensor = tensors_.find(name);
  VF_CHECK(tensor != tensors_.end(), "a tensor that is there is hidden");
  DerivedTensor::Input input{.tensor = std::move(tensor->second), .digest = std::nullopt};
  tensors_.erase(tensor);
  if (const auto digest = digests.find(name); digest != digests.end()) {
    input.digest = digest->second;
    digests.erase(digest);
  }
  return input;
}

absl::Status WeightSource::Derive(DerivedTensor derived, TensorDigests& digests) {
  TensorView& tensor = derived.tensor;
  const bool is_matrix = tensor.shape.size() >= 2;
  const int64_t elements = tensor.element_count();
  if (!is_matrix || elements <= 0) {
    return InvalidArgument("tensor ", tensor.name, " has the shape ", ShapeToString(tensor.shape),
                           "; it must be a matrix");
  }
  auto range = std::make_unique<AddressRange>(elements * kernels::DTypeBytes(tensor.type));
  if (range->is_empty()) return FileError(tensor.name, "reserve memory for", errno);
  tensor.bytes = range->bytes();
  std::string content = absl::StrCat(derived.recipe, " ", kernels::DTypeName(tensor.type), ShapeToString(tensor.shape));
  bool is_known = true;
  for (const DerivedTensor::Input& input : derived.inputs) {
    is_known = is_known && input.digest.has_value();
    if (is_known)
      absl::StrAppend(&content, "; ", ToHex(*input.digest), " ", kernels::DTypeName(input.tensor.type), " ",
                      input.tensor.other_type, ShapeToString(input.tensor.shape));
  }
  if (is_known) digests[tensor.name] = Sha256(content);
  if (!tensors_.emplace(tensor.name, tensor).second)
    return InvalidArgument("tensor ", tensor.name, " is stored both packed and plain");
  const char* at = tensor.bytes.data();
  derived_.emplace(at, Computed{std::move(derived), std::move(range)});
  return absl::OkStatus();
}

void WeightSource::Add(DerivedTensor::Input stored, TensorDigests& digests) {
  const std::string name = stored.tensor.name;
  if (stored.digest.has_value()) digests[name] = *stored.digest;
  tensors_.insert_or_assign(name, std::move(stored.tensor));
}

void WeightSource::TakeFiles(WeightSource other) {
  for (auto& file : other.files_) files_.push_back(std::move(file));
}

void WeightSource::Release(const TensorView& tensor) const {
  if (const auto computed = derived_.find(tensor.bytes.data()); computed != derived_.end())
    return computed->second.range->Release(tensor.bytes);
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

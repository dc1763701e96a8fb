#include "server/model/tensor_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "server/model/kernel_status.h"
#include "server/model/weight_cache.h"

namespace varifocal {
namespace {

std::string Listed(absl::string_view what, const std::vector<std::string>& names) {
  const auto shown = absl::MakeConstSpan(names).subspan(0, 5);
  return absl::StrCat(what, " ", names.size(), " tensor", names.size() == 1 ? "" : "s", ": ",
                      absl::StrJoin(shown, ", "), names.size() > 5 ? ", .." : "");
}

// What wrappers and multimodal checkpoints put before the names, such as "_orig_mod." or "language_model.".
std::string PrefixHint(const std::vector<std::string>& missing, const std::vector<std::string>& unexpected) {
  for (absl::string_view name : unexpected) {
    if (!absl::ConsumeSuffix(&name, missing.front()) || !absl::EndsWith(name, ".")) continue;
    return absl::StrCat("; they have \"", name, "\" before the expected names, which is not removed");
  }
  return "";
}

// The matrices of every expert.
std::vector<kernels::HostMatrix> PartsOfTurns(const Stack& stack) {
  const auto& [rows, columns, kinds] = *stack.turns;
  const kernels::DType type = stack.tensors[0]->type;
  std::vector<kernels::HostMatrix> parts;
  for (int64_t part = 0; part < stack.expert_count * kinds; ++part) {
    const int64_t first = part / kinds * rows * columns + part % kinds;
    parts.push_back({.dtype = type,
                     .data = stack.tensors[0]->bytes.data() + first * kernels::DTypeBytes(type),
                     .rows = rows / kinds,
                     .columns = columns,
                     .row_stride = kinds,
                     .column_stride = rows});
  }
  return parts;
}

absl::Status CheckFinite(const Stack& stack) {
  for (const TensorView* tensor : stack.tensors) {
    if (const int64_t at = FirstNotFinite(*tensor); at >= 0)
      return InvalidArgument("tensor ", tensor->name, " has a value that is not finite, at element ", at);
  }
  return absl::OkStatus();
}

std::vector<kernels::HostMatrix> PartsOf(const Stack& stack) {
  if (!stack.parts.empty()) return stack.parts;
  if (stack.turns.has_value()) return PartsOfTurns(stack);
  std::vector<kernels::HostMatrix> parts;
  for (const TensorView* tensor : stack.tensors) {
    kernels::HostMatrix part = ToHostMatrix(*tensor);
    if (stack.transposed && tensor->shape.size() == 2) {
      std::swap(part.rows, part.columns);
      part.row_stride = 1;
      part.column_stride = part.rows;
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

const TensorView* TensorLoader::Take(const std::string& name, std::vector<int64_t> shape) {
  taken_.insert(name);
  const auto it = source_.tensors().find(name);
  if (it == source_.tensors().end()) {
    missing_.push_back(name);
    return nullptr;
  }
  const TensorView& tensor = it->second;
  if (tensor.shape != shape) {
    Fail(absl::StrCat("tensor ", name, " has shape ", ShapeToString(tensor.shape), "; the config implies ",
                      ShapeToString(shape)));
    return nullptr;
  }
  if (!tensor.other_type.empty()) {
    Fail(absl::StrCat("tensor ", name, " has dtype \"", tensor.other_type, "\"; F32, F16 and BF16 are supported"));
    return nullptr;
  }
  parameter_count_ += tensor.element_count();
  return &tensor;
}

const TensorView* TensorLoader::TakeNumber(const std::string& name) {
  const auto it = source_.tensors().find(name);
  // Stored without a dimension, or with one.
  const bool is_scalar = it != source_.tensors().end() && it->second.shape.empty();
  return Take(name, is_scalar ? std::vector<int64_t>{} : std::vector<int64_t>{1});
}

const TensorView* TensorLoader::TakeIfPresent(const std::string& name, std::vector<int64_t> shape) {
  return Holds(name) ? Take(name, std::move(shape)) : nullptr;
}

void TensorLoader::Fail(std::string message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(message));
}

absl::Status TensorLoader::Finish() const {
  RETURN_IF_ERROR(status_);
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : source_.tensors()) {
    const auto is_of = [&name = name](const std::string& prefix) { return absl::StartsWith(name, prefix); };
    if (taken_.contains(name) || !source_.IsNeeded(name) ||
        std::any_of(skipped_prefixes_.begin(), skipped_prefixes_.end(), is_of))
      continue;
    unexpected.push_back(name);
  }
  if (!missing_.empty()) {
    std::string message = Listed("missing", missing_);
    if (!unexpected.empty())
      absl::StrAppend(&message, "; the weights have ", Listed("instead", unexpected), PrefixHint(missing_, unexpected));
    return absl::InvalidArgumentError(message);
  }
  if (!unexpected.empty()) return absl::InvalidArgumentError(Listed("not implied by the config:", unexpected));
  return absl::OkStatus();
}

kernels::HostMatrix RowsOf(const TensorView& tensor, int64_t first, int64_t count) {
  kernels::HostMatrix part = ToHostMatrix(tensor);
  const bool is_vector = tensor.shape.size() == 1;
  VF_CHECK(first >= 0 && first + count <= tensor.shape[0], "rows are inside their tensor");
  const size_t row_bytes = kernels::DTypeBytes(tensor.type) * (is_vector ? 1 : part.columns);
  part.data = tensor.bytes.data() + first * row_bytes;
  (is_vector ? part.columns : part.rows) = count;
  return part;
}

absl::StatusOr<bool> HaveSameValues(const WeightSource& source, const TensorDigests& digests, const TensorView& a,
                                    const TensorView& b) {
  const auto of_a = digests.find(a.name), of_b = digests.find(b.name);
  if (a.type == b.type && of_a != digests.end() && of_b != digests.end() && of_a->second == of_b->second) return true;
  RETURN_IF_ERROR(source.Load(a));
  RETURN_IF_ERROR(source.Load(b));
  const kernels::HostMatrix rows_a = ToHostMatrix(a), rows_b = ToHostMatrix(b);
  std::vector<float> values_a(rows_a.columns), values_b(rows_b.columns);
  bool equal = true;
  for (int64_t row = 0; equal && row < rows_a.rows; ++row) {
    kernels::WidenRow(rows_a, row, values_a.data());
    kernels::WidenRow(rows_b, row, values_b.data());
    equal = values_a == values_b;
  }
  source.Release(a);
  source.Release(b);
  return equal;
}

std::optional<Sha256Digest> TensorPacker::ContentOf(const Stack& stack, kernels::WeightUse use) const {
  std::string content = absl::StrCat("use ", static_cast<int>(use));
  if (stack.expert_count > 0) absl::StrAppend(&content, " of ", stack.expert_count, " experts");
  if (stack.turns.has_value()) {
    const auto& [rows, columns, kinds] = *stack.turns;
    const auto digest = digests_.find(stack.tensors[0]->name);
    if (digest == digests_.end()) return std::nullopt;
    absl::StrAppend(&content, ", inputs first ", rows, " x ", columns, " in turns of ", kinds, "; ",
                    ToHex(digest->second), kernels::DTypeName(stack.tensors[0]->type));
    return Sha256(content);
  }
  std::vector<kernels::HostMatrix> parts = PartsOf(stack);
  if (stack.grid.has_value()) {
    parts.clear();
    absl::StrAppend(&content, ", grid ", stack.grid->rows, " x ", stack.grid->columns);
    for (const auto& [from, row, column] : stack.grid->pieces) {
      absl::StrAppend(&content, " ", row, ",", column, from.data == nullptr ? "=" : "");
      if (from.data != nullptr) parts.push_back(from);
    }
  }
  for (const kernels::HostMatrix& part : parts) {
    const char* at = static_cast<const char*>(part.data);
    const auto holds = [&](const TensorView* tensor) {
      return at >= tensor->bytes.data() && at < tensor->bytes.data() + tensor->bytes.size();
    };
    const auto tensor = std::find_if(stack.tensors.begin(), stack.tensors.end(), holds);
    VF_CHECK(tensor != stack.tensors.end(), "a part is in one of its stack's tensors");
    const auto digest = digests_.find((*tensor)->name);
    if (digest == digests_.end()) return std::nullopt;
    absl::StrAppend(&content, "; ", ToHex(digest->second), " at ", at - (*tensor)->bytes.data(), ": ",
                    kernels::DTypeName(part.dtype), " ", part.rows, " x ", part.columns,
                    part.column_stride != 1 ? " transposed" : "");
    if (stack.grid.has_value()) absl::StrAppend(&content, " by ", part.row_stride);
  }
  return Sha256(content);
}

absl::Status TensorPacker::Load(const Stack& stack) const {
  for (const TensorView* tensor : stack.tensors) {
    const auto digest = digests_.find(tensor->name);
    RETURN_IF_ERROR(source_.Load(*tensor, digest == digests_.end() ? nullptr : &digest->second));
  }
  return absl::OkStatus();
}

int64_t TensorPacker::MatrixBytes(const Stack& stack, kernels::WeightUse use) const {
  if (stack.tensors.empty()) return 0;
  if (const auto content = ContentOf(stack, use); content && WeightCache::Get().Find(backend_, *content)) return 0;
  int64_t elements = stack.grid.has_value() ? stack.grid->rows * stack.grid->columns : 0;
  for (const kernels::HostMatrix& part : PartsOf(stack))
    elements += stack.grid.has_value() ? 0 : part.rows * part.columns;
  return elements * kernels::DTypeBytes(backend_.info().dtype);
}

absl::StatusOr<std::shared_ptr<kernels::Weight>> TensorPacker::Matrix(const Stack& stack, kernels::WeightUse use) {
  std::shared_ptr<kernels::Weight> weight;
  if (stack.tensors.empty()) return weight;
  const std::optional<Sha256Digest> content = ContentOf(stack, use);
  RETURN_IF_ERROR(Load(stack));
  if (content) weight = WeightCache::Get().Find(backend_, *content);
  if (weight == nullptr) {
    RETURN_IF_ERROR(CheckFinite(stack));
    std::vector<kernels::HostMatrix> parts = PartsOf(stack);
    std::vector<float> placed;
    if (stack.grid.has_value()) {
      placed = stack.grid->Values();
      parts = {{.dtype = kernels::DType::kF32,
                .data = placed.data(),
                .rows = stack.grid->rows,
                .columns = stack.grid->columns}};
    }
    const int experts = static_cast<int>(stack.expert_count);
    ASSIGN_OR_RETURN(
        std::unique_ptr<kernels::Weight> packed,
        ToStatusOr(experts > 0 ? backend_.CreateExperts(parts, experts, use) : backend_.CreateWeight(parts, use)));
    weight = content ? WeightCache::Get().Put(backend_, *content, std::move(packed)) : std::move(packed);
  }
  for (const TensorView* tensor : stack.tensors) source_.Release(*tensor);
  matrix_bytes_ += weight->bytes();
  return weight;
}

absl::StatusOr<std::unique_ptr<kernels::Buffer>> TensorPacker::Vector(const Stack& stack, float added,
                                                                      const std::vector<float>& factors) {
  if (stack.tensors.empty()) return std::unique_ptr<kernels::Buffer>();
  RETURN_IF_ERROR(Load(stack));
  RETURN_IF_ERROR(CheckFinite(stack));
  std::vector<float> values;
  for (const kernels::HostMatrix& part : PartsOf(stack)) {
    for (int64_t row = 0; row < part.rows; ++row) {
      const size_t at = values.size();
      values.resize(at + part.columns);
      kernels::WidenRow(part, row, values.data() + at);
    }
  }
  for (float& value : values) value += added;
  for (size_t i = 0; !factors.empty() && i < values.size(); ++i) values[i] *= factors[i % factors.size()];
  return ToStatusOr(backend_.CreateVector(
      {.dtype = kernels::DType::kF32, .data = values.data(), .rows = 1, .columns = std::ssize(values)}));
}

absl::StatusOr<float> TensorPacker::Number(const TensorView& tensor) {
  const Stack stack = Stack::Of({&tensor});
  RETURN_IF_ERROR(Load(stack));
  RETURN_IF_ERROR(CheckFinite(stack));
  return kernels::At({.dtype = tensor.type, .data = tensor.bytes.data(), .rows = 1, .columns = 1}, 0, 0);
}

absl::StatusOr<LoadedAttentionTensor> TensorPacker::AttentionVector(const TensorView* view,
                                                                    const AttentionTensor& tensor) {
  LoadedAttentionTensor loaded;
  if (view == nullptr) return loaded;
  ASSIGN_OR_RETURN(loaded.buffer, Vector(Stack::Of({view})));
  const kernels::HostMatrix values = ToHostMatrix(*view);
  loaded.first = kernels::At(values, 0, 0);
  for (int64_t i = 0; tensor.positive && i < values.columns; ++i) {
    const float value = kernels::At(values, 0, i);
    if (value > 0) continue;
    return InvalidArgument("tensor ", view->name, "[", i, "] is ", value, "; it must be above 0");
  }
  return loaded;
}

}  // namespace varifocal

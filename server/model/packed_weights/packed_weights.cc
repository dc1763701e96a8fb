#include "server/model/packed_weights/packed_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

constexpr PackedScheme kSchemes[] = {
    {"fp8", "E4M3 with scales of blocks, rows or the whole", ReadFp8},
    {"fbgemm_fp8", "E4M3 with scales of rows", ReadFbgemmFp8},
    {"gptq", "4 and 8 bits", ReadGptq},
    {"awq", "4 bits, gemm layout", ReadAwq},
    {"compressed-tensors", "packed integers of 4 and 8 bits, I8, E4M3", ReadCompressedTensors},
    {"bitsandbytes", "nf4, fp4 and LLM.int8", ReadBitsAndBytes},
    {"mxfp4", "experts of GPT-OSS", ReadMxfp4},
};

bool IsOneOf(absl::string_view type, absl::Span<const absl::string_view> types) {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

struct NamedType {
  absl::string_view name;
  kernels::DType type;
};
constexpr NamedType kValueTypes[] = {
    {"bfloat16", kernels::DType::kBF16}, {"float16", kernels::DType::kF16}, {"float32", kernels::DType::kF32}};

// The format that values are rounded to. Programs that run such a file round to it too.
absl::StatusOr<kernels::DType> ReadValueType(ConfigReader& reader) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!reader.Has(key)) continue;
    ASSIGN_OR_RETURN(const std::string text, reader.String(key));
    for (const NamedType& row : kValueTypes) {
      if (absl::StripPrefix(text, "torch.") == row.name) return row.type;
    }
    return Unimplemented(
        reader.Name(key), " is \"", text, "\"; packed weights are read to ",
        absl::StrJoin(kValueTypes, ", ", [](std::string* out, const NamedType& row) { out->append(row.name.data()); }));
  }
  return kernels::DType::kF32;
}

std::string Methods() {
  return absl::StrJoin(kSchemes, ", ", [](std::string* out, const PackedScheme& row) { out->append(row.method); });
}

absl::StatusOr<std::string> ReadMethod(ConfigReader& reader, const std::string& name) {
  if (reader.Has("quant_method")) return reader.String("quant_method");
  // Older files of bitsandbytes do not name it.
  if (reader.Has("load_in_4bit") || reader.Has("load_in_8bit")) return std::string("bitsandbytes");
  return Unimplemented(name, " has no \"quant_method\"; packed weights are read from ", Methods());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PackedWeights>> ReadPackedWeights(ConfigReader& reader) {
  constexpr absl::string_view kKey = "quantization_config";
  const Json* object = reader.Take(kKey);
  if (object == nullptr) return nullptr;
  if (!object->is_object())
    return InvalidArgument(reader.Name(kKey), " is ", ShownValue(*object), "; it must be an object");
  ASSIGN_OR_RETURN(const kernels::DType type, ReadValueType(reader));
  ConfigReader settings(*object, reader.Place(kKey));
  ASSIGN_OR_RETURN(const std::string method, ReadMethod(settings, reader.Name(kKey)));
  for (const PackedScheme& scheme : kSchemes) {
    if (method != scheme.method) continue;
    ASSIGN_OR_RETURN(PackedWeights packed, scheme.read(settings, type));
    RETURN_IF_ERROR(settings.RefuseUnread());
    packed.identity["scheme"] = scheme.method;
    if (packed.values.empty()) packed.values = kernels::DTypeName(type);
    packed.identity["values"] = packed.values;
    absl::StrAppend(&packed.label, ", read to ", packed.values);
    return std::make_shared<const PackedWeights>(std::move(packed));
  }
  return Unimplemented(settings.Name("quant_method"), " is \"", method, "\"; packed weights are read from ", Methods());
}

std::vector<std::string> Unpacking::NamesBefore(absl::string_view suffix,
                                                absl::Span<const absl::string_view> types) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : source_.tensors()) {
    absl::string_view start = name;
    if (absl::ConsumeSuffix(&start, suffix) && IsOneOf(TypeNameOf(tensor), types)) names.emplace_back(start);
  }
  return names;
}

const TensorView* Unpacking::Find(const std::string& name) const {
  const auto found = source_.tensors().find(name);
  return found == source_.tensors().end() ? nullptr : &found->second;
}

absl::StatusOr<const TensorView*> Unpacking::Need(const std::string& name, absl::string_view owner,
                                                  absl::Span<const absl::string_view> types) const {
  const TensorView* tensor = Find(name);
  if (tensor == nullptr) return InvalidArgument("tensor ", name, " is missing; ", owner, " is packed with it");
  if (IsOneOf(TypeNameOf(*tensor), types)) return tensor;
  return InvalidArgument("tensor ", name, " has dtype \"", TypeNameOf(*tensor), "\"; its scheme implies ",
                         absl::StrJoin(types, " or "));
}

absl::Status Unpacking::Replace(DerivedTensor derived, const std::vector<std::string>& inputs) {
  for (const std::string& name : inputs) derived.inputs.push_back(source_.Hide(name, digests_));
  return source_.Derive(std::move(derived), digests_);
}

int64_t Unpacking::Drop(absl::Span<const absl::string_view> suffixes) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : source_.tensors()) {
    const auto is_end = [&name = name](absl::string_view suffix) { return absl::EndsWith(name, suffix); };
    if (std::any_of(suffixes.begin(), suffixes.end(), is_end)) names.push_back(name);
  }
  for (const std::string& name : names) source_.Hide(name, digests_);
  return std::ssize(names);
}

void Unpacking::DropIfPresent(const std::string& name) {
  if (Find(name) != nullptr) source_.Hide(name, digests_);
}

absl::Status Unpacking::AllowZeros(const std::string& name) {
  const TensorView* tensor = Find(name);
  if (tensor == nullptr || !tensor->other_type.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Load(*tensor));
  std::vector<float> values(tensor->element_count());
  Widen(*tensor, 0, std::ssize(values), values.data());
  source_.Release(*tensor);
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0; })) source_.MayBeUnused(name);
  return absl::OkStatus();
}

absl::Status ShapeError(const TensorView& tensor, const std::string& expected) {
  return InvalidArgument("tensor ", tensor.name, " has shape ", ShapeToString(tensor.shape), "; its scheme implies ",
                         expected);
}

}  // namespace varifocal

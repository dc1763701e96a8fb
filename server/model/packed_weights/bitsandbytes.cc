// bitsandbytes: 4 bits (nf4, fp4) with a largest magnitude for each block of elements, and LLM.int8.
//
//   weight                U8, two elements a byte, the first in the high bits; any type may stand for the bytes
//   weight.quant_map      F32 [16]: the value of each code
//   weight.absmax         F32: one for each block; or, quantized twice, U8 codes of nested_quant_map (F32 [256]), times
//                         nested_absmax (F32: one for each nested block), plus nested_offset
//   weight.quant_state.bitsandbytes__nf4    JSON: shape, sizes of blocks, offset, and the number format of the values
//   weight I8 [N, K] with SCB F32 [N]       w = weight * SCB / 127
//
// Source: bitsandbytes 0.49, functional.py (QuantState, dequantize_4bit, dequantize_blockwise, int8_vectorwise_dequant).
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

struct FourBits {
  int64_t block = 0;
  int64_t nested_block = 0;  // 0: largest magnitudes are stored as they are
  float offset = 0;
};

// Inputs in this order: weight, quant_map, absmax, then nested_quant_map and nested_absmax.
absl::Status FillFourBits(const FourBits& four, const std::vector<DerivedTensor::Input>& inputs, int64_t first,
                          int64_t count, float* rows) {
  float code[16], nested[256];
  Widen(inputs[1].tensor, 0, 16, code);
  if (four.nested_block > 0) Widen(inputs[3].tensor, 0, 256, nested);
  const TensorView &weight = inputs[0].tensor, &largest = inputs[2].tensor;
  const auto largest_of = [&](int64_t block) {
    float value;
    Widen(largest, block, 1, &value);
    if (four.nested_block == 0) return value;
    float scale;
    Widen(inputs[4].tensor, block / four.nested_block, 1, &scale);
    const float product = nested[static_cast<int>(value)] * scale;
    return product + four.offset;
  };
  for (int64_t i = first; i < first + count;) {
    const int64_t block = i / four.block, end = std::min(first + count, (block + 1) * four.block);
    const float factor = largest_of(block);
    for (; i < end; ++i) {
      const uint8_t byte = weight.bytes[i / 2];
      *rows++ = code[i % 2 == 0 ? byte >> 4 : byte & 15] * factor;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::DType> FourBitTypeOf(const std::string& name, const std::string& tensor) {
  if (name == "bfloat16") return kernels::DType::kBF16;
  if (name == "float16") return kernels::DType::kF16;
  if (name == "float32") return kernels::DType::kF32;
  return Unimplemented("tensor ", tensor, ": \"dtype\" is \"", name, "\"; bfloat16, float16 and float32 are read");
}

absl::Status CheckCount(const TensorView& tensor, int64_t count) {
  if (tensor.element_count() == count) return absl::OkStatus();
  return ShapeError(tensor, absl::StrCat(count, " elements"));
}

absl::Status UnpackFourBits(Unpacking& tensors, const std::string& owner, const std::string& kind) {
  const std::string state_name = absl::StrCat(owner, ".quant_state.bitsandbytes__", kind);
  ASSIGN_OR_RETURN(const TensorView* state, tensors.Need(state_name, owner, {"U8"}));
  RETURN_IF_ERROR(tensors.Load(*state));
  ASSIGN_OR_RETURN(Json json, Annotate(ParseJson(state->bytes), absl::StrCat("tensor ", state_name)));
  if (!json.is_object()) return InvalidArgument("tensor ", state_name, " is ", json.type_name(), ", not an object");
  ConfigReader reader(json, state_name);
  FourBits four;
  ASSIGN_OR_RETURN(four.block, reader.Int("blocksize", {1, 1 << 20}));
  RETURN_IF_ERROR(reader.RequireValue("quant_type", kind));
  ASSIGN_OR_RETURN(const std::string type_name, reader.String("dtype"));
  DerivedTensor matrix;
  ASSIGN_OR_RETURN(matrix.tensor.type, FourBitTypeOf(type_name, state_name));
  const Json* shape = reader.Take("shape");
  if (shape == nullptr || !shape->is_array() || shape->size() < 2 || shape->size() > 3)
    return InvalidArgument(reader.Name("shape"), " must be the shape of a matrix");
  for (const Json& side : *shape) {
    if (!side.is_number_integer() || side.get<int64_t>() < 1 || side.get<int64_t>() > 1 << 24)
      return InvalidArgument(reader.Name("shape"), " is ", ShownValue(*shape));
    matrix.tensor.shape.push_back(side.get<int64_t>());
  }
  matrix.tensor.name = owner;
  const int64_t elements = matrix.tensor.element_count(), blocks = (elements + four.block - 1) / four.block;
  std::vector<std::string> inputs = {owner, absl::StrCat(owner, ".quant_map"), absl::StrCat(owner, ".absmax")};
  const bool is_nested = reader.Has("nested_blocksize");
  if (is_nested) {
    ASSIGN_OR_RETURN(four.nested_block, reader.Int("nested_blocksize", {1, 1 << 20}));
    const Json* offset = reader.Take("nested_offset");
    if (offset == nullptr || !offset->is_number())
      return InvalidArgument(reader.Name("nested_offset"), " must be a number");
    four.offset = static_cast<float>(offset->get<double>());
    inputs.insert(inputs.end(), {absl::StrCat(owner, ".nested_quant_map"), absl::StrCat(owner, ".nested_absmax")});
  }
  RETURN_IF_ERROR(reader.RequireValue("nested_dtype", "float32"));
  RETURN_IF_ERROR(reader.RefuseUnread());
  const TensorView& weight = *tensors.Find(owner);
  if (std::ssize(weight.bytes) != (elements + 1) / 2) {
    return InvalidArgument("tensor ", owner, " has ", weight.bytes.size(), " bytes; ", state_name, " implies ",
                           (elements + 1) / 2);
  }
  ASSIGN_OR_RETURN(const TensorView* code, tensors.Need(inputs[1], owner, {"F32"}));
  RETURN_IF_ERROR(CheckCount(*code, 16));
  ASSIGN_OR_RETURN(const TensorView* largest, tensors.Need(inputs[2], owner, {is_nested ? "U8" : "F32"}));
  RETURN_IF_ERROR(CheckCount(*largest, blocks));
  if (is_nested) {
    ASSIGN_OR_RETURN(const TensorView* nested, tensors.Need(inputs[3], owner, {"F32"}));
    RETURN_IF_ERROR(CheckCount(*nested, 256));
    ASSIGN_OR_RETURN(const TensorView* scales, tensors.Need(inputs[4], owner, {"F32"}));
    RETURN_IF_ERROR(CheckCount(*scales, (blocks + four.nested_block - 1) / four.nested_block));
  }
  matrix.recipe = absl::StrCat("bitsandbytes 4 bit ", four.block, " ", four.nested_block, " ", four.offset);
  const int64_t columns = matrix.tensor.shape.back();
  matrix.fill = [four, columns](const auto& stored, int64_t first, int64_t count, float* rows) {
    return FillFourBits(four, stored, first * columns, count * columns, rows);
  };
  RETURN_IF_ERROR(tensors.Replace(std::move(matrix), inputs));
  tensors.DropIfPresent(state_name);
  return absl::OkStatus();
}

absl::Status UnpackInt8(Unpacking& tensors, const std::string& module) {
  const std::string owner = absl::StrCat(module, ".weight"), scale_name = absl::StrCat(module, ".SCB");
  const std::string format_name = absl::StrCat(owner, "_format");
  ASSIGN_OR_RETURN(const TensorView* weight, tensors.Need(owner, owner, {"I8"}));
  ASSIGN_OR_RETURN(const TensorView* scale, tensors.Need(scale_name, owner, {"F32"}));
  if (weight->shape.size() != 2) return ShapeError(*weight, "a matrix");
  RETURN_IF_ERROR(CheckCount(*scale, weight->shape[0]));
  // Rows as they are; older files may have an order of a device's kernels.
  if (const TensorView* format = tensors.Find(format_name); format != nullptr) {
    ASSIGN_OR_RETURN(format, tensors.Need(format_name, owner, {"U8"}));
    RETURN_IF_ERROR(CheckCount(*format, 1));
    RETURN_IF_ERROR(tensors.Load(*format));
    if (const int order = static_cast<uint8_t>(format->bytes[0]); order != 0)
      return Unimplemented("tensor ", format_name, " is ", order, "; 0, rows, is read");
  }
  DerivedTensor matrix;
  matrix.tensor.name = owner;
  matrix.tensor.type = kernels::DType::kF32;  // as bitsandbytes gives them: nothing else rounds them either
  matrix.tensor.shape = weight->shape;
  matrix.recipe = "bitsandbytes int8";
  matrix.fill = [](const auto& inputs, int64_t first, int64_t count, float* rows) {
    const int64_t columns = inputs[0].tensor.shape.back();
    Widen(inputs[0].tensor, first * columns, count * columns, rows);
    for (int64_t i = 0; i < count; ++i) {
      float scale;
      Widen(inputs[1].tensor, first + i, 1, &scale);
      constexpr float kOneOf127 = 7.874015718698502e-3;
      for (int64_t k = 0; k < columns; ++k) *rows = *rows * scale * kOneOf127, ++rows;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(tensors.Replace(std::move(matrix), {owner, scale_name}));
  tensors.DropIfPresent(format_name);
  return absl::OkStatus();
}

absl::Status UnpackBitsAndBytes(Unpacking& tensors) {
  for (const std::string kind : {"nf4", "fp4"}) {
    for (const std::string& owner : tensors.NamesBefore(absl::StrCat(".quant_state.bitsandbytes__", kind))) {
      if (tensors.Find(owner) == nullptr) return InvalidArgument("tensor ", owner, " is missing; it has a quant_state");
      RETURN_IF_ERROR(UnpackFourBits(tensors, owner, kind));
    }
  }
  for (const std::string& module : tensors.NamesBefore(".SCB")) RETURN_IF_ERROR(UnpackInt8(tensors, module));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackedWeights> ReadBitsAndBytes(ConfigReader& reader, kernels::DType) {
  bool is_int8 = false, is_four_bits = false;
  for (const char* key : {"load_in_8bit", "_load_in_8bit"}) {
    ASSIGN_OR_RETURN(const bool given, reader.Bool(key, false));
    is_int8 |= given;
  }
  for (const char* key : {"load_in_4bit", "_load_in_4bit"}) {
    ASSIGN_OR_RETURN(const bool given, reader.Bool(key, false));
    is_four_bits |= given;
  }
  if (is_int8 == is_four_bits) {
    return InvalidArgument("exactly one of ", reader.Name("load_in_4bit"), " and ", reader.Name("load_in_8bit"),
                           " must be true");
  }
  ASSIGN_OR_RETURN(const std::string kind, reader.String("bnb_4bit_quant_type", "fp4"));
  if (kind != "nf4" && kind != "fp4")
    return Unimplemented(reader.Name("bnb_4bit_quant_type"), " is \"", kind, "\"; nf4 and fp4 are read");
  // Blocks, codes and number formats stand beside each matrix.
  reader.Ignore({"bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage",
                 "llm_int8_skip_modules", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight",
                 "llm_int8_threshold"});
  PackedWeights packed;
  packed.label = is_int8 ? "bitsandbytes LLM.int8" : absl::StrCat("bitsandbytes ", kind);
  packed.values = is_int8 ? kernels::DTypeName(kernels::DType::kF32) : "the format that each matrix states";
  if (is_int8)
    packed.notes = {absl::StrCat("the file's activations are quantized to 8 bits at run time; ", kWeightsAlone)};
  packed.unpack = UnpackBitsAndBytes;
  return packed;
}

}  // namespace varifocal

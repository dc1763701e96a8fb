// E4M3 weights with scales (DeepSeek, Qwen3-FP8, Ministral 3; vLLM's and FBGEMM's files): w = weight * scale. The scale is
// `weight_scale_inv`, which multiplies despite its name, or `weight_scale`.
//
// Source: transformers 5.24, integrations/finegrained_fp8.py and fbgemm_fp8.py.
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/scaled_matrix.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

using Block = std::optional<std::pair<int64_t, int64_t>>;

absl::Status UnpackFp8(Unpacking& tensors, Block block, kernels::DType type) {
  for (const std::string& name : tensors.NamesBefore("", {"F8_E4M3"})) {
    const TensorView& weight = *tensors.Find(name);
    if (weight.shape.size() < 2) continue;
    std::string scale_name = absl::StrCat(name, "_scale_inv");
    if (tensors.Find(scale_name) == nullptr) scale_name = absl::StrCat(name, "_scale");
    if (tensors.Find(scale_name) == nullptr) {
      return InvalidArgument("tensor ", name, " is of F8_E4M3 and has no scale, ", name, "_scale_inv or ", name,
                             "_scale");
    }
    ASSIGN_OR_RETURN(const TensorView* scale, tensors.Need(scale_name, name, {"F32", "BF16", "F16", "F8_E8M0"}));
    ASSIGN_OR_RETURN(const ScaleLayout layout, LayoutOf(*scale, weight.shape, block));
    DerivedTensor matrix;
    matrix.tensor.name = name;
    matrix.tensor.type = type;
    matrix.tensor.shape = weight.shape;
    matrix.recipe = absl::StrCat("fp8 blocks ", layout.block_rows, " ", layout.block_columns);
    matrix.fill = [layout](const auto& inputs, int64_t first, int64_t count, float* rows) {
      const int64_t columns = inputs[0].tensor.shape.back();
      Widen(inputs[0].tensor, first * columns, count * columns, rows);
      for (int64_t i = 0; i < count; ++i) ScaleRow(inputs[1].tensor, layout, first + i, columns, rows + i * columns);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(tensors.Replace(std::move(matrix), {name, scale_name}));
  }
  tensors.Drop(
      {".input_scale", ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale", ".q_scale", ".prob_scale"});
  return absl::OkStatus();
}

absl::StatusOr<Block> ReadBlock(ConfigReader& reader) {
  if (!reader.IsPresent("weight_block_size")) return Block({128, 128});
  const Json* size = reader.Take("weight_block_size");
  if (size == nullptr) return Block();
  const auto is_side = [](const Json& side) {
    return side.is_number_integer() && side.get<int64_t>() >= 1 && side.get<int64_t>() <= 1 << 20;
  };
  if (!size->is_array() || size->size() != 2 || !is_side((*size)[0]) || !is_side((*size)[1])) {
    return InvalidArgument(reader.Name("weight_block_size"), " is ", ShownValue(*size),
                           "; it must be two integers from 1 to ", 1 << 20);
  }
  return Block({(*size)[0].get<int64_t>(), (*size)[1].get<int64_t>()});
}

}  // namespace

absl::StatusOr<PackedWeights> ReadFp8(ConfigReader& reader, kernels::DType type) {
  ASSIGN_OR_RETURN(const Block block, ReadBlock(reader));
  RETURN_IF_ERROR(reader.RequireValue("fmt", "e4m3"));
  RETURN_IF_ERROR(reader.RequireValue("expert_dtype", "fp8"));
  ASSIGN_OR_RETURN(const std::string activations, reader.String("activation_scheme", "dynamic"));
  reader.Ignore({"modules_to_not_convert", "modules_to_convert", "ignored_layers", "dequantize", "scale_fmt"});
  PackedWeights packed;
  packed.label =
      absl::StrCat("FP8", block.has_value() ? absl::StrCat(" in blocks of ", block->first, " x ", block->second) : "");
  if (block.has_value()) packed.identity["block"] = {block->first, block->second};
  packed.notes = {absl::StrCat("the file's activations are quantized to FP8 (", activations, "); ", kWeightsAlone)};
  packed.unpack = [=](Unpacking& tensors) { return UnpackFp8(tensors, block, type); };
  return packed;
}

absl::StatusOr<PackedWeights> ReadFbgemmFp8(ConfigReader& reader, kernels::DType type) {
  reader.Ignore({"modules_to_not_convert", "activation_scale_ub"});
  PackedWeights packed;
  packed.label = "FP8";
  packed.notes = {absl::StrCat("the file's activations are quantized to FP8; ", kWeightsAlone)};
  packed.unpack = [=](Unpacking& tensors) { return UnpackFp8(tensors, std::nullopt, type); };
  return packed;
}

}  // namespace varifocal

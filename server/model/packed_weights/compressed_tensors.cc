// compressed-tensors (llm-compressor): what a module is stored as is seen from its tensors.
//
//   pack-quantized   weight_packed I32 [N, K / f], f = 32 / bits: field i of word c (from the low end) is input f c + i,
//                    stored plus 2^(bits - 1); weight_zero_point I32 [N / f, G], packed along outputs, stored likewise
//   int-quantized    weight I8 [N, K], weight_zero_point I8
//   float-quantized  weight F8_E4M3 [N, K]
//   weight_scale     one number, [N, 1], [N, G] or of blocks; weight_g_idx [K]: the group of each input
//
// w = scale * (q - zero). Zero points are stored where weights are not symmetric.
//
// Source: compressed-tensors 0.15, compressors/pack_quantized and naive_quantized, quantization/lifecycle/forward.py.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/scaled_matrix.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

using Block = std::optional<std::pair<int64_t, int64_t>>;

// The weights of a group of modules.
struct WeightArgs {
  int64_t bits = 8;
  bool is_float = false;
  bool is_symmetric = true;
  Block block;

  std::string ToString() const {
    return absl::StrCat(is_float ? "FP" : "INT", bits, is_symmetric ? "" : " with zero points",
                        block.has_value() ? absl::StrCat(" in blocks of ", block->first, " x ", block->second) : "");
  }
};

constexpr absl::string_view kCompressedFormats[] = {"pack-quantized", "int-quantized", "float-quantized",
                                                    "naive-quantized", "mixed-precision"};

// A module's tensors, resolved.
struct CompressedModule {
  WeightArgs args;
  bool is_packed = false;
  int64_t rows = 0, columns = 0;
  ScaleLayout layout;
  bool has_zero = false, has_packed_zero = false, has_order = false;
};

// Inputs in this order: weight, scale, then zero points and groups of inputs where there are any.
absl::Status FillCompressed(const CompressedModule& module, const std::vector<DerivedTensor::Input>& inputs,
                            int64_t first, int64_t count, float* rows) {
  const TensorView &weight = inputs[0].tensor, &scale = inputs[1].tensor;
  const int64_t columns = module.columns, groups = module.layout.scale_columns;
  const int64_t fields = 32 / module.args.bits, half = 1 << (module.args.bits - 1);
  const uint32_t mask = (1u << module.args.bits) - 1;
  const int64_t words = (columns + fields - 1) / fields;
  std::vector<float> scales(groups), zeros(groups);
  for (int64_t row = first; row < first + count; ++row, rows += columns) {
    if (module.is_packed) {
      for (int64_t k = 0, at = row * words; k < columns; ++at) {
        uint32_t word = WordOf(weight, at);
        for (const int64_t end = std::min(columns, k + fields); k < end; word >>= module.args.bits)
          rows[k++] = static_cast<int64_t>(word & mask) - half;
      }
    } else {
      Widen(weight, row * columns, columns, rows);
    }
    const int64_t scale_row = module.layout.RowOf(row);
    Widen(scale, scale_row * groups, groups, scales.data());
    if (module.has_packed_zero) {
      for (int64_t g = 0; g < groups; ++g) {
        const uint32_t word = WordOf(inputs[2].tensor, scale_row / fields * groups + g);
        zeros[g] = static_cast<int64_t>(word >> (module.args.bits * (scale_row % fields)) & mask) - half;
      }
    } else if (module.has_zero) {
      Widen(inputs[2].tensor, scale_row * groups, groups, zeros.data());
    }
    for (int64_t g = 0; !module.has_order && g < groups; ++g) {
      const int64_t begin = g * module.layout.block_columns;
      const int64_t end = std::min(columns, begin + module.layout.block_columns);
      for (int64_t k = begin; k < end; ++k) rows[k] = (rows[k] - zeros[g]) * scales[g];
    }
    for (int64_t k = 0; module.has_order && k < columns; ++k) {
      const int64_t g = IntegerOf(inputs.back().tensor, k);
      if (g < 0 || g >= groups) {
        return InvalidArgument("tensor ", inputs.back().tensor.name, "[", k, "] is ", g, "; it must lie in 0..",
                               groups - 1);
      }
      rows[k] = (rows[k] - zeros[g]) * scales[g];
    }
  }
  return absl::OkStatus();
}

// The group whose weights are stored as `module` is; several may differ in what their tensors show.
absl::StatusOr<WeightArgs> ArgsOf(const std::vector<WeightArgs>& all, const std::string& name, bool is_packed,
                                  bool is_float, const TensorView& weight, int64_t columns, bool has_zero) {
  for (const WeightArgs& args : all) {
    const bool same_width = !is_packed || weight.shape[1] == (columns + 32 / args.bits - 1) / (32 / args.bits);
    if (args.is_float == is_float && (args.is_symmetric || has_zero) && same_width) return args;
  }
  return InvalidArgument(
      "tensor ", weight.name, " has dtype \"", TypeNameOf(weight), "\" and shape ", ShapeToString(weight.shape),
      has_zero ? " and zero points" : "", "; \"config_groups\" have ",
      absl::StrJoin(all, " and ", [](std::string* out, const WeightArgs& args) { out->append(args.ToString()); }),
      ", none of which ", name, " is stored as");
}

absl::Status UnpackCompressed(Unpacking& tensors, const std::string& name, bool is_packed,
                              const std::vector<WeightArgs>& all, kernels::DType type) {
  const std::string owner = absl::StrCat(name, ".weight");
  std::vector<std::string> inputs = {absl::StrCat(owner, is_packed ? "_packed" : ""), absl::StrCat(owner, "_scale")};
  const TensorView& weight = *tensors.Find(inputs[0]);
  if (weight.shape.size() != 2) return ShapeError(weight, "a matrix");
  CompressedModule module;
  module.is_packed = is_packed;
  module.rows = weight.shape[0];
  module.columns = weight.shape[1];
  if (is_packed) {
    ASSIGN_OR_RETURN(const TensorView* shape, tensors.Need(absl::StrCat(owner, "_shape"), owner, {"I32", "I64"}));
    if (shape->shape != std::vector<int64_t>{2}) return ShapeError(*shape, "[2]");
    RETURN_IF_ERROR(tensors.Load(*shape));
    module.columns = IntegerOf(*shape, 1);
    if (IntegerOf(*shape, 0) != module.rows || module.columns < 1)
      return ShapeError(weight, absl::StrCat("[", IntegerOf(*shape, 0), ", ..] by ", shape->name));
  }
  const TensorView* zero = tensors.Find(absl::StrCat(owner, "_zero_point"));
  ASSIGN_OR_RETURN(module.args, ArgsOf(all, name, is_packed, weight.other_type == "F8_E4M3", weight, module.columns,
                                       zero != nullptr));
  ASSIGN_OR_RETURN(const TensorView* scale, tensors.Need(inputs[1], owner, {"F32", "BF16", "F16"}));
  ASSIGN_OR_RETURN(module.layout, LayoutOf(*scale, {module.rows, module.columns}, module.args.block));
  const int64_t scale_rows = module.layout.scale_rows, groups = module.layout.scale_columns;
  if (zero != nullptr) {
    ASSIGN_OR_RETURN(zero, tensors.Need(zero->name, owner, {"I32", "I8", "F8_E4M3"}));
    module.has_zero = true;
    module.has_packed_zero = zero->other_type == "I32";
    const int64_t fields = 32 / module.args.bits;
    const int64_t rows = module.has_packed_zero ? (scale_rows + fields - 1) / fields : scale_rows;
    if (zero->shape != std::vector<int64_t>{rows, groups} && zero->element_count() != rows * groups)
      return ShapeError(*zero, ShapeToString({rows, groups}));
    inputs.push_back(zero->name);
  }
  if (const TensorView* order = tensors.Find(absl::StrCat(owner, "_g_idx")); order != nullptr) {
    ASSIGN_OR_RETURN(order, tensors.Need(order->name, owner, {"I32", "I64"}));
    if (order->shape != std::vector<int64_t>{module.columns})
      return ShapeError(*order, ShapeToString({module.columns}));
    module.has_order = true;
    inputs.push_back(order->name);
  }
  DerivedTensor matrix;
  matrix.tensor.name = owner;
  matrix.tensor.type = type;
  matrix.tensor.shape = {module.rows, module.columns};
  matrix.recipe = absl::StrCat("compressed-tensors ", module.args.ToString());
  matrix.fill = [module](const auto& stored, int64_t first, int64_t count, float* rows) {
    return FillCompressed(module, stored, first, count, rows);
  };
  RETURN_IF_ERROR(tensors.Replace(std::move(matrix), inputs));
  tensors.DropIfPresent(absl::StrCat(owner, "_shape"));
  return absl::OkStatus();
}

absl::Status UnpackAllCompressed(Unpacking& tensors, const std::vector<WeightArgs>& all, kernels::DType type) {
  for (const std::string& name : tensors.NamesBefore(".weight_packed", {"I32"}))
    RETURN_IF_ERROR(UnpackCompressed(tensors, name, true, all, type));
  for (const std::string& name : tensors.NamesBefore(".weight", {"I8", "F8_E4M3"}))
    RETURN_IF_ERROR(UnpackCompressed(tensors, name, false, all, type));
  tensors.Drop({".input_scale", ".input_zero_point", ".output_scale", ".output_zero_point", ".k_scale", ".v_scale",
                ".q_scale", ".k_zero_point", ".v_zero_point", ".q_zero_point"});
  return absl::OkStatus();
}

absl::StatusOr<Block> ReadBlockStructure(ConfigReader& weights) {
  const Json* value = weights.Take("block_structure");
  if (value == nullptr) return Block();
  const auto is_side = [](const Json& side) { return side.is_number_integer() && side.get<int64_t>() >= 1; };
  if (!value->is_array() || value->size() != 2 || !is_side((*value)[0]) || !is_side((*value)[1])) {
    return InvalidArgument(weights.Name("block_structure"), " is ", ShownValue(*value),
                           "; it must be two integers of at least 1");
  }
  return Block({(*value)[0].get<int64_t>(), (*value)[1].get<int64_t>()});
}

absl::StatusOr<WeightArgs> ReadWeightArgs(const Json& json, const std::string& place) {
  ConfigReader weights(json, place);
  WeightArgs args;
  ASSIGN_OR_RETURN(args.bits, weights.Int("num_bits", {1, 64}, 8));
  ASSIGN_OR_RETURN(const std::string type, weights.String("type", "int"));
  args.is_float = type == "float";
  if ((type != "int" && type != "float") || (args.bits != 8 && (args.bits != 4 || args.is_float))) {
    return Unimplemented(weights.Name("num_bits"), " is ", args.bits, " of type \"", type,
                         "\"; integers of 4 and 8 bits and floats of 8 are read");
  }
  ASSIGN_OR_RETURN(args.is_symmetric, weights.Bool("symmetric", true));
  ASSIGN_OR_RETURN(const std::string strategy, weights.String("strategy", "tensor"));
  if (strategy != "tensor" && strategy != "channel" && strategy != "group" && strategy != "block")
    return Unimplemented(weights.Name("strategy"), " is \"", strategy, "\"; tensor, channel, group and block are read");
  ASSIGN_OR_RETURN(args.block, ReadBlockStructure(weights));
  RETURN_IF_ERROR(weights.RequireValue("dynamic", false));
  // Scales and groups of inputs are seen from the tensors.
  weights.Ignore({"group_size", "actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  RETURN_IF_ERROR(weights.RefuseUnread());
  return args;
}

absl::Status CheckCompressedFormat(ConfigReader& reader) {
  ASSIGN_OR_RETURN(const std::string format, reader.String("format", "pack-quantized"));
  if (std::find(std::begin(kCompressedFormats), std::end(kCompressedFormats), format) != std::end(kCompressedFormats))
    return absl::OkStatus();
  return Unimplemented(reader.Name("format"), " is \"", format, "\"; read are ",
                       absl::StrJoin(kCompressedFormats, ", "));
}

}  // namespace

absl::StatusOr<PackedWeights> ReadCompressedTensors(ConfigReader& reader, kernels::DType type) {
  RETURN_IF_ERROR(CheckCompressedFormat(reader));
  const Json* groups = reader.Take("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return InvalidArgument(reader.Name("config_groups"), " is ", groups == nullptr ? "missing" : ShownValue(*groups),
                           "; it must be an object with a group");
  }
  std::vector<WeightArgs> all;
  bool has_activations = false;
  for (const auto& [name, json] : groups->items()) {
    const std::string place = absl::StrCat(reader.Place("config_groups"), ".", name);
    if (!json.is_object()) return InvalidArgument("\"", place, "\" is ", ShownValue(json), "; it must be an object");
    ConfigReader group(json, place);
    RETURN_IF_ERROR(CheckCompressedFormat(group));
    group.Ignore({"targets"});
    for (const char* key : {"input_activations", "output_activations"}) has_activations |= group.Take(key) != nullptr;
    const Json* weights = group.Take("weights");
    if (weights == nullptr || !weights->is_object())
      return Unimplemented(group.Name("weights"), " is missing; groups of activations alone are not supported");
    ASSIGN_OR_RETURN(const WeightArgs args, ReadWeightArgs(*weights, group.Place("weights")));
    all.push_back(args);
    RETURN_IF_ERROR(group.RefuseUnread());
  }
  const bool has_cache = reader.Take("kv_cache_scheme") != nullptr;
  for (const char* key : {"sparsity_config", "transform_config"}) {
    const Json* value = reader.Take(key);
    if (value == nullptr || value->empty()) continue;
    return Unimplemented(reader.Name(key), " is ", ShownValue(*value), "; it must be empty");
  }
  reader.Ignore({"ignore", "global_compression_ratio", "version", "run_compressed", "quantization_status", "dequantize",
                 "use_optimized_inference"});

  PackedWeights packed;
  std::vector<std::string> words;
  packed.identity["groups"] = Json::array();
  for (const WeightArgs& args : all) {
    const std::string text = args.ToString();
    packed.identity["groups"].push_back(text);
    if (std::find(words.begin(), words.end(), text) == words.end()) words.push_back(text);
  }
  packed.label = absl::StrCat("compressed-tensors ", absl::StrJoin(words, " and "));
  if (has_activations || has_cache) {
    packed.notes = {absl::StrCat("the file's ", has_activations ? "activations" : "",
                                 has_activations && has_cache ? " and " : "", has_cache ? "keys and values" : "",
                                 " are quantized; ", kWeightsAlone)};
  }
  packed.unpack = [=](Unpacking& tensors) { return UnpackAllCompressed(tensors, all, type); };
  return packed;
}

}  // namespace varifocal

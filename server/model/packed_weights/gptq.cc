// GPTQ: integers of 4 or 8 bits packed along inputs, zero points along outputs.
//
//   qweight I32 [K / f, N], f = 32 / bits: field i of word r (from the low end) is input f r + i
//   qzeros  I32 [G, N / f]; the older format stores them minus one
//   scales  [G, N]; g_idx I32 [K]: the group of each input, where they were quantized in another order
//
// The older format's offset is added to whole words, with carries between fields, as its writers subtract it: a zero point
// of 0 is stored as all ones and borrows from its neighbour.
//
// Source: GPTQModel 7, nn_modules/qlinear and utils/model.py (convert_gptq_v1_to_v2_format_module).
#include <utility>

#include "base/status_macros.h"
#include "server/model/packed_weights/column_groups.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

struct GptqSettings {
  int64_t bits = 0;
  int64_t group_size = 0;  // -1: all inputs
  bool is_ordered = false;
  bool is_older = true;
  bool has_own_bits = false;  // some modules have other settings
  kernels::DType type = kernels::DType::kF32;
};

absl::Status UnpackGptq(Unpacking& tensors, const std::string& module, const GptqSettings& settings) {
  const std::string owner = absl::StrCat(module, ".weight");
  const std::string names[] = {absl::StrCat(module, ".qweight"), absl::StrCat(module, ".qzeros"),
                               absl::StrCat(module, ".scales"), absl::StrCat(module, ".g_idx")};
  ASSIGN_OR_RETURN(const TensorView* weight, tensors.Need(names[0], owner, {"I32"}));
  ASSIGN_OR_RETURN(const TensorView* zeros, tensors.Need(names[1], owner, {"I32"}));
  ASSIGN_OR_RETURN(const TensorView* scales, tensors.Need(names[2], owner, {"F16", "BF16", "F32"}));
  for (const TensorView* tensor : {weight, zeros, scales}) {
    if (tensor->shape.size() != 2) return ShapeError(*tensor, "a matrix");
  }
  ColumnGroups layout;
  layout.outputs = weight->shape[1];
  layout.groups = scales->shape[0];
  // Modules with other bits than the rest are known by their zero points.
  layout.bits = settings.bits;
  if (settings.has_own_bits && layout.outputs > 0) layout.bits = 32 * zeros->shape[1] / layout.outputs;
  if (layout.bits != 4 && layout.bits != 8) {
    return Unimplemented("tensor ", names[1], " has shape ", ShapeToString(zeros->shape), ": ", layout.bits,
                         " bits for each of ", layout.outputs, " outputs; 4 and 8 are read");
  }
  const int64_t fields = 32 / layout.bits;
  layout.inputs = weight->shape[0] * fields;
  if (layout.outputs % fields != 0)
    return ShapeError(*weight, absl::StrCat("a number of outputs that ", fields, " divides"));
  if (scales->shape[1] != layout.outputs) return ShapeError(*scales, absl::StrCat("[.., ", layout.outputs, "]"));
  if (zeros->shape != std::vector<int64_t>{layout.groups, layout.outputs / fields})
    return ShapeError(*zeros, ShapeToString({layout.groups, layout.outputs / fields}));
  layout.group_size = settings.group_size == -1 ? layout.inputs : settings.group_size;
  const TensorView* order = tensors.Find(names[3]);
  if (order != nullptr) {
    ASSIGN_OR_RETURN(order, tensors.Need(names[3], owner, {"I32", "I64"}));
    if (order->shape != std::vector<int64_t>{layout.inputs}) return ShapeError(*order, ShapeToString({layout.inputs}));
  } else if (settings.is_ordered) {
    return InvalidArgument("tensor ", names[3], " is missing; \"desc_act\" is true, so ", owner, " needs its groups");
  } else if (const int64_t needed = (layout.inputs + layout.group_size - 1) / layout.group_size;
             layout.groups != needed) {
    return ShapeError(*scales, ShapeToString({needed, layout.outputs}));
  }
  for (int field = 0; field < fields; ++field) layout.field_of_output.push_back(field);
  if (settings.is_older) layout.zero_offset = layout.bits == 4 ? 0x11111111 : 0x01010101;

  DerivedTensor matrix;
  matrix.tensor.name = owner;
  matrix.tensor.type = settings.type;
  matrix.tensor.shape = {layout.outputs, layout.inputs};
  matrix.recipe = absl::StrCat("gptq bits ", layout.bits, " groups of ", order != nullptr ? 0 : layout.group_size,
                               " offset ", layout.zero_offset);
  matrix.fill = [layout](const auto& inputs, int64_t first, int64_t count, float* rows) {
    const TensorView& weight = inputs[0].tensor;
    const int64_t fields = 32 / layout.bits;
    const uint32_t mask = (1u << layout.bits) - 1;
    const auto quantized = [&](int64_t input, int64_t first, int64_t count, float* values) {
      const int64_t at = input / fields * layout.outputs + first;
      const int shift = layout.bits * (input % fields);
      for (int64_t i = 0; i < count; ++i) values[i] = WordOf(weight, at + i) >> shift & mask;
    };
    const TensorView* order = inputs.size() > 3 ? &inputs[3].tensor : nullptr;
    return FillFromGroups(layout, inputs[2].tensor, inputs[1].tensor, order, first, count, quantized, rows);
  };
  RETURN_IF_ERROR(tensors.AllowZeros(absl::StrCat(module, ".bias")));
  std::vector<std::string> inputs = {names[0], names[1], names[2]};
  if (order != nullptr) inputs.push_back(names[3]);
  return tensors.Replace(std::move(matrix), inputs);
}

}  // namespace

absl::StatusOr<PackedWeights> ReadGptq(ConfigReader& reader, kernels::DType type) {
  GptqSettings settings{.type = type};
  ASSIGN_OR_RETURN(settings.bits, reader.Int("bits", {1, 32}));
  if (settings.bits != 4 && settings.bits != 8)
    return Unimplemented(reader.Name("bits"), " is ", settings.bits, "; 4 and 8 bits of GPTQ are read");
  ASSIGN_OR_RETURN(settings.group_size, reader.Int("group_size", {-1, 1 << 20}, 128));
  if (settings.group_size == 0) return InvalidArgument(reader.Name("group_size"), " is 0; it must be -1 or at least 1");
  ASSIGN_OR_RETURN(settings.is_ordered, reader.Bool("desc_act", false));
  for (const char* key : {"checkpoint_format", "format"}) {
    if (!reader.Has(key)) continue;
    ASSIGN_OR_RETURN(const std::string format, reader.String(key));
    settings.is_older = format == "gptq";
    if (!settings.is_older && format != "gptq_v2")
      return Unimplemented(reader.Name(key), " is \"", format, "\"; gptq and gptq_v2 are read");
  }
  if (const Json* own = reader.Take("dynamic"); own != nullptr) settings.has_own_bits = !own->empty();
  RETURN_IF_ERROR(reader.RequireValue("pack_dtype", "int32"));
  RETURN_IF_ERROR(reader.RequireValue("method", "gptq"));
  // The tensors state zero points and orders themselves.
  reader.Ignore({"sym", "static_groups"});
  IgnoreHowItWasMade(reader);
  PackedWeights packed;
  packed.label = absl::StrCat("GPTQ ", settings.bits, " bit");
  packed.identity = {
      {"bits", settings.bits}, {"group_size", settings.group_size}, {"zeros_minus_one", settings.is_older}};
  packed.unpack = [settings](Unpacking& tensors) -> absl::Status {
    for (const std::string& module : tensors.NamesBefore(".qweight"))
      RETURN_IF_ERROR(UnpackGptq(tensors, module, settings));
    return absl::OkStatus();
  };
  return packed;
}

}  // namespace varifocal

// AWQ, layout "gemm": integers of 4 bits packed along outputs, weights and zero points alike.
//
//   qweight I32 [K, N / 8], qzeros I32 [G, N / 8]: field j of word c is output 8 c + (0, 2, 4, 6, 1, 3, 5, 7)[j]
//   scales  [G, N]
//
// Source: AutoAWQ 0.2.9, modules/linear/gemm.py and utils/packing_utils.py.
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/column_groups.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

constexpr int kAwqFields = 8;
constexpr int kOutputOfField[kAwqFields] = {0, 2, 4, 6, 1, 3, 5, 7};

absl::Status UnpackAwq(Unpacking& tensors, const std::string& module, int64_t group_size, kernels::DType type) {
  const std::string owner = absl::StrCat(module, ".weight");
  const std::string names[] = {absl::StrCat(module, ".qweight"), absl::StrCat(module, ".qzeros"),
                               absl::StrCat(module, ".scales")};
  ASSIGN_OR_RETURN(const TensorView* weight, tensors.Need(names[0], owner, {"I32"}));
  ASSIGN_OR_RETURN(const TensorView* zeros, tensors.Need(names[1], owner, {"I32"}));
  ASSIGN_OR_RETURN(const TensorView* scales, tensors.Need(names[2], owner, {"F16", "BF16", "F32"}));
  if (weight->shape.size() != 2) return ShapeError(*weight, "a matrix");
  ColumnGroups layout;
  layout.inputs = weight->shape[0];
  layout.outputs = weight->shape[1] * kAwqFields;
  layout.group_size = group_size == -1 ? layout.inputs : group_size;
  layout.groups = (layout.inputs + layout.group_size - 1) / layout.group_size;
  const std::vector<int64_t> zeros_shape = {layout.groups, layout.outputs / kAwqFields};
  const std::vector<int64_t> scales_shape = {layout.groups, layout.outputs};
  if (zeros->shape != zeros_shape) return ShapeError(*zeros, ShapeToString(zeros_shape));
  if (scales->shape != scales_shape) return ShapeError(*scales, ShapeToString(scales_shape));
  layout.field_of_output.resize(kAwqFields);
  for (int field = 0; field < kAwqFields; ++field) layout.field_of_output[kOutputOfField[field]] = field;

  DerivedTensor matrix;
  matrix.tensor.name = owner;
  matrix.tensor.type = type;
  matrix.tensor.shape = {layout.outputs, layout.inputs};
  matrix.recipe = absl::StrCat("awq groups of ", layout.group_size);
  matrix.fill = [layout](const auto& inputs, int64_t first, int64_t count, float* rows) {
    const TensorView& weight = inputs[0].tensor;
    const auto quantized = [&](int64_t input, int64_t first, int64_t count, float* values) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t output = first + i;
        const uint32_t word = WordOf(weight, input * (layout.outputs / kAwqFields) + output / kAwqFields);
        values[i] = word >> (4 * layout.field_of_output[output % kAwqFields]) & 15;
      }
    };
    return FillFromGroups(layout, inputs[2].tensor, inputs[1].tensor, nullptr, first, count, quantized, rows);
  };
  return tensors.Replace(std::move(matrix), {names[0], names[1], names[2]});
}

}  // namespace

absl::StatusOr<PackedWeights> ReadAwq(ConfigReader& reader, kernels::DType type) {
  for (const char* key : {"bits", "w_bit"}) {
    if (!reader.Has(key)) continue;
    ASSIGN_OR_RETURN(const int64_t bits, reader.Int(key, {1, 32}));
    if (bits != 4) return Unimplemented(reader.Name(key), " is ", bits, "; 4 bits of AWQ are read");
  }
  int64_t group_size = 128;
  for (const char* key : {"group_size", "q_group_size"}) {
    if (!reader.Has(key)) continue;
    ASSIGN_OR_RETURN(group_size, reader.Int(key, {-1, 1 << 20}));
    if (group_size == 0) return InvalidArgument(reader.Name(key), " is 0; it must be -1 or at least 1");
  }
  for (const char* key : {"version", "format", "checkpoint_format"}) {
    ASSIGN_OR_RETURN(const std::string version, reader.String(key, "gemm"));
    if (absl::AsciiStrToLower(version) != "gemm")
      return Unimplemented(reader.Name(key), " is \"", version, "\"; gemm is read");
  }
  RETURN_IF_ERROR(reader.RequireValue("zero_point", true));
  reader.Ignore({"do_fuse", "fuse_max_seq_len", "modules_to_fuse", "sym", "desc_act"});
  IgnoreHowItWasMade(reader);
  PackedWeights packed;
  packed.label = "AWQ 4 bit";
  packed.identity = {{"group_size", group_size}};
  packed.unpack = [=](Unpacking& tensors) -> absl::Status {
    for (const std::string& module : tensors.NamesBefore(".qweight"))
      RETURN_IF_ERROR(UnpackAwq(tensors, module, group_size, type));
    return absl::OkStatus();
  };
  return packed;
}

}  // namespace varifocal

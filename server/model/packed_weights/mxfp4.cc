// MXFP4, the microscaling format of GPT-OSS's experts: 4-bit floats in groups of 32 inputs that share a power of two.
//
//   X_blocks U8 [E, outputs, groups, 16]: byte b has input 2b of its group in the low half, input 2b + 1 in the high one
//   X_scales U8 [E, outputs, groups]: 2^(scale - 127)
//
// X becomes [E, inputs, outputs], as a file of plain weights has it. Every value is exact in bf16.
//
// Source: OCP Microscaling Formats 1.0, E2M1 and E8M0; convert_moe_packed_tensors in transformers 5.24.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "server/model/packed_weights/packed_weights.h"

namespace varifocal {
namespace {

constexpr int64_t kGroupInputs = 32, kGroupBytes = 16;
constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
constexpr int kBias = 127;
// 6 * 2^126 is beyond the largest bf16.
constexpr int kScaleMax = kBias + 125;

struct Layout {
  int64_t outputs = 0, groups = 0;
  int64_t inputs() const { return groups * kGroupInputs; }
};

// Of inputs [first, first + count) of one expert: a row of outputs each.
absl::Status FillInputs(const Layout& layout, const std::vector<DerivedTensor::Input>& stored, int64_t expert,
                        int64_t first, int64_t count, float* rows) {
  const absl::string_view blocks = stored[0].tensor.bytes, scales = stored[1].tensor.bytes;
  for (int64_t output = 0; output < layout.outputs; ++output) {
    const int64_t group = (expert * layout.outputs + output) * layout.groups;
    for (int64_t input = first; input < first + count; ++input) {
      const int64_t at = group + input / kGroupInputs;
      const int scale = static_cast<unsigned char>(scales[at]);
      if (scale > kScaleMax) {
        return InvalidArgument("tensor ", stored[1].tensor.name, " has the scale ", scale, ", at element ", at,
                               "; the largest of finite values is ", kScaleMax);
      }
      const auto byte = static_cast<unsigned char>(blocks[at * kGroupBytes + input % kGroupInputs / 2]);
      rows[(input - first) * layout.outputs + output] =
          std::ldexp(kValues[input % 2 == 0 ? byte & 15 : byte >> 4], scale - kBias);
    }
  }
  return absl::OkStatus();
}

absl::Status UnpackStack(Unpacking& tensors, const std::string& name) {
  const std::string names[] = {absl::StrCat(name, "_blocks"), absl::StrCat(name, "_scales")};
  ASSIGN_OR_RETURN(const TensorView* blocks, tensors.Need(names[0], name, {"U8"}));
  ASSIGN_OR_RETURN(const TensorView* scales, tensors.Need(names[1], name, {"U8"}));
  if (blocks->shape.size() != 4 || blocks->shape[3] != kGroupBytes)
    return ShapeError(*blocks, absl::StrCat("[experts, outputs, groups, ", kGroupBytes, "]"));
  const std::vector<int64_t> scales_shape(blocks->shape.begin(), blocks->shape.begin() + 3);
  if (scales->shape != scales_shape) return ShapeError(*scales, ShapeToString(scales_shape));
  const Layout layout{.outputs = blocks->shape[1], .groups = blocks->shape[2]};

  DerivedTensor stack;
  stack.tensor.name = name;
  stack.tensor.type = kernels::DType::kBF16;
  stack.tensor.shape = {blocks->shape[0], layout.inputs(), layout.outputs};
  stack.recipe = "mxfp4";
  stack.fill = [layout](const auto& stored, int64_t first, int64_t count, float* rows) -> absl::Status {
    for (int64_t done = 0; done < count;) {  // of one expert at a time
      const int64_t input = (first + done) % layout.inputs(), expert = (first + done) / layout.inputs();
      const int64_t some = std::min(count - done, layout.inputs() - input);
      RETURN_IF_ERROR(FillInputs(layout, stored, expert, input, some, rows + done * layout.outputs));
      done += some;
    }
    return absl::OkStatus();
  };
  return tensors.Replace(std::move(stack), {names[0], names[1]});
}

}  // namespace

absl::StatusOr<PackedWeights> ReadMxfp4(ConfigReader& reader, kernels::DType) {
  RETURN_IF_ERROR(reader.RequireValue("dequantize", false));
  // Only experts have the format; the list names everything else.
  if (const Json* kept = reader.Take("modules_to_not_convert"); kept != nullptr) {
    const auto names_experts = [](const Json& name) {
      return !name.is_string() || absl::StrContains(name.get<std::string>(), "experts");
    };
    if (!kept->is_array() || std::any_of(kept->begin(), kept->end(), names_experts)) {
      return Unimplemented(reader.Name("modules_to_not_convert"), " is ", ShownValue(*kept),
                           "; it must be a list of modules other than experts");
    }
  }
  PackedWeights packed;
  packed.label = "MXFP4 experts";
  packed.identity = Json::object();
  packed.values = "bf16, exactly";
  packed.unpack = [](Unpacking& tensors) -> absl::Status {
    const std::vector<std::string> names = tensors.NamesBefore("_blocks");
    if (names.empty()) return InvalidArgument("no tensor is stored as MXFP4: none ends in _blocks");
    for (const std::string& name : names) RETURN_IF_ERROR(UnpackStack(tensors, name));
    return absl::OkStatus();
  };
  return packed;
}

}  // namespace varifocal

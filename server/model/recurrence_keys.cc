#include "server/model/recurrence_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file; the product of all is far from overflow.
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kDimMax = 1024;

}  // namespace

absl::Status ReadRecurrence(ConfigReader& reader, const RecurrenceKeys& keys, ModelConfig& config) {
  using kernels::RecurrenceKind;
  if (keys.kind == RecurrenceKind::kNone) return absl::OkStatus();
  kernels::RecurrenceShape shape{.kind = keys.kind};
  ASSIGN_OR_RETURN(shape.conv_width,
                   reader.Int(keys.conv_width, {1, kernels::kConvolutionMax}, keys.conv_width_default));
  if (keys.kind == RecurrenceKind::kConvolution) {
    shape.value_head_count = 1;
    shape.value_dim = static_cast<int>(config.width);
  } else {
    ASSIGN_OR_RETURN(shape.key_head_count,
                     reader.Int(keys.key_head_count, {1, kHeadsMax}, keys.key_head_count_default));
    ASSIGN_OR_RETURN(shape.value_head_count,
                     reader.Int(keys.value_head_count, {1, kHeadsMax}, keys.value_head_count_default));
    ASSIGN_OR_RETURN(shape.key_dim, reader.Int(keys.key_dim, {1, kDimMax}, keys.dim_default));
    ASSIGN_OR_RETURN(shape.value_dim, reader.Int(keys.value_dim, {1, kDimMax}, keys.dim_default));
    if (shape.value_head_count % shape.key_head_count != 0) {
      return absl::InvalidArgumentError(absl::StrCat(reader.Name(keys.value_head_count), " is ", shape.value_head_count,
                                                     "; it must be a multiple of ", keys.key_head_count, ", ",
                                                     shape.key_head_count));
    }
  }
  // A model whose layers are all of attention has none of these tensors.
  if (AttentionLayerCount(config) < config.layer_count) config.recurrence = shape;
  return absl::OkStatus();
}

}  // namespace varifocal

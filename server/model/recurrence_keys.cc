#include "server/model/recurrence_keys.h"

#include <algorithm>

#include "base/status_macros.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file; the product of all is far from overflow.
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kDimMax = 1024;

absl::StatusOr<int64_t> ReadValueDim(ConfigReader& reader, const RecurrenceKeys& keys, const ModelConfig& config,
                                     int64_t head_count) {
  if (keys.expansion == nullptr) return reader.Int(keys.value_dim, {1, kDimMax}, keys.value_dim_default);
  ASSIGN_OR_RETURN(const int64_t expansion, reader.Int(keys.expansion, {1, kDimMax}, keys.expansion_default));
  int64_t all = expansion * config.width;
  if (keys.width != nullptr && (reader.Has(keys.width) || !reader.IsPresent(keys.width))) {
    ASSIGN_OR_RETURN(all, reader.Int(keys.width, {1, kHeadsMax * kDimMax}, keys.width_default));
  }
  const Json* stated = reader.Take(keys.value_dim);
  int64_t dim = all / head_count;
  if (stated != nullptr && *stated != "auto") {
    ASSIGN_OR_RETURN(dim, reader.Int(keys.value_dim, {1, kDimMax}));
  }
  if (dim * head_count == all && dim <= kDimMax) return dim;
  return InvalidArgument(reader.Name(keys.value_head_count), " is ", head_count, " and ", reader.Name(keys.value_dim),
                         " ", stated == nullptr ? "missing" : ShownValue(*stated), "; together they must give ", all,
                         " by ", keys.width == nullptr ? keys.expansion : keys.width, ", in heads of at most ",
                         kDimMax);
}

// [0, infinity], as transformers 5 writes it. It applies other limits to a prompt, but not to generated tokens.
absl::Status RequireNoStepLimit(ConfigReader& reader, const char* key) {
  const Json* limit = reader.Take(key);
  if (limit == nullptr || *limit == Json::array({0, {{"__float__", "Infinity"}}})) return absl::OkStatus();
  return Unimplemented(reader.Name(key), " is ", ShownValue(*limit), "; only from 0 to infinity is supported");
}

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
    ASSIGN_OR_RETURN(shape.key_dim, reader.Int(keys.key_dim, {1, kDimMax}, keys.key_dim_default));
    ASSIGN_OR_RETURN(shape.value_dim, ReadValueDim(reader, keys, config, shape.value_head_count));
    if (shape.value_head_count % shape.key_head_count != 0) {
      return InvalidArgument(reader.Name(keys.value_head_count), " is ", shape.value_head_count,
                             "; it must be a multiple of ", keys.key_head_count, ", ", shape.key_head_count);
    }
  }
  if (keys.kind == RecurrenceKind::kDeltaRule) shape.norm_group_count = shape.value_head_count;
  if (keys.kind == RecurrenceKind::kStateSpace) {
    shape.norm_group_count = shape.key_head_count;
    shape.gate_first = true;
    RETURN_IF_ERROR(RequireNoStepLimit(reader, keys.step_limit));
    if (keys.step_min != nullptr) {
      ASSIGN_OR_RETURN(const double least, reader.NonNegative(keys.step_min, keys.step_min_default));
      shape.step_min = static_cast<float>(least);
    }
    if (keys.norm != nullptr) {
      ASSIGN_OR_RETURN(const bool has_norm, reader.Bool(keys.norm, false));
      ASSIGN_OR_RETURN(const bool norm_first, reader.Bool(keys.norm_first, true));
      if (!has_norm) shape.norm_group_count = 0;
      shape.gate_first = has_norm && !norm_first;
    }
  }
  if (keys.conv_bias != nullptr) {
    ASSIGN_OR_RETURN(config.blocks.conv_bias, reader.Bool(keys.conv_bias, keys.conv_bias_default));
  }
  if (keys.bias != nullptr) {
    ASSIGN_OR_RETURN(config.blocks.recurrence_bias, reader.Bool(keys.bias, false));
  }
  // A model whose layers are all of attention has none of these tensors.
  const auto is_recurrent = [](const LayerConfig& layer) { return layer.is_recurrent; };
  if (std::any_of(config.layers.begin(), config.layers.end(), is_recurrent)) config.recurrence = shape;
  return absl::OkStatus();
}

}  // namespace varifocal

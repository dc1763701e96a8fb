// Run-time overrides of the rotation of keys and queries (RoPE): what `rope_theta` and the scalings linear, dynamic and yarn of
// config.json would make of the same weights.
//
//   NAME@yarn=4         factor 4 over the model's longest context, other parameters at their defaults
//   NAME@linear=2       positions divided by 2
//   NAME@dynamic=2      a base that grows with the sequence beyond the model's longest context
//   NAME@rope-theta=1e6 another base; may be combined with one scaling
//
// A scaling multiplies the longest context by its factor. In models with a rotation per kind of layer, that of full layers
// changes, as these keys of config.json do.
#include "base/status_macros.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

absl::StatusOr<double> PositiveNumber(absl::string_view name, const Json& value) {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (number >= kNumberMin && number <= kNumberMax) return number;
  return InvalidArgument("\"", name, "\" is ", ShownValue(value), "; it must be a number from ", kNumberMin, " to ",
                         kNumberMax);
}

template <RopeKind kKind>
absl::StatusOr<RopeConfig> Scale(const RopeConfig& current, const Json& value, const RopeKeys& keys,
                                 const RopeSizes& sizes) {
  const absl::string_view name = RopeKindName(kKind);
  ASSIGN_OR_RETURN(const double factor, PositiveNumber(name, value));
  return ScaleRope(current, kKind, factor, keys, sizes);
}

absl::StatusOr<RopeConfig> SetTheta(const RopeConfig& current, const Json& value, const RopeKeys&, const RopeSizes&) {
  RopeConfig rope = current;
  ASSIGN_OR_RETURN(rope.theta, PositiveNumber("rope-theta", value));
  if (rope.kind == RopeKind::kYarn && rope.theta <= 1)
    return InvalidArgument("\"rope-theta\" is ", rope.theta, "; of a \"yarn\" rotation it must be above 1");
  return rope;
}

}  // namespace

const AttentionOverrideRow kYarnOverride = {"yarn", "rope_scaling", ErrorReason::kBadAttentionOverride,
                                            false,  nullptr,        Scale<RopeKind::kYarn>};
const AttentionOverrideRow kLinearRopeOverride = {"linear", "rope_scaling", ErrorReason::kBadAttentionOverride,
                                                  false,    nullptr,        Scale<RopeKind::kLinear>};
const AttentionOverrideRow kDynamicRopeOverride = {"dynamic", "rope_scaling", ErrorReason::kBadAttentionOverride,
                                                   false,     nullptr,        Scale<RopeKind::kDynamic>};
const AttentionOverrideRow kRopeThetaOverride = {"rope-theta", "rope_theta", ErrorReason::kBadAttentionOverride,
                                                 true,         nullptr,      SetTheta};

}  // namespace varifocal

// Run-time overrides in messages: Variant, GenerateRequest and ComputeLogLikelihoodsRequest have the same fields.
//
// The map `overrides` is written. Its older form, the fields focal_temperatures and attention_overrides, is read as well.
//
// Errors: INVALID_ARGUMENT (BAD_ATTENTION_OVERRIDE) for a name that both forms set. Values are not checked here.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "eval_tasks/overrides.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal {

using ProtoOverrides = google::protobuf::Map<std::string, v1::OverrideValues>;

absl::StatusOr<OverrideMap> FromProto(const ProtoOverrides& overrides, absl::Span<const double> focal_temperatures,
                                      const google::protobuf::Map<std::string, double>& attention_overrides);
ProtoOverrides ToProto(const OverrideMap& overrides);

template <typename Message>
absl::StatusOr<OverrideMap> OverridesOf(const Message& message) {
  return FromProto(message.overrides(), message.focal_temperatures(), message.attention_overrides());
}

}  // namespace varifocal

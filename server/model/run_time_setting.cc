#include "server/model/run_time_setting.h"

#include <algorithm>

#include "base/reason.h"
#include "base/status_macros.h"
#include "server/model/architectures.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

// Null when the name is no row, or one of another kind, which AttentionSetting::With handles.
const AttentionOverrideRow* FindRotation(const std::string& name) {
  for (const AttentionOverrideRow& row : AttentionOverrideRows()) {
    if (name == row.name && row.rotate != nullptr) return &row;
  }
  return nullptr;
}

absl::Status Rotate(const AttentionOverrideRow& row, const Json& value, const ModelConfig& config,
                    RunTimeSetting& setting) {
  if (config.ropes.empty()) {
    return InvalidArgument("\"", row.name, "\" is set, but the positions of ", config.model_type,
                           " are learned, not rotated");
  }
  const Architecture* architecture = FindArchitecture(config.model_type);
  const int64_t width = config.latent.rank > 0 ? RotationWidth(config) : RopeHeadWidth(config, 0);
  const RopeSizes sizes{.head_width = width, .max_position = config.max_position};
  // The first rope is that of full layers, whose keys in config.json the setting replaces.
  ASSIGN_OR_RETURN(setting.ropes[0], row.rotate(setting.ropes[0], value, architecture->rope, sizes));
  // Longer contexts are what a scaled rotation is for. A window that was longer than the model's limit was dropped, and
  // would count beyond it.
  const double stretched = config.max_position * std::max(1.0, setting.ropes[0].factor / config.ropes[0].factor);
  setting.max_position = static_cast<int64_t>(std::min<double>(stretched, config.extended_position_max));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunTimeSetting> WithOverrides(const ModelConfig& config, const AttentionOverrides& overrides) {
  RunTimeSetting setting{.attention = {}, .ropes = config.ropes, .max_position = config.max_position};
  AttentionOverrides others;
  std::string scaled_by;
  for (const AttentionOverride& given : overrides) {
    const AttentionOverrideRow* row = FindRotation(given.name);
    if (row == nullptr) {
      others.push_back(given);
      continue;
    }
    absl::Status rotated;
    if (!row->edits && !scaled_by.empty()) {
      rotated = InvalidArgument("\"", given.name, "\" and \"", scaled_by, "\" both scale the rotation; remove one");
    } else {
      rotated = Rotate(*row, given.value, config, setting);
    }
    if (!rotated.ok()) return WithReason(rotated, row->reason, {{"field", "overrides"}});
    if (!row->edits) scaled_by = given.name;
  }
  ASSIGN_OR_RETURN(setting.attention, config.attention.With(others, AttentionModelOf(config)));
  return setting;
}

}  // namespace varifocal

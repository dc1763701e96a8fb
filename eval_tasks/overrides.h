// Run-time overrides of a model's attention and chat template: the settings after its name in "focal@t=0.7@log-n=4096".
//
// The table states what all but the model must know of each: the grammar here, the flags of the client and the sweeps of a
// report read it. What an override computes is the row of the same name in server/model/attention/variants.cc. A name that the
// table does not have is left to the model, which refuses it.
//
// Errors:  INVALID_ARGUMENT with the name, the value and the limit.
// Threads: the table is immutable.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal {

enum class OverrideKind {
  kTemperature,  // divides the scores of its layers; above 0
  kScoreCap,     // bounds them; above 0
  kScores,       // changes them otherwise
  kRopeFactor,   // of a scaled rotation of positions; 1 is no scaling
  kRopeBase,     // of the rotation
  kGroups,       // of learned groups
  kChatSwitch,   // of the chat template: "on" (1) or "off" (0); no setting of the attention
};

// A row of the table.
struct OverrideInfo {
  const char* name;  // as in NAME@full-t=0.7
  OverrideKind kind;
  const char* noun = "";  // of its value where a report has its sweep, "temperature"; "": it has none
  const char* plural = "";
  // What a checkpoint trained without it lacks, "a sink"; of attention settings other than rotations.
  const char* feature = "";
  // The value of a model that has none of it: 1, or infinite where no number is that.
  double neutral = 1;
  const char* layers = "";            // in words, "early layers"; "": all
  const char* layers_flag = nullptr;  // of a temperature: the value of --focal-layers, "early"
  bool may_be_list = false;          // one number for all layers or one a layer; applied before settings of some layers
  bool is_token_count = false;       // may be written with K for 1,024
  bool resets_other_layers = false;  // the temperature of the layers that it does not name becomes 1
  // For the list of --attention: a value, and what it does, "a logit beside the scores"; "": it has a flag of its own.
  const char* example = "";
  const char* help = "";
  const char* focus_setting = nullptr;  // of kGroups: the key of "focus_attention" that it replaces
};

inline bool IsRotation(const OverrideInfo& info) {
  return info.kind == OverrideKind::kRopeFactor || info.kind == OverrideKind::kRopeBase;
}

inline bool IsAboveZero(const OverrideInfo& info) {
  return info.kind == OverrideKind::kTemperature || info.kind == OverrideKind::kScoreCap;
}

absl::Span<const OverrideInfo> OverrideTable();
const OverrideInfo* FindOverride(absl::string_view name);  // null when unknown
// Of a part of a variant's name, "t=0.7"; null when unknown.
const OverrideInfo* OverrideOfSetting(absl::string_view setting);
// "full-t=0.7 (a temperature of layers without a window), .., yarn=4, linear=2 (a scaled rotation of positions)".
std::string OverridesHelp();

// The switch of the chat template: --thinking.
inline constexpr char kThinking[] = "thinking";

// A temperature of all layers: --focal-temperatures, and the column focal_temperature_json of results.
inline constexpr char kFocalTemperature[] = "t";

// Overrides that may be a list first, then by name: the order of names in results, and that of application.
struct OverrideOrder {
  bool operator()(const std::string& a, const std::string& b) const;
};
using OverrideMap = std::map<std::string, std::vector<double>, OverrideOrder>;

// "t=0.7@log-n=4096", each name once; a list is "t=0.5,0.6", a switch "thinking=off".
absl::StatusOr<OverrideMap> ParseOverrides(absl::string_view text);
// The inverse of ParseOverrides, each after "@": "@t=0.7@log-n=4096". Numbers are the shortest that read back the same.
std::string OverridesText(const OverrideMap& overrides);
// "0.7", or "0.7,1,0.9" where the override may be a list.
absl::StatusOr<std::vector<double>> ParseOverrideValues(absl::string_view name, absl::string_view text);

// What the variant sets the switch to; none: the template's default.
std::optional<bool> ThinkingOf(const OverrideMap& overrides);

// One number, or a list where the override may be one.
absl::Status CheckOverrideCount(absl::string_view name, absl::Span<const double> values);
// What ParseOverrides accepts: words as names, finite numbers, temperatures and caps above 0.
absl::Status CheckOverrides(const OverrideMap& overrides);

}  // namespace varifocal

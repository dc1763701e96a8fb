#include "eval_tasks/overrides.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"

namespace varifocal {
namespace {

constexpr size_t kOverrideNameSizeMax = 63;

constexpr OverrideInfo WithTemperature(OverrideInfo info) {
  info.kind = OverrideKind::kTemperature;
  info.noun = "temperature";
  info.plural = "temperatures";
  info.feature = "focal attention";
  return info;
}

constexpr OverrideInfo Third(const char* name, const char* layers, const char* flag) {
  return WithTemperature({.name = name,
                          .layers = layers,
                          .layers_flag = flag,
                          .example = "0.7",
                          .help = "a temperature of a third of the layers"});
}

constexpr OverrideInfo RopeFactor(const char* name, const char* noun, const char* plural, const char* example) {
  return {.name = name,
          .kind = OverrideKind::kRopeFactor,
          .noun = noun,
          .plural = plural,
          .example = example,
          .help = "a scaled rotation of positions"};
}

// In the order in which they are listed to users.
constexpr OverrideInfo kOverrides[] = {
    WithTemperature({.name = kFocalTemperature, .layers_flag = "all", .may_be_list = true}),
    WithTemperature({.name = "full-t",
                     .layers = "layers without a window",
                     .layers_flag = "full",
                     .resets_other_layers = true,
                     .example = "0.7",
                     .help = "a temperature of layers without a window"}),
    Third("early-t", "early layers", "early"),
    Third("middle-t", "middle layers", "middle"),
    Third("late-t", "late layers", "late"),
    {.name = "log-n",
     .kind = OverrideKind::kScores,
     .feature = "log-n scaling",
     .is_token_count = true,
     .example = "4096",
     .help = "scores grow with the logarithm of the number of visible keys"},
    {.name = "softcap",
     .kind = OverrideKind::kScoreCap,
     .noun = "soft-cap",
     .plural = "soft-caps",
     .feature = "a soft-cap of scores",
     .neutral = std::numeric_limits<double>::infinity(),
     .example = "30",
     .help = "scores are bounded"},
    {.name = "sink",
     .kind = OverrideKind::kScores,
     .noun = "sink logit",
     .plural = "sink logits",
     .feature = "a sink",
     .neutral = -std::numeric_limits<double>::infinity(),
     .example = "0",
     .help = "a logit beside the scores, whose key has no value"},
    {.name = "rope-theta",
     .kind = OverrideKind::kRopeBase,
     .noun = "RoPE base",
     .plural = "RoPE bases",
     .example = "1e6",
     .help = "another base of the rotation of positions"},
    RopeFactor("yarn", "factor of yarn", "factors of yarn", "4"),
    RopeFactor("linear", "factor of linear RoPE", "factors of linear RoPE", "2"),
    RopeFactor("dynamic", "factor of dynamic RoPE", "factors of dynamic RoPE", "2"),
    {.name = "focus-top-k", .kind = OverrideKind::kGroups, .feature = "learned groups", .focus_setting = "top_k"},
    {.name = "focus-window", .kind = OverrideKind::kGroups, .feature = "learned groups", .focus_setting = "window"},
    {.name = kThinking, .kind = OverrideKind::kChatSwitch},
};

bool MayBeList(absl::string_view name) {
  const OverrideInfo* info = FindOverride(name);
  return info != nullptr && info->may_be_list;
}

bool IsSwitch(absl::string_view name) {
  const OverrideInfo* info = FindOverride(name);
  return info != nullptr && info->kind == OverrideKind::kChatSwitch;
}

bool IsTokenCount(absl::string_view name) {
  const OverrideInfo* info = FindOverride(name);
  return info != nullptr && info->is_token_count;
}

bool IsOverrideName(absl::string_view name) {
  return !name.empty() && name.size() <= kOverrideNameSizeMax && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

// `shown` is the value in the message.
absl::Status CheckOverrideValue(absl::string_view name, double value, absl::string_view shown) {
  const OverrideInfo* info = FindOverride(name);
  if (IsSwitch(name)) {
    if (value == 0 || value == 1) return absl::OkStatus();
    return InvalidArgument(name, " is ", shown, "; it must be on or off");
  }
  const bool is_positive = info != nullptr && IsAboveZero(*info);
  if (std::isfinite(value) && (value > 0 || !is_positive)) return absl::OkStatus();
  return InvalidArgument(name, " is ", shown, "; it must be a finite number", is_positive ? " above 0" : "");
}

}  // namespace

absl::Span<const OverrideInfo> OverrideTable() { return kOverrides; }

const OverrideInfo* FindOverride(absl::string_view name) {
  for (const OverrideInfo& info : kOverrides) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

const OverrideInfo* OverrideOfSetting(absl::string_view setting) {
  const size_t end = setting.find('=');
  return end == absl::string_view::npos ? nullptr : FindOverride(setting.substr(0, end));
}

std::string OverridesHelp() {
  std::string text, help;
  for (const OverrideInfo& info : kOverrides) {
    if (info.example[0] == '\0') continue;
    if (!help.empty()) absl::StrAppend(&text, help == info.help ? "" : absl::StrCat(" (", help, ")"), ", ");
    absl::StrAppend(&text, info.name, "=", info.example);
    help = info.help;
  }
  return absl::StrCat(text, " (", help, ")");
}

bool OverrideOrder::operator()(const std::string& a, const std::string& b) const {
  return std::pair(!MayBeList(a), absl::string_view(a)) < std::pair(!MayBeList(b), absl::string_view(b));
}

absl::StatusOr<std::vector<double>> ParseOverrideValues(absl::string_view name, absl::string_view text) {
  std::vector<double> values;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    double value = ParseNumber(piece).value_or(std::nan(""));
    if (IsTokenCount(name) && absl::EndsWithIgnoreCase(piece, "k")) {
      const absl::StatusOr<int64_t> count = ParseTokenCount(piece);
      if (count.ok()) value = static_cast<double>(*count);
    }
    if (IsSwitch(name)) value = piece == "on" ? 1 : piece == "off" ? 0 : std::nan("");
    RETURN_IF_ERROR(CheckOverrideValue(name, value, absl::StrCat("\"", piece, "\"")));
    values.push_back(value);
  }
  RETURN_IF_ERROR(CheckOverrideCount(name, values));
  return values;
}

absl::StatusOr<OverrideMap> ParseOverrides(absl::string_view text) {
  OverrideMap overrides;
  for (absl::string_view setting : absl::StrSplit(text, '@')) {
    const std::pair<std::string, absl::string_view> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const auto& [name, values] = parts;
    if (!IsOverrideName(name) || values.empty()) {
      return InvalidArgument("\"", setting,
                             "\" must be a setting and its number, such as t=0.7; the name of a setting has "
                             "lower-case letters, digits and \"-\"");
    }
    if (overrides.contains(name)) return InvalidArgument(name, " is set twice");
    ASSIGN_OR_RETURN(overrides[name], ParseOverrideValues(name, values));
  }
  return overrides;
}

std::string OverridesText(const OverrideMap& overrides) {
  std::string text;
  for (const auto& [name, values] : overrides) {
    const bool is_switch = IsSwitch(name);
    absl::StrAppend(&text, "@", name, "=", absl::StrJoin(values, ",", [&](std::string* out, double value) {
      out->append(is_switch ? value != 0 ? "on" : "off" : FormatNumber(value));
    }));
  }
  return text;
}

std::optional<bool> ThinkingOf(const OverrideMap& overrides) {
  const auto found = overrides.find(kThinking);
  if (found == overrides.end() || found->second.empty()) return std::nullopt;
  return found->second[0] != 0;
}

absl::Status CheckOverrideCount(absl::string_view name, absl::Span<const double> values) {
  if (values.size() == 1 || (!values.empty() && MayBeList(name))) return absl::OkStatus();
  return InvalidArgument(name, " has ", values.size(), " values; it must have 1",
                         MayBeList(name) ? ", or one a layer" : "");
}

absl::Status CheckOverrides(const OverrideMap& overrides) {
  for (const auto& [name, values] : overrides) {
    if (!IsOverrideName(name)) {
      return InvalidArgument("\"", name,
                             "\" is no attention setting: a name has lower-case letters, digits and \"-\", at most ",
                             kOverrideNameSizeMax);
    }
    for (const double value : values) RETURN_IF_ERROR(CheckOverrideValue(name, value, absl::StrCat(value)));
    RETURN_IF_ERROR(CheckOverrideCount(name, values));
  }
  return absl::OkStatus();
}

}  // namespace varifocal

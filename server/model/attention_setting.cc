// The attention keys of config.json, and run-time temperatures.
#include "server/model/attention_setting.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status CheckTemperature(double value, absl::string_view name, size_t index) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, "[", index, "] is ", value, "; a temperature must be positive and finite"));
}

absl::Status ReadTemperatures(ConfigReader& reader, int64_t layer_count, AttentionSetting& setting) {
  const Json* value = reader.Take("temperature");
  if (value == nullptr) return absl::InvalidArgumentError(absl::StrCat(reader.Name("temperature"), " is missing"));
  std::vector<double> given;
  if (value->is_array()) {
    for (const Json& item : *value) {
      if (!item.is_number()) {
        return absl::InvalidArgumentError(absl::StrCat(reader.Name("temperature"), " has an entry that is ",
                                                       item.type_name(), "; it must be a number"));
      }
      given.push_back(item.get<double>());
    }
    if (static_cast<int64_t>(given.size()) != layer_count) {
      return absl::InvalidArgumentError(absl::StrCat(reader.Name("temperature"), " has ", given.size(),
                                                     " entries; the model has ", layer_count, " layers"));
    }
  } else if (value->is_number()) {
    given.push_back(value->get<double>());
  } else {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name("temperature"), " is ", value->type_name(),
                                                   "; it must be a number or a list of numbers"));
  }
  return SetTemperatures(given, layer_count, reader.Name("temperature"), setting);
}

absl::Status ReadLearned(ConfigReader& reader, AttentionSetting& setting) {
  ASSIGN_OR_RETURN(setting.tau_min, reader.Positive("tau_min"));
  ASSIGN_OR_RETURN(setting.tau_max, reader.Positive("tau_max"));
  if (setting.tau_min > setting.tau_max) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name("tau_min"), " is ", setting.tau_min,
                                                   "; it must not exceed tau_max, ", setting.tau_max));
  }
  ASSIGN_OR_RETURN(const std::string mean, reader.String("tau_mean", "causal"));
  if (mean == "causal") {
    setting.tau_mean = TauMean::kCausal;
  } else if (mean == "token") {
    setting.tau_mean = TauMean::kToken;
  } else if (mean == "sequence") {
    setting.tau_mean = TauMean::kSequence;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.Name("tau_mean"), " is \"", mean, "\"; it must be causal, token or sequence"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetTemperatures(absl::Span<const double> given, int64_t layer_count, absl::string_view name,
                             AttentionSetting& setting) {
  if (given.size() != 1 && static_cast<int64_t>(given.size()) != layer_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", given.size(), " numbers; it must have 1 or ", layer_count, ", one per layer"));
  }
  for (size_t i = 0; i < given.size(); ++i) RETURN_IF_ERROR(CheckTemperature(given[i], name, i));
  setting.mode = AttentionMode::kFocalConstant;
  setting.temperatures.assign(static_cast<size_t>(layer_count), given[0]);
  if (given.size() > 1) setting.temperatures.assign(given.begin(), given.end());
  return absl::OkStatus();
}

absl::Status ReadAttentionSetting(ConfigReader& reader, int64_t layer_count, AttentionSetting& setting) {
  if (const Json* focus = reader.Take("focus_attention"); focus != nullptr) {
    return absl::UnimplementedError("\"focus_attention\" is set; learned groups are not supported by this version");
  }
  const Json* focal = reader.Take("focal_attention");
  if (focal == nullptr) return absl::OkStatus();
  if (!focal->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"focal_attention\" is ", focal->type_name(), "; it must be an object"));
  }
  ConfigReader inner(*focal, "focal_attention");
  ASSIGN_OR_RETURN(const std::string mode, inner.String("mode"));
  if (mode == "constant") {
    RETURN_IF_ERROR(ReadTemperatures(inner, layer_count, setting));
  } else if (mode == "learned") {
    setting.mode = AttentionMode::kFocalLearned;
    RETURN_IF_ERROR(ReadLearned(inner, setting));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(inner.Name("mode"), " is \"", mode, "\"; it must be constant or learned"));
  }
  return inner.RefuseUnread();
}

absl::string_view TauMeanName(TauMean mean) {
  switch (mean) {
    case TauMean::kCausal:
      return "causal";
    case TauMean::kToken:
      return "token";
    case TauMean::kSequence:
      return "sequence";
  }
  return "";
}

std::string AttentionSetting::ToString() const {
  switch (mode) {
    case AttentionMode::kBaseline:
      return "baseline";
    case AttentionMode::kFocalConstant: {
      const bool uniform =
          std::all_of(temperatures.begin(), temperatures.end(), [&](double t) { return t == temperatures[0]; });
      if (uniform) return absl::StrCat("focal t=", ShortNumber(temperatures[0]));
      return absl::StrCat("focal t=", absl::StrJoin(temperatures, ",",
                                                    [](std::string* out, double t) { out->append(ShortNumber(t)); }));
    }
    case AttentionMode::kFocalLearned:
      return absl::StrCat("focal tau=[", ShortNumber(tau_min), ",", ShortNumber(tau_max), "] ", TauMeanName(tau_mean));
  }
  return "";
}

}  // namespace varifocal

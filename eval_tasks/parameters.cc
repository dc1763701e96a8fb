#include "eval_tasks/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"

namespace varifocal {
namespace {

absl::Status Refuse(absl::string_view name, absl::string_view value, absl::string_view rule) {
  return InvalidArgument(name, " is \"", value, "\"; ", rule);
}

// A JSON array of texts, or one text.
absl::StatusOr<std::vector<std::string>> ParseTextList(absl::string_view value) {
  if (value.empty() || value[0] != '[') return std::vector<std::string>{std::string(value)};
  ASSIGN_OR_RETURN(const Json list, ParseJson(value));
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) return InvalidArgument("not a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

// One value in its canonical form; `info` is its row.
absl::StatusOr<std::string> Canonical(const ParameterInfo& info, const std::string& value) {
  switch (info.type) {
    case ParameterType::kInteger: {
      const absl::StatusOr<int64_t> number = ParseInteger(value);
      if (!number.ok() || *number < info.low || *number > info.high) {
        return Refuse(
            info.name, value,
            absl::StrCat("it must be a whole number from ", std::llround(info.low), " to ", std::llround(info.high)));
      }
      return absl::StrCat(*number);
    }
    case ParameterType::kNumber: {
      const absl::StatusOr<double> number = ParseNumber(value);
      if (!number.ok() || *number < info.low || *number > info.high) {
        return Refuse(
            info.name, value,
            absl::StrCat("it must be a number from ", FormatNumber(info.low), " to ", FormatNumber(info.high)));
      }
      return FormatNumber(*number);
    }
    case ParameterType::kChoice: {
      if (std::find(info.choices.begin(), info.choices.end(), value) != info.choices.end()) return value;
      return Refuse(info.name, value,
                    absl::StrCat("it must be one of ", absl::StrJoin(info.choices, ", "),
                                 Nearest(value, info.choices).empty() ? "" : DidYouMean(value, info.choices)));
    }
    case ParameterType::kTextList: {
      const absl::StatusOr<std::vector<std::string>> list = ParseTextList(value);
      if (!list.ok()) return Refuse(info.name, value, "it must be a text or a JSON list of texts");
      const absl::StatusOr<std::string> text = DumpJson(Json(*list));
      if (!text.ok()) return Refuse(info.name, value, "it must be valid UTF-8");
      return *text;
    }
    case ParameterType::kText:
    case ParameterType::kPath:
      break;
  }
  if (value.empty()) return Refuse(info.name, value, "it must not be empty");
  return value;
}

}  // namespace

absl::StatusOr<Parameters> ValidateParameters(absl::string_view task, absl::Span<const ParameterInfo> known,
                                              const Parameters& given) {
  const auto refused = [&](const absl::Status& status, const std::string& name) {
    return WithField(Annotate(status, absl::StrCat("task \"", task, "\"")), name);
  };
  const std::vector<std::string> names = NamesOf(known);
  for (const auto& [name, value] : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return refused(InvalidArgument("unknown parameter \"", name, "\"", DidYouMean(name, names)), name);
  }
  Parameters complete;
  for (const ParameterInfo& info : known) {
    const auto it = given.find(info.name);
    if (it == given.end() && info.required) {
      return refused(InvalidArgument("the parameter \"", info.name, "\" is missing"), info.name);
    }
    if (it == given.end() && info.default_value.empty()) continue;
    absl::StatusOr<std::string> value = Canonical(info, it == given.end() ? info.default_value : it->second);
    if (!value.ok()) return refused(value.status(), info.name);
    complete[info.name] = *std::move(value);
  }
  return complete;
}

std::optional<double> FindNumber(const Parameters& parameters, absl::string_view name) {
  const auto it = parameters.find(std::string(name));
  if (it == parameters.end()) return std::nullopt;
  const absl::StatusOr<double> number = ParseNumber(it->second);
  VF_CHECK(number.ok(), "parameters are validated before they are used");
  return *number;
}

int GetInteger(const Parameters& parameters, absl::string_view name) {
  const std::optional<double> number = FindNumber(parameters, name);
  VF_CHECK(number.has_value(), "an integer parameter has a default or is required");
  return static_cast<int>(*number);
}

const std::string& GetText(const Parameters& parameters, absl::string_view name) {
  static const std::string empty;
  const auto it = parameters.find(std::string(name));
  return it == parameters.end() ? empty : it->second;
}

std::vector<std::string> GetTextList(const Parameters& parameters, absl::string_view name) {
  const std::string& text = GetText(parameters, name);
  if (text.empty()) return {};
  absl::StatusOr<std::vector<std::string>> list = ParseTextList(text);
  VF_CHECK(list.ok(), "parameters are validated before they are used");
  return *std::move(list);
}

absl::Status CheckRecordedSha256(const Parameters& parameters, absl::string_view path, absl::string_view sha256) {
  const std::string& recorded = GetText(parameters, "sha256");
  if (recorded.empty() || recorded == sha256) return absl::OkStatus();
  return FailedPrecondition(path, ": the SHA-256 of the data is not ", recorded, " as recorded in the job");
}

std::string FormatNumber(double value) {
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double value = 0;
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || !std::isfinite(value)) {
    return InvalidArgument("\"", text, "\" is not a finite number");
  }
  return value;
}

absl::StatusOr<int64_t> ParseInteger(absl::string_view text) {
  int64_t value = 0;
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a whole number of 64 bits"));
  }
  return value;
}

absl::StatusOr<int64_t> ParseTokenCount(absl::string_view text) {
  constexpr int64_t kUnit = 1024;
  absl::string_view digits = text;
  if (!absl::ConsumeSuffix(&digits, "K") && !absl::ConsumeSuffix(&digits, "k")) return ParseInteger(text);
  const absl::StatusOr<int64_t> count = ParseInteger(digits);
  if (count.ok() && *count >= 1 && *count <= std::numeric_limits<int64_t>::max() / kUnit) return *count * kUnit;
  return InvalidArgument("\"", text, "\" is not a number of tokens");
}

}  // namespace varifocal

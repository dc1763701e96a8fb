#include "eval_tasks/parameters.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "eval_tasks/suggest.h"

namespace varifocal {
namespace {

absl::Status Refuse(absl::string_view task, absl::string_view name, absl::string_view value, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat("task \"", task, "\": ", name, " is \"", value, "\"; ", rule));
}

// A JSON array of texts, or one text.
absl::StatusOr<std::vector<std::string>> ParseTextList(absl::string_view value) {
  if (value.empty() || value[0] != '[') return std::vector<std::string>{std::string(value)};
  ASSIGN_OR_RETURN(const Json list, ParseJson(value));
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) return absl::InvalidArgumentError("not a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

absl::StatusOr<std::string> Canonical(absl::string_view task, const ParameterInfo& info, const std::string& value) {
  switch (info.type) {
    case ParameterType::kInteger: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(value, &number) || number < info.low || number > info.high) {
        return Refuse(task, info.name, value,
                      absl::StrCat("it must be a whole number from ", info.low, " to ", info.high));
      }
      return absl::StrCat(number);
    }
    case ParameterType::kNumber: {
      const absl::StatusOr<double> number = ParseNumber(value);
      if (!number.ok() || *number < info.low || *number > info.high) {
        return Refuse(task, info.name, value, absl::StrCat("it must be a number from ", info.low, " to ", info.high));
      }
      return FormatNumber(*number);
    }
    case ParameterType::kChoice:
      for (const std::string& choice : info.choices) {
        if (choice == value) return value;
      }
      return Refuse(task, info.name, value, absl::StrCat("it must be one of ", absl::StrJoin(info.choices, ", ")));
    case ParameterType::kTextList: {
      const absl::StatusOr<std::vector<std::string>> list = ParseTextList(value);
      if (!list.ok()) return Refuse(task, info.name, value, "it must be a text or a JSON list of texts");
      const absl::StatusOr<std::string> text = DumpJson(Json(*list));
      if (!text.ok()) return Refuse(task, info.name, value, "it must be valid UTF-8");
      return *text;
    }
    case ParameterType::kText:
      break;
  }
  if (value.empty()) return Refuse(task, info.name, value, "it must not be empty");
  return value;
}

}  // namespace

absl::StatusOr<Parameters> ValidateParameters(absl::string_view task, absl::Span<const ParameterInfo> known,
                                              const Parameters& given) {
  std::vector<std::string> names;
  for (const ParameterInfo& info : known) names.push_back(info.name);
  for (const auto& [name, value] : given) {
    bool found = false;
    for (const std::string& candidate : names) found = found || candidate == name;
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat("task \"", task, "\": unknown parameter \"", name, "\"", DidYouMean(name, names)));
    }
  }
  Parameters complete;
  for (const ParameterInfo& info : known) {
    const auto it = given.find(info.name);
    if (it != given.end()) {
      ASSIGN_OR_RETURN(complete[info.name], Canonical(task, info, it->second));
    } else if (info.required) {
      return absl::InvalidArgumentError(
          absl::StrCat("task \"", task, "\": the parameter \"", info.name, "\" is missing"));
    } else if (!info.default_value.empty()) {
      ASSIGN_OR_RETURN(complete[info.name], Canonical(task, info, info.default_value));
    }
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
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": the SHA-256 of the data is not ", recorded, " as recorded in the job"));
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
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a finite number"));
  }
  return value;
}

}  // namespace varifocal

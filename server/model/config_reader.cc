#include "server/model/config_reader.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

thread_local ReadKeys* recorded_keys = nullptr;

}  // namespace

ReadKeys::ReadKeys() { recorded_keys = this; }
ReadKeys::~ReadKeys() { recorded_keys = nullptr; }

std::string ShownValue(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 60), "..");
  return text;
}

std::string ShortNumber(double value) {
  absl::StatusOr<std::string> text = DumpJson(Json(value));
  VF_CHECK(text.ok(), "settings are checked to be finite");
  return absl::EndsWith(*text, ".0") ? text->substr(0, text->size() - 2) : *text;
}

std::string ConfigReader::Place(absl::string_view key) const {
  return absl::StrCat(place_, place_.empty() ? "" : ".", key);
}

std::string ConfigReader::Name(absl::string_view key) const { return absl::StrCat("\"", Place(key), "\""); }

bool ConfigReader::Has(absl::string_view key) const {
  auto it = json_.find(std::string(key));
  return it != json_.end() && !it->is_null();
}

bool ConfigReader::IsPresent(absl::string_view key) const { return json_.contains(std::string(key)); }

const Json* ConfigReader::Take(absl::string_view key) {
  read_.emplace(key);
  if (recorded_keys != nullptr) recorded_keys->keys_.insert(absl::StrCat(place_, place_.empty() ? "" : ".", key));
  auto it = json_.find(std::string(key));
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

absl::StatusOr<int64_t> ConfigReader::Int(absl::string_view key, IntRange range, std::optional<int64_t> fallback) {
  const Json* value = Take(key);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return InvalidArgument(Name(key), " is missing");
  }
  if (!value->is_number_integer())
    return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must be an integer");
  const bool too_large = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(range.high);
  if (too_large || value->get<int64_t>() < range.low || value->get<int64_t>() > range.high)
    return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must lie in ", range.low, "..", range.high);
  return value->get<int64_t>();
}

absl::StatusOr<double> ConfigReader::Positive(absl::string_view key, std::optional<double> fallback) {
  return Number(key, false, fallback);
}

absl::StatusOr<double> ConfigReader::NonNegative(absl::string_view key, std::optional<double> fallback) {
  return Number(key, true, fallback);
}

absl::StatusOr<double> ConfigReader::Number(absl::string_view key, bool zero_allowed, std::optional<double> fallback) {
  const Json* value = Take(key);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return InvalidArgument(Name(key), " is missing");
  }
  const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(number) || number < 0 || (number == 0 && !zero_allowed)) {
    return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must be a ",
                           zero_allowed ? "non-negative" : "positive", ", finite number");
  }
  if (number != 0 && (number < kNumberMin || number > kNumberMax))
    return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must lie in ", kNumberMin, "..", kNumberMax);
  return number;
}

absl::StatusOr<bool> ConfigReader::Bool(absl::string_view key, bool fallback) {
  const Json* value = Take(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must be true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> ConfigReader::String(absl::string_view key, std::optional<std::string> fallback) {
  const Json* value = Take(key);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return InvalidArgument(Name(key), " is missing");
  }
  if (!value->is_string()) return InvalidArgument(Name(key), " is ", ShownValue(*value), "; it must be a string");
  return value->get<std::string>();
}

absl::Status ConfigReader::RequireValue(absl::string_view key, const Json& value) {
  const Json* found = Take(key);
  if (found == nullptr || *found == value) return absl::OkStatus();
  return Unimplemented(Name(key), " is ", ShownValue(*found), "; only ", ShownValue(value), " is supported");
}

absl::Status ConfigReader::RequireSame(absl::string_view key, const Json& value, absl::string_view other) {
  const Json* found = Take(key);
  if (found == nullptr || *found == value) return absl::OkStatus();
  return InvalidArgument(Name(key), " is ", ShownValue(*found), ", but by ", Name(other), " it is ", ShownValue(value));
}

void ConfigReader::Ignore(absl::Span<const char* const> keys) {
  for (const char* key : keys) read_.emplace(key);
}

absl::Status ConfigReader::RefuseUnread(bool may_be_ignored) const {
  for (const auto& [key, value] : json_.items()) {
    if (!read_.contains(key) && !value.is_null()) {
      return Unimplemented(Name(key), " is ", ShownValue(value), "; this key is unknown and would be ignored",
                           place_.empty() && may_be_ignored
                               ? absl::StrCat("; if it changes no answer, --ignore-config-key=", key, " loads it")
                               : std::string());
    }
  }
  return absl::OkStatus();
}

}  // namespace varifocal

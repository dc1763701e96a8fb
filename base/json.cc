#include "base/json.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int kDepthMax = 256;  // deeper than any real file; keeps destructors off the end of the stack

std::string Key(absl::string_view key) { return std::string(key); }

absl::Status WrongType(absl::string_view key, absl::string_view wanted, const Json& value) {
  return absl::InvalidArgumentError(absl::StrCat("\"", std::string(key), "\" must be ", std::string(wanted), ", not ",
                                                 value.type_name()));
}

const Json* FindValue(const Json& object, absl::string_view key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(Key(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

template <typename T>
absl::StatusOr<T> Require(absl::StatusOr<std::optional<T>> found, absl::string_view key) {
  if (!found.ok()) return found.status();
  if (!found->has_value()) return absl::InvalidArgumentError(absl::StrCat("\"", std::string(key), "\" is missing"));
  return std::move(**found);
}

bool AllFinite(const Json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  if (value.is_structured()) {
    for (const Json& item : value) {
      if (!AllFinite(item)) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDepthMax && problem.empty()) problem = absl::StrCat("nested deeper than ", kDepthMax, " levels");
    if (!problem.empty()) return false;
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) problem = absl::StrCat("the key \"", key, "\" stands twice in one object");
    }
    return true;
  };
  Json result;
  try {
    result = Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    if (problem.empty()) return absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", error.byte));
  } catch (const Json::exception& error) {
    if (problem.empty()) return absl::InvalidArgumentError(absl::StrCat("not JSON: ", error.what()));
  }
  if (!problem.empty()) return absl::InvalidArgumentError(problem);
  return result;
}

absl::StatusOr<std::string> DumpJson(const Json& value) {
  if (!AllFinite(value)) return absl::InvalidArgumentError("a number is not finite, which JSON cannot express");
  try {
    return value.dump();
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError("a string is not valid UTF-8, which JSON requires");
  }
}

absl::StatusOr<std::optional<std::string>> FindString(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(key, "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<std::optional<int64_t>> FindInt(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) return WrongType(key, "an integer", *value);
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(key), "\" is ", value->get<uint64_t>(), ", above the limit ", INT64_MAX));
  }
  return value->get<int64_t>();
}

absl::StatusOr<std::optional<double>> FindDouble(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return WrongType(key, "a number", *value);
  return value->get<double>();
}

absl::StatusOr<std::optional<bool>> FindBool(const Json& object, absl::string_view key) {
  const Json* value = FindValue(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return WrongType(key, "true or false", *value);
  return value->get<bool>();
}

absl::StatusOr<std::string> GetString(const Json& object, absl::string_view key) {
  return Require(FindString(object, key), key);
}
absl::StatusOr<int64_t> GetInt(const Json& object, absl::string_view key) { return Require(FindInt(object, key), key); }
absl::StatusOr<double> GetDouble(const Json& object, absl::string_view key) {
  return Require(FindDouble(object, key), key);
}
absl::StatusOr<bool> GetBool(const Json& object, absl::string_view key) { return Require(FindBool(object, key), key); }

}  // namespace varifocal

// Every small change of a valid JSON document: each key removed, each value replaced by values of all types, and a key that nothing
// knows in each object. For tests of readers of configuration files: a change is accepted, or rejected by name.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "gtest/gtest.h"

namespace varifocal {
inline namespace testing_support {

inline constexpr char kUnknownKey[] = "sparkle";

struct JsonChange {
  std::string path;  // "/model/vocab"
  std::string what;  // "removed", "unknown key", or the new value
  Json changed;      // the whole document
};

// `edits` is an object: its keys are set, or removed where the value is "-".
inline Json WithEdits(Json json, const char* edits) {
  const absl::StatusOr<Json> changes = ParseJson(edits);
  EXPECT_TRUE(changes.ok()) << edits;
  for (const auto& [key, value] : changes->items()) {
    if (value == "-") {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  return json;
}

inline void ForEachChange(const Json& valid, const std::function<void(const JsonChange&)>& use,
                          const std::string& path = "") {
  const Json& here = valid[Json::json_pointer(path)];
  const auto changed = [&](const std::string& at, const std::string& what, const std::function<void(Json&)>& change) {
    Json document = valid;
    change(document);
    use({at, what, std::move(document)});
  };
  if (!path.empty()) {
    const Json values[] = {
        nullptr, true, false, 7, -1, 0.5, 1e300, UINT64_MAX, "", "x", Json::array(), Json::array({1}), Json::object()};
    for (const Json& value : values) {
      changed(path, value.dump(), [&](Json& document) { document[Json::json_pointer(path)] = value; });
    }
  }
  if (here.is_object()) {
    const std::string unknown = absl::StrCat(path, "/", kUnknownKey);
    changed(unknown, "unknown key", [&](Json& document) { document[Json::json_pointer(unknown)] = 7; });
  }
  if (!here.is_structured()) return;
  for (const auto& item : here.items()) {
    const std::string below = absl::StrCat(path, "/", item.key());
    changed(below, "removed", [&](Json& document) {
      Json& parent = document[Json::json_pointer(path)];
      if (parent.is_object()) {
        parent.erase(item.key());
      } else {
        parent.erase(std::stoul(item.key()));
      }
    });
    ForEachChange(valid, use, below);
  }
}

}  // namespace testing_support
}  // namespace varifocal

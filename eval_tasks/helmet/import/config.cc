#include "eval_tasks/helmet/import/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tokenizer/utf8.h"

namespace varifocal::helmet {
namespace {

// A value that is not null.
struct Value {
  YAML::Node node;
  bool IsPlain() const { return node.Tag() != "!"; }  // not quoted
};

bool IsAbsent(const YAML::Node& node) {
  if (node.IsNull()) return true;
  if (!node.IsScalar() || node.Tag() == "!") return false;
  const std::string& text = node.Scalar();
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// PyYAML's truth values, which are those of YAML 1.1; Python's own where quoted.
std::optional<bool> Truth(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") return true;
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  return std::nullopt;
}

// A whole number as PyYAML parses it in a plain scalar (0x10, 010, 0b11, 1_000), or else as Python's int() does.
std::optional<int64_t> WholeNumber(absl::string_view text, bool is_plain) {
  text = absl::StripAsciiWhitespace(text);
  const bool is_negative = absl::ConsumePrefix(&text, "-");
  if (!is_negative) absl::ConsumePrefix(&text, "+");
  if (text.empty() || !absl::ascii_isdigit(text[0])) return std::nullopt;
  std::string digits = absl::StrReplaceAll(text, {{"_", ""}});
  int base = 10;
  if (is_plain && digits.size() > 1 && digits[0] == '0') {
    base = digits[1] == 'x' ? 16 : digits[1] == 'b' ? 2 : 8;
    digits.erase(0, base == 8 ? 1 : 2);
  }
  int64_t number = 0;
  if (!absl::numbers_internal::safe_strtoi_base(digits, &number, base)) return std::nullopt;
  return is_negative ? -number : number;
}

// Unsupported options, and the spelling of upstream's default in a configuration.
struct Refusal {
  const char* key;
  bool (*is_harmless)(const std::string& text);
  const char* reason;
};
bool IsFalse(const std::string& text) { return Truth(text) == false; }
bool IsZero(const std::string& text) { return WholeNumber(text, true) == 0; }
bool IsNothing(const std::string&) { return false; }
constexpr Refusal kRefusals[] = {
    {"do_sample", IsFalse,
     "upstream's sampling cannot be reproduced; leave it out, and use "
     "--sampling-temperature of `varifocal submit`"},
    {"generation_min_length", IsZero, "a minimum answer length is not supported; leave it out"},
    {"thinking", IsFalse, "removal of thinking output is not supported; leave it out"},
    {"rope_theta", IsNothing, "overriding the checkpoint is not supported; leave it out"},
};

class ConfigReader {
 public:
  explicit ConfigReader(const std::string& name) : name_(name) {}

  absl::Status Read(absl::string_view yaml) {
    if (ValidUtf8Prefix(yaml) != yaml.size()) {
      return InvalidArgument(name_, ": byte ", ValidUtf8Prefix(yaml) + 1, " is not UTF-8");
    }
    YAML::Node root;
    try {
      root = YAML::Load(std::string(yaml));
    } catch (const YAML::Exception& error) {  // yaml-cpp throws; exceptions are caught here
      return InvalidArgument(name_, ":", error.mark.line + 1, ": is not YAML: ", error.msg);
    }
    if (!root.IsMap()) return InvalidArgument(name_, ":1: is not a mapping of \"key: value\"");
    for (const auto& pair : root) {
      const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
      if (key == "<<") {  // PyYAML merges them, yaml-cpp does not
        return InvalidArgument(name_, ":", pair.first.Mark().line + 1,
                               ": a merge key (<<) is not supported; write its keys out");
      }
      if (!lines_.emplace(key, pair.first.Mark().line + 1).second) {
        return InvalidArgument(name_, ":", pair.first.Mark().line + 1, ": the key \"", key, "\" is given twice");
      }
      if (!IsAbsent(pair.second)) values_[key] = {pair.second};  // null is treated as absent
    }
    for (const Refusal& refusal : kRefusals) {
      ASSIGN_OR_RETURN(const std::optional<std::string> text, Text(refusal.key));
      if (text.has_value() && !refusal.is_harmless(*text)) return Error(refusal.key, *text, refusal.reason);
    }
    return absl::OkStatus();
  }

  absl::Status Error(const std::string& key, absl::string_view value, absl::string_view what) const {
    return InvalidArgument(name_, ":", lines_.at(key), ": ", key, " is \"", value, "\": ", what);
  }

  absl::StatusOr<std::optional<std::string>> Text(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    if (!found->second.node.IsScalar()) {
      return InvalidArgument(name_, ":", lines_.at(key), ": ", key, " is a ",
                             found->second.node.IsMap() ? "mapping" : "list", ", not a text");
    }
    return found->second.node.Scalar();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& key) const {
    ASSIGN_OR_RETURN(const std::optional<std::string> text, Text(key));
    if (!text.has_value()) return std::vector<std::string>();
    return std::vector<std::string>(absl::StrSplit(*text, ','));
  }

  absl::StatusOr<bool> Bool(const std::string& key) const {
    ASSIGN_OR_RETURN(const std::optional<std::string> text, Text(key));
    if (!text.has_value()) return false;
    const std::optional<bool> value = Truth(*text);
    if (!value.has_value()) return Error(key, *text, "it must be true or false");
    return *value;
  }

  // One number per dataset, or one for all; unchanged where the key is absent.
  absl::Status Numbers(const std::string& key, size_t count, int64_t limit,
                       const std::function<void(size_t index, int64_t number)>& set) const {
    ASSIGN_OR_RETURN(const std::optional<std::string> text, Text(key));
    if (!text.has_value()) return absl::OkStatus();
    const std::vector<std::string> parts = absl::StrSplit(*text, ',');
    if (parts.size() != 1 && parts.size() != count) {
      return Error(key, *text, absl::StrCat("it must have 1 entry or ", count));
    }
    for (size_t i = 0; i < count; ++i) {
      const bool is_plain = parts.size() == 1 && values_.at(key).IsPlain();
      const std::optional<int64_t> number = WholeNumber(parts[parts.size() == 1 ? 0 : i], is_plain);
      if (!number.has_value() || *number < 0 || *number > limit) {
        return Error(key, *text, absl::StrCat("each entry must be a whole number from 0 to ", limit));
      }
      set(i, *number);
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  std::map<std::string, int> lines_;
  std::map<std::string, Value> values_;
};

// Used in file names.
bool IsDatasetName(absl::string_view name) {
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ParseConfig(absl::string_view yaml, const std::string& name) {
  ConfigReader reader(name);
  RETURN_IF_ERROR(reader.Read(yaml));
  ASSIGN_OR_RETURN(const std::vector<std::string> datasets, reader.List("datasets"));
  ASSIGN_OR_RETURN(const std::vector<std::string> tests, reader.List("test_files"));
  ASSIGN_OR_RETURN(const std::vector<std::string> demos, reader.List("demo_files"));
  if (datasets.empty() || tests.size() != datasets.size() || demos.size() != datasets.size()) {
    return InvalidArgument(name, ": datasets, test_files and demo_files have ", datasets.size(), ", ", tests.size(),
                           " and ", demos.size(), " entries; they must have as many, and at least 1");
  }
  ConfigEntry common;
  common.config = name;
  ASSIGN_OR_RETURN(common.chat, reader.Bool("use_chat_template"));
  ASSIGN_OR_RETURN(common.stop_newline, reader.Bool("stop_newline"));
  ASSIGN_OR_RETURN(common.stop_new_line, reader.Bool("stop_new_line"));
  ASSIGN_OR_RETURN(common.system_message, reader.Text("system_message"));
  constexpr int64_t kIntMax = std::numeric_limits<int>::max();
  RETURN_IF_ERROR(reader.Numbers("shots", 1, kIntMax, [&](size_t, int64_t n) { common.shots = n; }));
  RETURN_IF_ERROR(
      reader.Numbers("max_test_samples", 1, kIntMax, [&](size_t, int64_t n) { common.max_test_samples = n; }));
  RETURN_IF_ERROR(
      reader.Numbers("seed", 1, std::numeric_limits<uint32_t>::max(), [&](size_t, int64_t n) { common.seed = n; }));
  std::vector<ConfigEntry> entries(datasets.size(), common);
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (!IsDatasetName(datasets[i])) {
      return InvalidArgument(name, ": datasets has \"", datasets[i], "\", which is no name");
    }
    entries[i].dataset = datasets[i];
    entries[i].test_file = tests[i];
    entries[i].demo_file = demos[i];
  }
  RETURN_IF_ERROR(reader.Numbers("input_max_length", entries.size(), kIntMax,
                                 [&](size_t i, int64_t n) { entries[i].input_max_length = n; }));
  RETURN_IF_ERROR(reader.Numbers("generation_max_length", entries.size(), kIntMax,
                                 [&](size_t i, int64_t n) { entries[i].generation_max_length = n; }));
  return entries;
}

}  // namespace varifocal::helmet

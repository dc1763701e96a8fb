#include "client/suite_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/console.h"
#include "client/files.h"
#include "client/flags.h"
#include "client/usage.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/task.h"
#include "eval_tasks/text_bytes.h"
#include "wire/job_spec.h"

namespace varifocal::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kFileBytesMax = 1 << 20;  // a suite is a page or two; a larger file is an error

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string Kind(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "nothing";
  return absl::StrCat("\"", node.Scalar(), "\"");
}

// A scalar without quotes: only those may be numbers and booleans.
bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

bool LooksLikeNumber(const YAML::Node& node) {
  double value;
  return IsPlain(node) && absl::SimpleAtod(node.Scalar(), &value);
}

bool LooksLikeTruth(const YAML::Node& node) {
  return IsPlain(node) && (node.Scalar() == "true" || node.Scalar() == "false");
}

// The line (from 0) with a tab before its text that explains an error in `line`: the nearest one before it, else after it.
std::optional<int> TabNear(absl::string_view yaml, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(yaml, '\n');
  const auto has_tab = [&](int i) {
    return lines[i].substr(0, lines[i].find_first_not_of(" \t-")).find('\t') != absl::string_view::npos;
  };
  const int count = static_cast<int>(lines.size());
  for (int i = std::min(line, count - 1); i >= 0; --i) {
    if (has_tab(i)) return i;
  }
  for (int i = std::max(line, 0); i < count; ++i) {
    if (has_tab(i)) return i;
  }
  return std::nullopt;
}

class SuiteParser {
 public:
  explicit SuiteParser(absl::string_view origin) : origin_(origin) {}

  absl::StatusOr<v1::SuiteConfig> Parse(absl::string_view yaml) {
    if (yaml.size() > kFileBytesMax) {
      return UsageError(origin_, ": has ", yaml.size(), " bytes; a suite has at most ", kFileBytesMax, ".");
    }
    if (const absl::Status text = CheckIsText(origin_, yaml); !text.ok()) {
      return UsageError(text.message(), EndsSentence(text.message()) ? "" : ".");
    }
    std::vector<YAML::Node> documents;
    try {
      documents = YAML::LoadAll(std::string(yaml));
    } catch (const YAML::Exception& error) {  // yaml-cpp reports by exceptions; they end here
      if (const std::optional<int> line = TabNear(yaml, error.mark.line); line.has_value()) {
        return UsageError(origin_, ":", *line + 1, ": a tab before the text; YAML wants spaces.");
      }
      return UsageError(origin_, ":", error.mark.line + 1, ": is not YAML: ", error.msg, ".");
    }
    if (documents.size() > 1) {
      return ErrorAt(documents[1], absl::StrCat("one suite a file, found ", documents.size(), " documents"));
    }
    v1::SuiteConfig config;
    if (documents.empty() || documents[0].IsNull()) return UsageError(origin_, ":1: the suite is empty.");
    const YAML::Node& root = documents[0];
    RETURN_IF_ERROR(ReadMessage(root, "the suite", &config));
    for (int i = 0; i < config.tasks_size(); ++i) RETURN_IF_ERROR(CheckShape(root["tasks"][i], config.tasks(i)));
    const absl::Status valid = ValidateSuiteSpec(FromProto(config)).status();
    if (!valid.ok()) return ErrorAt(NodeAt(root, FieldOf(valid), root), valid.message());
    return config;
  }

 private:
  absl::Status ErrorAt(const YAML::Node& node, absl::string_view what) const {
    return UsageError(origin_, ":", node.Mark().line + 1, ": ", what, EndsSentence(what) ? "" : ".");
  }
  static bool EndsSentence(absl::string_view text) { return absl::EndsWith(text, "?") || absl::EndsWith(text, "."); }

  // "samples", or "a key of samples_at".
  static std::string Label(const FieldDescriptor& field) {
    const Descriptor& type = *field.containing_type();
    if (!type.options().map_entry()) return absl::StrCat("\"", field.name(), "\"");
    for (int i = 0; i < type.containing_type()->field_count(); ++i) {
      const FieldDescriptor& map = *type.containing_type()->field(i);
      if (map.message_type() == &type) return absl::StrCat("a ", field.name(), " of \"", map.name(), "\"");
    }
    return std::string(field.name());
  }

  // The items of "lengths", and the keys of "samples_at".
  static bool IsContextLength(const FieldDescriptor& field) {
    const std::string& of = field.containing_type()->name();
    return field.name() == "lengths" || (of == "SamplesAtEntry" && field.name() == "key");
  }

  absl::Status ReadMessage(const YAML::Node& node, absl::string_view what, Message* message) {
    if (!node.IsMap()) return ErrorAt(node, absl::StrCat(what, " must be a mapping, not ", Kind(node)));
    const Descriptor& type = *message->GetDescriptor();
    std::map<std::string, int> seen;  // key -> line
    for (const auto& pair : node) {
      RETURN_IF_ERROR(CheckKey(pair.first, pair.second, &seen));
      const std::string key = pair.first.Scalar();
      const FieldDescriptor* field = type.FindFieldByName(key);
      if (field == nullptr) {
        return ErrorAt(pair.first, absl::StrCat("unknown key \"", key, "\"", DidYouMean(key, FieldNames(type))));
      }
      RETURN_IF_ERROR(ReadField(pair.second, *field, message));
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(const YAML::Node& node, const FieldDescriptor& field, Message* message) {
    if (field.is_map()) return ReadMap(node, field, message);
    if (!field.is_repeated()) return ReadValue(node, field, message);
    if (!node.IsSequence()) {
      return ErrorAt(node, absl::StrCat("\"", field.name(), "\" must be a list, not ", Kind(node)));
    }
    for (const YAML::Node& item : node) RETURN_IF_ERROR(ReadValue(item, field, message));
    return absl::OkStatus();
  }

  // Of whole numbers, or of texts: parameters of a task kind, which validates their values.
  absl::Status ReadMap(const YAML::Node& node, const FieldDescriptor& field, Message* message) {
    if (!node.IsMap()) {
      return ErrorAt(node, absl::StrCat("\"", field.name(), "\" must be a mapping, not ", Kind(node)));
    }
    std::map<std::string, int> seen;
    std::set<int> numbers;
    for (const auto& pair : node) {
      RETURN_IF_ERROR(CheckKey(pair.first, pair.second, &seen));
      Message* entry = message->GetReflection()->AddMessage(message, &field);
      const Descriptor& type = *entry->GetDescriptor();
      if (type.map_key()->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        RETURN_IF_ERROR(ReadValue(pair.first, *type.map_key(), entry));
        RETURN_IF_ERROR(ReadValue(pair.second, *type.map_value(), entry));
        const int key = entry->GetReflection()->GetInt32(*entry, type.map_key());
        if (!numbers.insert(key).second) {  // "08" and "8" are other keys of a file, and the same of a map
          return ErrorAt(pair.first, absl::StrCat("\"", field.name(), "\" names ", key, " twice"));
        }
        continue;
      }
      ASSIGN_OR_RETURN(const std::string value, ParameterText(pair.first.Scalar(), pair.second));
      entry->GetReflection()->SetString(entry, type.map_key(), pair.first.Scalar());
      entry->GetReflection()->SetString(entry, type.map_value(), value);
    }
    return absl::OkStatus();
  }

  // YAML can write a NUL as "\0".
  absl::Status CheckHasNoNul(absl::string_view name, const YAML::Node& text) const {
    const size_t nul = text.Scalar().find('\0');
    if (nul == std::string::npos) return absl::OkStatus();
    return ErrorAt(text, absl::StrCat(name, " has a NUL at its byte ", nul + 1, ", which no text has"));
  }

  // A scalar unchanged; a list of scalars as a JSON array of strings.
  absl::StatusOr<std::string> ParameterText(const std::string& key, const YAML::Node& value) const {
    if (value.IsScalar()) {
      RETURN_IF_ERROR(CheckHasNoNul(absl::StrCat("\"", key, "\""), value));
      return value.Scalar();
    }
    if (!value.IsSequence()) {
      return ErrorAt(value, absl::StrCat("\"", key, "\" must be a value or a list of texts, not ", Kind(value)));
    }
    Json list = Json::array();
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) {
        return ErrorAt(item, absl::StrCat("\"", key, "\" must be a list of texts; one of them is ", Kind(item)));
      }
      RETURN_IF_ERROR(CheckHasNoNul(absl::StrCat("a text of \"", key, "\""), item));
      list.push_back(item.Scalar());
    }
    const absl::StatusOr<std::string> text = DumpJson(list);
    if (!text.ok()) return ErrorAt(value, text.status().message());
    return *text;
  }

  // A key is a scalar, occurs once in its mapping and has a value (without a position if it is missing).
  absl::Status CheckKey(const YAML::Node& key, const YAML::Node& value, std::map<std::string, int>* seen) const {
    if (!key.IsScalar()) return ErrorAt(key, absl::StrCat("a key must be a word, not ", Kind(key)));
    RETURN_IF_ERROR(CheckHasNoNul("a key", key));
    if (value.IsNull()) return ErrorAt(key, absl::StrCat("\"", key.Scalar(), "\" has no value"));
    const auto [earlier, is_new] = seen->emplace(key.Scalar(), key.Mark().line + 1);
    if (is_new) return absl::OkStatus();
    return ErrorAt(key, absl::StrCat("\"", key.Scalar(), "\" is given twice, first in line ", earlier->second));
  }

  // Sets a field to one value, or appends it if the field is repeated.
  absl::Status ReadValue(const YAML::Node& node, const FieldDescriptor& field, Message* message) {
    const Reflection& reflection = *message->GetReflection();
    auto wrong_type = [&](absl::string_view wanted) {
      return ErrorAt(node, absl::StrCat(Label(field), " must be ", wanted, ", not ", Kind(node)));
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const bool is_named = node.IsScalar() && field.message_type() == v1::FilterConfig::descriptor();
        Message* inner =
            field.is_repeated() ? reflection.AddMessage(message, &field) : reflection.MutableMessage(message, &field);
        // A filter without further keys may be its name.
        if (is_named) return ReadValue(node, *field.message_type()->FindFieldByName("filter"), inner);
        return ReadMessage(node, absl::StrCat("\"", field.name(), "\""), inner);
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        if (!node.IsScalar()) return wrong_type("text");
        RETURN_IF_ERROR(CheckHasNoNul(Label(field), node));
        if (LooksLikeNumber(node) || LooksLikeTruth(node)) {
          return ErrorAt(node, absl::StrCat("\"", field.name(), "\" must be text, not ", node.Scalar(),
                                            " (put quotes around it if it is meant as text)"));
        }
        field.is_repeated() ? reflection.AddString(message, &field, node.Scalar())
                            : reflection.SetString(message, &field, node.Scalar());
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        if (!LooksLikeTruth(node)) return wrong_type("true or false");
        reflection.SetBool(message, &field, node.Scalar() == "true");
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64: {
        const bool is_length = IsContextLength(field);
        const absl::StatusOr<int64_t> value = ParseInteger(node.Scalar());
        if (IsPlain(node) && value.ok()) return ReadInteger(node, field, *value, message);
        if (!is_length) return wrong_type("a whole number");
        const absl::StatusOr<int> length = ParseContextLength(node.Scalar());  // as --lengths
        if (!length.ok() || !IsPlain(node)) return wrong_type("a whole number, or one with K for 1,024 tokens");
        return ReadInteger(node, field, *length, message);
      }
      default:
        return Internal("config.proto has an unsupported type for ", field.full_name());
    }
  }

  absl::Status ReadInteger(const YAML::Node& node, const FieldDescriptor& field, int64_t value, Message* message) {
    const bool is_narrow = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    if (is_narrow && (value < INT32_MIN || value > INT32_MAX)) {
      return ErrorAt(node,
                     absl::StrCat(Label(field), " is ", value, "; it must be from ", INT32_MIN, " to ", INT32_MAX));
    }
    const Reflection& reflection = *message->GetReflection();
    if (field.is_repeated()) {
      reflection.AddInt32(message, &field, value);
    } else if (is_narrow) {
      reflection.SetInt32(message, &field, value);
    } else {
      reflection.SetInt64(message, &field, value);
    }
    return absl::OkStatus();
  }

  // What a message does not tell apart: an absent kind from one that is the name, no number from 0, a list from its text.
  absl::Status CheckShape(const YAML::Node& node, const v1::TaskConfig& task) const {
    if (task.kind().empty()) return ErrorAt(node, "the task has no \"kind\"; `varifocal tasks` lists them");
    if (task.has_samples() && task.samples() == 0) {
      return ErrorAt(node["samples"], "\"samples\" is 0; leave it out for the suite's number");
    }
    const TaskKind* kind = FindTaskKind(task.kind());
    if (kind == nullptr) return absl::OkStatus();
    const YAML::Node parameters = node["parameters"];
    for (const auto& pair : parameters) {
      const std::string& name = pair.first.Scalar();
      const auto takes_list = [&](const ParameterInfo& info) {
        return info.name == name && info.type == ParameterType::kTextList;
      };
      if (pair.second.IsSequence() && std::none_of(kind->parameters.begin(), kind->parameters.end(), takes_list)) {
        return ErrorAt(pair.second, absl::StrCat("\"", name, "\" must be a single value, not a list"));
      }
    }
    return absl::OkStatus();
  }

  // The key of a field such as "tasks[0].parameters.depth", or `place` where the file does not have the rest of its path.
  static YAML::Node NodeAt(const YAML::Node& node, absl::string_view field, const YAML::Node& place) {
    if (node.IsSequence()) {
      const size_t end = field.find(']');
      size_t index = 0;
      if (end == absl::string_view::npos || !absl::SimpleAtoi(field.substr(1, end - 1), &index)) return place;
      absl::string_view rest = field.substr(end + 1);
      absl::ConsumePrefix(&rest, ".");
      return NodeAt(node[index], rest, node[index]);
    }
    if (!node.IsMap()) return place;
    for (const auto& pair : node) {
      if (pair.first.Scalar() == field) return pair.first;  // before prefixes: a key may have dots
    }
    for (const auto& pair : node) {
      absl::string_view rest = field;
      if (!absl::ConsumePrefix(&rest, pair.first.Scalar()) || rest.empty()) continue;
      if (absl::ConsumePrefix(&rest, ".") || rest[0] == '[') return NodeAt(pair.second, rest, pair.first);
    }
    return place;
  }

  std::string origin_;
};

}  // namespace

absl::StatusOr<SuiteSpec> ToSuiteSpec(const v1::SuiteConfig& config) {
  absl::StatusOr<SuiteSpec> valid = ValidateSuiteSpec(FromProto(config));
  if (!valid.ok()) return AsUsageError(valid.status());
  return valid;
}

absl::StatusOr<v1::SuiteConfig> ParseSuite(absl::string_view yaml, absl::string_view origin) {
  return SuiteParser(origin).Parse(yaml);
}

absl::StatusOr<v1::SuiteConfig> ReadSuite(const std::string& suite) {
  if (const std::optional<absl::string_view> text = BuiltInSuiteText(suite); text.has_value()) {
    return ParseSuite(*text, suite);
  }
  if (!absl::StrContains(suite, "/") && !absl::StrContains(suite, ".")) {
    return UsageError("No suite is called \"", suite, "\" (a file is named by its path, like ./", suite, ".yaml)",
                      DidYouMean(suite, BuiltInSuiteNames()));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(suite));
  ASSIGN_OR_RETURN(v1::SuiteConfig config, ParseSuite(text, suite));
  // The daemon has another working directory.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(suite, error).parent_path();
  if (!error) config.set_folder((folder / config.folder()).string());
  ResolvePaths(&config);
  return config;
}

}  // namespace varifocal::client

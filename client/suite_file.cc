#include "client/suite_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/console.h"
#include "client/files.h"
#include "client/flags.h"
#include "client/usage.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/suggest.h"
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

template <typename Row>
std::vector<std::string> NamesOf(absl::Span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
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

// A lower and an upper limit for whole numbers, by the field's full name.
struct Limits {
  int64_t low;
  int64_t high;
};

const std::map<std::string, Limits>& FieldLimits() {
  static const std::map<std::string, Limits> limits = {
      {"varifocal.v1.SuiteConfig.lengths", {1, kContextLengthMax}},
      {"varifocal.v1.SuiteConfig.samples", {1, kSampleCountMax}},
      {"varifocal.v1.TaskConfig.samples", {1, kSampleCountMax}},
      {"varifocal.v1.SuiteConfig.SamplesAtEntry.key", {1, kContextLengthMax}},
      {"varifocal.v1.SuiteConfig.SamplesAtEntry.value", {1, kSampleCountMax}},
      {"varifocal.v1.TaskConfig.SamplesAtEntry.key", {1, kContextLengthMax}},
      {"varifocal.v1.TaskConfig.SamplesAtEntry.value", {1, kSampleCountMax}},
  };
  return limits;
}

// Which line up to `line` (from 0), the nearest one, has a tab before its text, for an error there; empty where none has.
std::string TabBefore(absl::string_view yaml, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(yaml, '\n');
  for (int i = std::min(line, static_cast<int>(lines.size()) - 1); i >= 0; --i) {
    if (lines[i].substr(0, lines[i].find_first_not_of(" \t-")).find('\t') != absl::string_view::npos) {
      return absl::StrCat("; line ", i + 1, " has a tab before its text, and YAML is indented with spaces alone");
    }
  }
  return "";
}

class SuiteParser {
 public:
  explicit SuiteParser(absl::string_view origin) : origin_(origin) {}

  absl::StatusOr<v1::SuiteConfig> Parse(absl::string_view yaml) {
    if (yaml.size() > kFileBytesMax) {
      return UsageError(
          absl::StrCat(origin_, ": has ", yaml.size(), " bytes; a suite has at most ", kFileBytesMax, "."));
    }
    if (const absl::Status text = CheckIsText(origin_, yaml); !text.ok()) {
      return UsageError(absl::StrCat(text.message(), EndsSentence(text.message()) ? "" : "."));
    }
    std::vector<YAML::Node> documents;
    try {
      documents = YAML::LoadAll(std::string(yaml));
    } catch (const YAML::Exception& error) {  // yaml-cpp reports by exceptions; they end here
      return UsageError(absl::StrCat(origin_, ":", error.mark.line + 1, ": is not YAML: ", error.msg,
                                     TabBefore(yaml, error.mark.line), "."));
    }
    if (documents.size() > 1) {
      return ErrorAt(documents[1], absl::StrCat("one suite a file, found ", documents.size(), " documents"));
    }
    v1::SuiteConfig config;
    if (documents.empty() || documents[0].IsNull()) return UsageError(absl::StrCat(origin_, ":1: the suite is empty."));
    const YAML::Node& root = documents[0];
    RETURN_IF_ERROR(ReadMessage(root, "the suite", &config));
    RETURN_IF_ERROR(CheckSuite(root, config));
    return config;
  }

 private:
  absl::Status ErrorAt(const YAML::Node& node, absl::string_view what) const {
    return UsageError(absl::StrCat(origin_, ":", node.Mark().line + 1, ": ", what, EndsSentence(what) ? "" : "."));
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
    for (const auto& pair : node) {
      RETURN_IF_ERROR(CheckKey(pair.first, pair.second, &seen));
      Message* entry = message->GetReflection()->AddMessage(message, &field);
      const Descriptor& type = *entry->GetDescriptor();
      if (type.map_key()->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        RETURN_IF_ERROR(ReadValue(pair.first, *type.map_key(), entry));
        RETURN_IF_ERROR(ReadValue(pair.second, *type.map_value(), entry));
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
        Message* inner =
            field.is_repeated() ? reflection.AddMessage(message, &field) : reflection.MutableMessage(message, &field);
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
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const std::optional<double> value = IsPlain(node) ? ReadDouble(node.Scalar()) : std::nullopt;
        if (!value.has_value()) return wrong_type("a finite number");
        reflection.SetDouble(message, &field, *value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t value = 0;
        if (!IsPlain(node) || !absl::SimpleAtoi(node.Scalar(), &value)) return wrong_type("a whole number");
        return ReadInteger(node, field, value, message);
      }
      default:
        return absl::InternalError(absl::StrCat("config.proto has an unsupported type for ", field.full_name()));
    }
  }

  absl::Status ReadInteger(const YAML::Node& node, const FieldDescriptor& field, int64_t value, Message* message) {
    const bool is_narrow = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    Limits limits = is_narrow ? Limits{INT32_MIN, INT32_MAX} : Limits{INT64_MIN, INT64_MAX};
    const auto stated = FieldLimits().find(field.full_name());
    if (stated != FieldLimits().end()) limits = stated->second;
    if (value < limits.low || value > limits.high) {
      return ErrorAt(node,
                     absl::StrCat(Label(field), " is ", value, "; it must be from ", limits.low, " to ", limits.high));
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

  absl::Status CheckSuite(const YAML::Node& root, const v1::SuiteConfig& config) {
    if (config.name().empty()) return ErrorAt(root, "the suite has no \"name\"");
    RETURN_IF_ERROR(CheckNameAt(root["name"], "suite"));
    if (config.lengths().empty()) return ErrorAt(root, "the suite has no \"lengths\"; it needs at least one");
    RETURN_IF_ERROR(CheckLengths(root["lengths"]));
    RETURN_IF_ERROR(CheckSamplesAt(root["samples_at"], config));
    if (config.tasks().empty()) return ErrorAt(root, "the suite has no \"tasks\"; it needs at least one");
    std::map<std::string, int> lines;
    for (int i = 0; i < config.tasks_size(); ++i) {
      const YAML::Node node = root["tasks"][i];
      const v1::TaskConfig& task = config.tasks(i);
      RETURN_IF_ERROR(CheckTask(node, task));
      RETURN_IF_ERROR(CheckSamplesAt(node["samples_at"], config));
      const std::string name = task.name().empty() ? task.kind() : task.name();
      const auto [earlier, is_new] = lines.emplace(name, node.Mark().line + 1);
      if (!is_new) {
        return ErrorAt(node, absl::StrCat("the task name \"", name, "\" is given twice, first in line ",
                                          earlier->second, "; give one of them another \"name\""));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckNameAt(const YAML::Node& node, absl::string_view what) const {
    if (!node.IsDefined()) return absl::OkStatus();
    const absl::Status status = CheckName(what, node.Scalar());
    return status.ok() ? status : ErrorAt(node, status.message());
  }

  absl::Status CheckLengths(const YAML::Node& node) const {
    std::set<int> lengths;
    if (!node.IsDefined()) return absl::OkStatus();
    for (const YAML::Node& item : node) {
      int length = 0;  // as ReadValue read it
      VF_CHECK(absl::SimpleAtoi(item.Scalar(), &length), "a length that was read is a whole number");
      if (!lengths.insert(length).second) {
        return ErrorAt(item, absl::StrCat("the context length ", item.Scalar(), " is given twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSamplesAt(const YAML::Node& node, const v1::SuiteConfig& config) const {
    if (!node.IsDefined()) return absl::OkStatus();
    std::set<int> seen;
    for (const auto& pair : node) {
      int length = 0;  // as ReadValue read it
      VF_CHECK(absl::SimpleAtoi(pair.first.Scalar(), &length), "a key that was read is a whole number");
      if (!seen.insert(length).second) {
        return ErrorAt(pair.first, absl::StrCat("\"samples_at\" names ", length, " twice"));
      }
      if (std::find(config.lengths().begin(), config.lengths().end(), length) == config.lengths().end()) {
        return ErrorAt(pair.first, absl::StrCat("\"samples_at\" names ", length, ", which is not one of the lengths"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckTask(const YAML::Node& node, const v1::TaskConfig& task) const {
    if (task.kind().empty()) return ErrorAt(node, "the task has no \"kind\"; `varifocal tasks` lists them");
    const TaskKind* kind = FindTaskKind(task.kind());
    if (kind == nullptr) {
      return ErrorAt(node["kind"], absl::StrCat("unknown kind of task \"", task.kind(), "\"",
                                                DidYouMean(task.kind(), NamesOf(TaskKinds()))));
    }
    RETURN_IF_ERROR(CheckNameAt(node["name"], "task"));
    std::set<std::string> metrics;
    for (const YAML::Node& metric : node["metrics"]) {
      if (FindMetric(metric.Scalar()) == nullptr) {
        return ErrorAt(metric, absl::StrCat("unknown metric \"", metric.Scalar(), "\"",
                                            DidYouMean(metric.Scalar(), NamesOf(Metrics()))));
      }
      if (!metrics.insert(metric.Scalar()).second) {
        return ErrorAt(metric, absl::StrCat("the metric ", metric.Scalar(), " is given twice"));
      }
    }
    return CheckParameters(node["parameters"], node, *kind);
  }

  absl::Status CheckParameters(const YAML::Node& parameters, const YAML::Node& task, const TaskKind& kind) const {
    std::vector<std::string> known;
    for (const ParameterInfo& info : kind.parameters) known.push_back(info.name);
    std::set<std::string> given;
    for (const auto& pair : parameters) {
      const std::string key = pair.first.Scalar();
      given.insert(key);
      const auto info = std::find_if(kind.parameters.begin(), kind.parameters.end(),
                                     [&](const ParameterInfo& candidate) { return candidate.name == key; });
      if (info == kind.parameters.end()) {
        return ErrorAt(pair.first, absl::StrCat(kind.name, " has no parameter \"", key, "\"", DidYouMean(key, known)));
      }
      RETURN_IF_ERROR(CheckParameter(pair.second, *info));
    }
    for (const ParameterInfo& info : kind.parameters) {
      if (info.required && given.count(info.name) == 0) {
        return ErrorAt(task, absl::StrCat("the task ", kind.name, " needs the parameter \"", info.name, "\""));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckParameter(const YAML::Node& value, const ParameterInfo& info) const {
    if (value.IsSequence()) {
      if (info.type == ParameterType::kTextList) return absl::OkStatus();
      return ErrorAt(value, absl::StrCat("\"", info.name, "\" must be a single value, not a list"));
    }
    if (info.type == ParameterType::kInteger || info.type == ParameterType::kNumber) {
      const std::optional<double> number = ReadDouble(value.Scalar());
      int64_t whole = 0;
      const bool is_integer = info.type == ParameterType::kInteger;
      if (!number.has_value() || *number < info.low || *number > info.high ||
          (is_integer && !absl::SimpleAtoi(value.Scalar(), &whole))) {
        return ErrorAt(value, absl::StrCat("\"", info.name, "\" is ", value.Scalar(), "; it must be a ",
                                           is_integer ? "whole " : "", "number from ", NumberText(info.low), " to ",
                                           NumberText(info.high)));
      }
    }
    if (info.type == ParameterType::kChoice &&
        std::find(info.choices.begin(), info.choices.end(), value.Scalar()) == info.choices.end()) {
      return ErrorAt(value, absl::StrCat("\"", info.name, "\" is \"", value.Scalar(), "\"; it must be one of ",
                                         absl::StrJoin(info.choices, ", "), DidYouMean(value.Scalar(), info.choices)));
    }
    return absl::OkStatus();
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
    return UsageError(absl::StrCat("No suite is called \"", suite, "\" (a file is named by its path, like ./", suite,
                                   ".yaml)", DidYouMean(suite, BuiltInSuiteNames())));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(suite));
  ASSIGN_OR_RETURN(v1::SuiteConfig config, ParseSuite(text, suite));
  // Data paths are relative to the suite; the daemon has another working directory, so they are made absolute.
  for (v1::TaskConfig& task : *config.mutable_tasks()) {
    for (const char* key : {"path", "novels", "shots_path"}) {
      const auto path = task.mutable_parameters()->find(key);
      if (path == task.mutable_parameters()->end() || path->second.empty()) continue;
      std::error_code error;
      const std::filesystem::path folder = std::filesystem::absolute(suite, error).parent_path();
      if (!error) path->second = (folder / path->second).lexically_normal().string();
    }
  }
  return config;
}

}  // namespace varifocal::client

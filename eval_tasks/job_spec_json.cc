// The canonical JSON of a job. Every field is listed once, in ListFields, for both directions.
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "eval_tasks/job_spec.h"

namespace varifocal {
namespace {

// `archive` is a FieldWriter or a FieldReader. A LaterField was added after the first release: it is written only when it
// differs from its default, so that older specifications keep their digests.
template <typename Archive, typename Spec>
void ListFields(Archive& archive, Spec& spec) {
  using Type = std::remove_const_t<Spec>;
  if constexpr (std::is_same_v<Type, TaskSpec>) {
    archive.Field("name", spec.name);
    archive.Field("kind", spec.kind);
    archive.Field("parameters", spec.parameters);
    archive.Field("metrics", spec.metrics);
    archive.Field("samples", spec.samples);
    archive.LaterField("chat", spec.chat);
    archive.LaterField("answer", spec.answer);
    archive.LaterField("samples_at", spec.samples_at);
    archive.LaterField("form", spec.form);
    archive.LaterField("filters", spec.filters);
  } else if constexpr (std::is_same_v<Type, FilterSpec>) {
    archive.Field("filter", spec.filter);
    archive.LaterField("pattern", spec.pattern);
    archive.LaterField("group", spec.group);
    archive.LaterField("match", spec.match);
    archive.LaterField("text", spec.text);
  } else if constexpr (std::is_same_v<Type, SuiteSpec>) {
    archive.Field("name", spec.name);
    archive.Field("description", spec.description);
    archive.Field("seed", spec.seed);
    archive.Field("lengths", spec.lengths);
    archive.Field("samples", spec.samples);
    archive.Field("tasks", spec.tasks);
    archive.LaterField("samples_at", spec.samples_at);
    archive.LaterField("seeds", spec.seeds);
    archive.LaterField("answer", spec.answer);
    archive.LaterField("thinking", spec.thinking);
    archive.LaterField("epochs", spec.epochs);
    archive.LaterField("form", spec.form);
  } else if constexpr (std::is_same_v<Type, AnswerSpec>) {
    archive.LaterField("max_new_tokens", spec.max_new_tokens);
    archive.LaterField("thinking_max_tokens", spec.thinking_max_tokens);
  } else if constexpr (std::is_same_v<Type, ThinkingSpec>) {
    archive.LaterField("begin", spec.begin);
    archive.LaterField("end", spec.end);
    archive.LaterField("force", spec.force);
    archive.LaterField("answer_prefix", spec.answer_prefix);
  } else if constexpr (std::is_same_v<Type, DecodeSettings>) {
    archive.LaterField("sampling_temperature", spec.sampling_temperature);
    archive.LaterField("top_p", spec.top_p);
    archive.LaterField("top_k", spec.top_k);
    archive.LaterField("min_p", spec.min_p);
  } else if constexpr (std::is_same_v<Type, Shard>) {
    archive.Field("index", spec.index);
    archive.Field("count", spec.count);
  } else {
    static_assert(std::is_same_v<Type, JobSpec>);
    archive.Field("suite", spec.suite);
    archive.Field("variants", spec.variants);
    archive.Field("limit", spec.limit);
    archive.Field("in_flight", spec.in_flight);
    archive.Field("keep_prompts", spec.keep_prompts);
    archive.Field("decode", spec.decode);
    archive.LaterField("chat_templates", spec.chat_templates);
    archive.LaterField("inspect", spec.inspect);
    archive.LaterField("inspected_rows", spec.inspected_rows);
    archive.LaterField("shard", spec.shard);
    archive.LaterField("thinking_markers", spec.thinking_markers);
  }
}

class FieldWriter {
 public:
  template <typename Spec>
  static Json Object(const Spec& spec) {
    FieldWriter writer;
    ListFields(writer, spec);
    return std::move(writer.object_);
  }

  template <typename T>
  void Field(const char* key, const T& value) {
    object_[key] = Value(value);
  }
  template <typename T>
  void LaterField(const char* key, const T& value) {
    if (!(value == T())) Field(key, value);
  }

 private:
  template <typename T>
  static Json Value(const T& value) {
    if constexpr (std::is_class_v<T> && !std::is_constructible_v<Json, const T&>) {
      return Object(value);
    } else {
      return value;
    }
  }
  static Json Value(const std::optional<double>& value) { return *value; }
  static Json Value(const std::optional<int>& value) { return *value; }
  static Json Value(const Variant& variant) { return variant.Name(); }
  static Json Value(const std::map<int, int>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[absl::StrCat(key)] = value;
    return object;
  }
  template <typename T>
  static Json Value(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(Value(value));
    return list;
  }

  Json object_ = Json::object();
};

absl::Status WrongType(absl::string_view what, absl::string_view wanted) {
  return InvalidArgument("\"", what, "\" must be ", wanted);
}

class FieldReader {
 public:
  template <typename Spec>
  static absl::Status Object(const Json& object, absl::string_view what, Spec* spec) {
    if (!object.is_object()) return WrongType(what, "an object");
    FieldReader reader(object);
    ListFields(reader, *spec);
    return reader.status_;
  }

  template <typename T>
  void Field(const char* key, T& value) {
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    status_ = found == object_.end() ? InvalidArgument("\"", key, "\" is missing") : Read(*found, key, &value);
  }
  template <typename T>
  void LaterField(const char* key, T& value) {
    if (object_.contains(key)) Field(key, value);
  }

 private:
  explicit FieldReader(const Json& object) : object_(object) {}

  static absl::Status Read(const Json& json, const char* key, std::string* value) {
    if (!json.is_string()) return WrongType(key, "a string");
    *value = json.get<std::string>();
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, bool* value) {
    if (!json.is_boolean()) return WrongType(key, "true or false");
    *value = json.get<bool>();
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, std::optional<double>* value) {
    if (!json.is_number()) return WrongType(key, "a number");
    *value = json.get<double>();
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, int64_t* value) {
    ASSIGN_OR_RETURN(*value, GetInt(Json{{key, json}}, key));
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, int* value) {
    int64_t wide = 0;
    RETURN_IF_ERROR(Read(json, key, &wide));
    if (wide < INT32_MIN || wide > INT32_MAX) {
      return InvalidArgument(key, " is ", wide, "; it must be from ", INT32_MIN, " to ", INT32_MAX);
    }
    *value = wide;
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, std::optional<int>* value) {
    return Read(json, key, &value->emplace());
  }
  static absl::Status Read(const Json& json, const char* key, Variant* variant) {
    std::string name;
    RETURN_IF_ERROR(Read(json, key, &name));
    ASSIGN_OR_RETURN(*variant, ParseVariant(name));
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, std::map<std::string, std::string>* values) {
    if (!json.is_object()) return WrongType(key, "an object");
    for (const auto& [name, value] : json.items()) RETURN_IF_ERROR(Read(value, name.c_str(), &(*values)[name]));
    return absl::OkStatus();
  }
  static absl::Status Read(const Json& json, const char* key, std::map<int, int>* values) {
    if (!json.is_object()) return WrongType(key, "an object");
    for (const auto& [name, value] : json.items()) {
      int number = 0;
      if (!absl::SimpleAtoi(name, &number)) return WrongType(name, "a whole number");
      RETURN_IF_ERROR(Read(value, name.c_str(), &(*values)[number]));
    }
    return absl::OkStatus();
  }
  template <typename T>
  static absl::Status Read(const Json& json, const char* key, std::vector<T>* values) {
    if (!json.is_array()) return WrongType(key, "a list");
    for (const Json& item : json) RETURN_IF_ERROR(Read(item, key, &values->emplace_back()));
    return absl::OkStatus();
  }
  template <typename Spec>
  static absl::Status Read(const Json& json, const char* key, Spec* spec) {
    return Object(json, key, spec);
  }

  const Json& object_;
  absl::Status status_;
};

}  // namespace

Json ToJson(const FilterSpec& filter) { return FieldWriter::Object(filter); }
Json ToJson(const DecodeSettings& decode) { return FieldWriter::Object(decode); }

absl::StatusOr<FilterSpec> FilterFromJson(const Json& json) {
  FilterSpec filter;
  RETURN_IF_ERROR(FieldReader::Object(json, "a filter", &filter));
  return filter;
}

std::string ToCanonicalJson(const JobSpec& spec) {
  absl::StatusOr<std::string> text = DumpJson(FieldWriter::Object(spec));
  VF_CHECK(text.ok(), "a validated spec has finite numbers and UTF-8 texts");
  return *std::move(text);
}

absl::StatusOr<JobSpec> FromCanonicalJson(absl::string_view json) {
  ASSIGN_OR_RETURN(const Json object, ParseJson(json));
  JobSpec spec;
  RETURN_IF_ERROR(FieldReader::Object(object, "a job", &spec));
  return ValidateJobSpec(std::move(spec));
}

}  // namespace varifocal

#include "eval_tasks/helmet/rows.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/score.h"

namespace varifocal::helmet {
namespace {

constexpr int kFormat = 1;

absl::StatusOr<LengthEntry> EntryFromJson(const Json& object) {
  LengthEntry entry;
  ASSIGN_OR_RETURN(const std::optional<std::string> missing, FindString(object, "missing"));
  entry.missing = missing.value_or("");
  if (!entry.missing.empty()) return entry;
  ASSIGN_OR_RETURN(entry.rows_file, GetString(object, "rows"));
  ASSIGN_OR_RETURN(entry.rows_sha256, GetString(object, "sha256"));
  ASSIGN_OR_RETURN(const int64_t row_count, GetInt(object, "row_count"));
  ASSIGN_OR_RETURN(const int64_t max_new_tokens, GetInt(object, "max_new_tokens"));
  if (row_count < 0 || row_count > 10'000'000) {
    return InvalidArgument("row_count is ", row_count, "; it must be from 0 to 10000000");
  }
  if (max_new_tokens < 1 || max_new_tokens > 65536) {
    return InvalidArgument("max_new_tokens is ", max_new_tokens, "; it must be from 1 to 65536");
  }
  entry.row_count = row_count;
  entry.max_new_tokens = max_new_tokens;
  ASSIGN_OR_RETURN(entry.dataset, GetString(object, "dataset"));
  ASSIGN_OR_RETURN(entry.test_file, GetString(object, "test_file"));
  ASSIGN_OR_RETURN(entry.demo_file, GetString(object, "demo_file"));
  return entry;
}

Json ToJson(const LengthEntry& entry) {
  if (!entry.missing.empty()) return {{"missing", entry.missing}};
  return {{"rows", entry.rows_file},      {"sha256", entry.rows_sha256},
          {"row_count", entry.row_count}, {"max_new_tokens", entry.max_new_tokens},
          {"dataset", entry.dataset},     {"test_file", entry.test_file},
          {"demo_file", entry.demo_file}};
}

}  // namespace

absl::StatusOr<TaskIndex> ParseTaskIndex(absl::string_view json) {
  ASSIGN_OR_RETURN(const Json object, ParseJson(json));
  if (!object.is_object()) return InvalidArgument("must be a JSON object");
  ASSIGN_OR_RETURN(const int64_t format, GetInt(object, "format"));
  if (format != kFormat) return InvalidArgument("has format ", format, "; this program reads ", kFormat);
  TaskIndex index;
  ASSIGN_OR_RETURN(index.kind, GetString(object, "kind"));
  if (!IsKind(index.kind)) return InvalidArgument("unknown HELMET kind \"", index.kind, "\"");
  ASSIGN_OR_RETURN(index.user_template, GetString(object, "user_template"));
  ASSIGN_OR_RETURN(index.system_template, GetString(object, "system_template"));
  ASSIGN_OR_RETURN(index.separator, GetString(object, "separator"));
  ASSIGN_OR_RETURN(index.stop_strings, GetStrings(object, "stop_strings"));
  ASSIGN_OR_RETURN(index.chat, GetBool(object, "chat"));
  ASSIGN_OR_RETURN(index.system_message, FindString(object, "system_message"));
  index.settings = object.value("settings", Json::object());
  const auto lengths = object.find("lengths");
  if (lengths == object.end() || !lengths->is_object()) return InvalidArgument("\"lengths\" must be an object");
  for (const auto& [key, value] : lengths->items()) {
    int length = 0;
    if (!absl::SimpleAtoi(key, &length) || length < 1 || !value.is_object()) {
      return InvalidArgument("\"lengths\" has the key \"", key, "\", which is not a length");
    }
    ASSIGN_OR_RETURN(index.lengths[length], Annotate(EntryFromJson(value), absl::StrCat("length ", key)));
  }
  if (index.lengths.empty()) return InvalidArgument("\"lengths\" is empty");
  return index;
}

std::string DumpTaskIndex(const TaskIndex& index) {
  Json lengths = Json::object();
  for (const auto& [length, entry] : index.lengths) lengths[absl::StrCat(length)] = ToJson(entry);
  Json object = {{"format", kFormat},
                 {"kind", index.kind},
                 {"user_template", index.user_template},
                 {"system_template", index.system_template},
                 {"separator", index.separator},
                 {"stop_strings", index.stop_strings},
                 {"chat", index.chat},
                 {"settings", index.settings},
                 {"lengths", lengths}};
  if (index.system_message.has_value()) object["system_message"] = *index.system_message;
  return object.dump(1) + "\n";
}

absl::StatusOr<ImportedRow> RowFromJson(const Json& object) {
  ImportedRow row;
  ASSIGN_OR_RETURN(row.id, GetString(object, "id"));
  ASSIGN_OR_RETURN(row.question, GetString(object, "question"));
  ASSIGN_OR_RETURN(row.cluster, GetString(object, "cluster"));
  ASSIGN_OR_RETURN(row.context, GetString(object, "context"));
  ASSIGN_OR_RETURN(row.gold, GetStrings(object, "gold"));
  ASSIGN_OR_RETURN(const std::optional<double> depth, FindDouble(object, "depth"));
  row.depth = depth.value_or(0);
  ASSIGN_OR_RETURN(const std::optional<int64_t> cut, FindInt(object, "length_cut_tokens"));
  row.length_cut_tokens = cut.value_or(0);
  ASSIGN_OR_RETURN(const std::optional<bool> survived, FindBool(object, "gold_survived_length_cut"));
  row.gold_survived_length_cut = survived.value_or(true);
  row.reference = object.value("reference", Json());
  row.item = object.value("item", Json::object());
  const auto values = object.find("values");
  if (values == object.end() || !values->is_object()) return InvalidArgument("\"values\" must be an object");
  for (const auto& [slot, value] : values->items()) {
    ASSIGN_OR_RETURN(row.values[slot], GetString(*values, slot));
  }
  return row;
}

Json ToJson(const ImportedRow& row) {
  Json object = {{"id", row.id},           {"question", row.question},   {"cluster", row.cluster},
                 {"context", row.context}, {"values", row.values},       {"gold", row.gold},
                 {"depth", row.depth},     {"reference", row.reference}, {"item", row.item}};
  if (row.length_cut_tokens > 0) {
    object["length_cut_tokens"] = row.length_cut_tokens;
    object["gold_survived_length_cut"] = row.gold_survived_length_cut;
  }
  return object;
}

}  // namespace varifocal::helmet

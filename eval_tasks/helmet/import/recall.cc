// Recall: JSON KV and RULER.
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/family.h"

namespace varifocal::helmet {
namespace {

bool IsJsonKv(const std::string& dataset) { return dataset == "json_kv"; }

absl::StatusOr<Prompting> JsonKvPrompting(const ConfigEntry&) {
  return Prompting{"json_kv", "json_kv", "\n", {"substring_exact_match", "exact_match"}};
}

absl::StatusOr<std::string> JsonKvDemos(const RowView& row, const Template& form, int shots) {
  ASSIGN_OR_RETURN(const Json* demos, row.Field("demos"));
  if (!demos->is_array()) return row.Error("demos", "is not a list");
  std::vector<std::string> texts;
  for (const Json& pair : *demos) {
    if (std::ssize(texts) == shots) break;
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return row.Error("demos", "must be a list of pairs of texts");
    }
    ASSIGN_OR_RETURN(std::string text, form.Render({{"key", pair[0].get<std::string>()},
                                                    {"value", absl::StrCat(" ", pair[1].get<std::string>())}}));
    texts.push_back(std::move(text));
  }
  return absl::StrCat(absl::StrJoin(texts, "\n\n"), shots > 0 ? "\n\n" : "");
}

absl::Status ImportJsonKv(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  ASSIGN_OR_RETURN(const Template demo, sources.texts->Form("json_kv.demo"));
  ASSIGN_OR_RETURN(const auto file,
                   sources.Open(sources.Resolve(entry.test_file), NoVisit, RowsFieldOf(entry.test_file)));
  for (size_t index : ShuffledRows(file->places().size(), entry)) {
    ASSIGN_OR_RETURN(Json json, file->Read(index));
    const RowView row(std::move(json), file->PlaceOf(index));
    ImportedRow imported;
    imported.id = imported.question = imported.cluster = absl::StrCat(index);
    ASSIGN_OR_RETURN(imported.context, row.Text("context"));
    ASSIGN_OR_RETURN(imported.values["question"], row.Str("question"));
    ASSIGN_OR_RETURN(imported.values["demos"], JsonKvDemos(row, demo, entry.shots));
    ASSIGN_OR_RETURN(imported.gold, row.Texts("answer"));
    ASSIGN_OR_RETURN(const Json* num_kvs, row.Field("num_kvs"));
    imported.reference = row.json()["answer"];
    if (row.json().contains("depth") && row.json()["depth"].is_number()) imported.depth = row.json()["depth"];
    imported.item = row.json();
    imported.item.erase("context");
    imported.item["k"] = *num_kvs;
    imported.item["demos"] = imported.values["demos"];
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

bool IsRuler(const std::string& dataset) { return absl::StrContains(dataset, "ruler"); }

// The prefix of the dataset's texts; nullopt for an unknown subtask.
std::string RulerTexts(const std::string& dataset) {
  constexpr std::pair<const char*, const char*> kSubtasks[] = {
      {"niah_mv", "ruler_mv"}, {"niah_mq", "ruler_mv"}, {"niah", "ruler_niah"}, {"vt", "ruler_vt"},
      {"cwe", "ruler_cwe"},    {"fwe", "ruler_fwe"},    {"qa", "ruler_qa"}};
  for (const auto& [part, texts] : kSubtasks) {
    if (absl::StrContains(dataset, part)) return texts;
  }
  return "";
}

absl::StatusOr<Prompting> RulerPrompting(const ConfigEntry& entry) {
  const std::string texts = RulerTexts(entry.dataset);
  if (texts.empty()) return InvalidArgument("upstream has no RULER subtask for \"", entry.dataset, "\"");
  Prompting prompting = {"ruler", texts, "\n", {"ruler_recall"}};
  if (absl::StrContains(entry.dataset, "qa")) {
    prompting.kind = "default";
    prompting.measures = {"substring_exact_match", "exact_match"};
  }
  return prompting;
}

absl::Status ImportRuler(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  // A column exists for all rows when one row has it.
  std::set<std::string> columns;
  UniqueIds indices;
  ASSIGN_OR_RETURN(
      const auto file,
      sources.Open(sources.Resolve(entry.test_file), [&](int64_t number, absl::string_view text) -> absl::Status {
        std::vector<std::string> names;
        ASSIGN_OR_RETURN(const Json fields, FieldsOf(text, {"index"}, &names));
        columns.insert(names.begin(), names.end());
        return fields.contains("index") ? indices.Add("index", fields["index"], number) : absl::OkStatus();
      }));
  const char* question_field = columns.count("query") > 0      ? "query"
                               : columns.count("question") > 0 ? "question"
                                                               : nullptr;
  const char* answer_field = columns.count("answer") > 0 ? "answer" : "outputs";
  std::set<std::string> slots;
  for (const char* part : {".user", ".system"}) {
    ASSIGN_OR_RETURN(const Template form, sources.texts->Form(RulerTexts(entry.dataset) + part));
    slots.insert(form.slots().begin(), form.slots().end());
  }
  for (size_t index : ShuffledRows(file->places().size(), entry)) {
    ASSIGN_OR_RETURN(Json json, file->Read(index));
    const RowView row(std::move(json), file->PlaceOf(index));
    ImportedRow imported;
    imported.id = imported.question = imported.cluster =
        row.json().contains("index") ? row.json()["index"].dump() : absl::StrCat(index);
    ASSIGN_OR_RETURN(imported.context, row.Text("context"));
    for (const auto& [field, value] : row.json().items()) {
      if (field == "context") continue;
      const absl::StatusOr<std::string> text = PythonStr(value);
      if (text.ok()) imported.values[field] = *text;
    }
    imported.values["question"] = "";
    if (question_field != nullptr) {
      const absl::StatusOr<std::string> question = PythonStr(row.json().value(question_field, Json()));
      if (!question.ok()) return row.Error(question_field, question.status().message());
      imported.values["question"] = *question;
    }
    imported.values["example"] = "";
    if (columns.count("example") > 0) {
      ASSIGN_OR_RETURN(const std::string example, row.Text("example"));
      if (!example.empty()) imported.values["example"] = example + "\n\n";
    }
    for (const std::string& slot : slots) {
      if (slot != "context" && imported.values.count(slot) == 0) return row.Error(slot, "is missing, or no text");
    }
    ASSIGN_OR_RETURN(const Json* answer, row.List(answer_field));
    ASSIGN_OR_RETURN(imported.gold, row.Texts(answer_field));
    imported.reference = *answer;
    imported.item = row.json();
    imported.item.erase("context");
    imported.item["example"] = imported.values["example"];
    imported.item["question"] = imported.values["question"];
    imported.item["answer"] = *answer;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

}  // namespace

const FamilyInfo kJsonKvFamily = {"json_kv", &IsJsonKv, &SameName, &JsonKvPrompting, &ImportJsonKv};
const FamilyInfo kRulerFamily = {"ruler", &IsRuler, &SameName, &RulerPrompting, &ImportRuler};

}  // namespace varifocal::helmet

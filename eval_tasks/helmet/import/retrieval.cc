// Retrieval-augmented questions (NQ, TriviaQA, HotpotQA, PopQA), re-ranking (MS MARCO), and citation (ALCE).
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/family.h"
#include "eval_tasks/python/random.h"

namespace varifocal::helmet {
namespace {

std::string ShortDigest(absl::string_view text) { return Sha256Hex(text).substr(0, 16); }

bool IsPopQa(const std::string& dataset) { return absl::StrContains(dataset, "popqa"); }

bool IsQa(const std::string& dataset) {
  return IsPopQa(dataset) || absl::StrContains(dataset, "nq") || absl::StrContains(dataset, "hotpotqa") ||
         absl::StrContains(dataset, "triviaqa");
}

absl::StatusOr<Prompting> QaPrompting(const ConfigEntry&) {
  return Prompting{"default", "qa", "\n", {"substring_exact_match", "exact_match", "f1"}};
}

// The passages of a row, joined as upstream joins them.
absl::StatusOr<std::string> Passages(const Template& form, const RowView& row) {
  ASSIGN_OR_RETURN(const Json* ctxs, row.Field("ctxs"));
  if (!ctxs->is_array()) return row.Error("ctxs", "is not a list");
  std::vector<std::string> texts;
  for (size_t i = 0; i < ctxs->size(); ++i) {
    ASSIGN_OR_RETURN(std::string text, RenderObject(form, (*ctxs)[i], {}, row, absl::StrCat("ctxs[", i, "]")));
    texts.push_back(std::move(text));
  }
  return absl::StrJoin(texts, "\n\n");
}

// Keys of a file's rows, and the rows below the popularity threshold.
struct KeyedRows {
  std::unique_ptr<JsonRowFile> file;
  std::string key;           // the field: id if any row of the test file has one, else question
  std::vector<Json> keys;    // of each row
  std::vector<size_t> rows;  // below the threshold
};

// `key`: the field, where determined by another file's columns.
absl::StatusOr<KeyedRows> ReadKeys(const std::string& path, const std::string& dataset, Sources& sources,
                                   const std::string& key = "") {
  KeyedRows keyed;
  double threshold = 0;
  if (IsPopQa(dataset) && !absl::SimpleAtod(dataset.substr(dataset.rfind('_') + 1), &threshold)) {
    return InvalidArgument("the dataset \"", dataset, "\" ends in no popularity threshold");
  }
  std::vector<Json> fields;
  bool has_id = false;  // a column exists for all rows when one row has it
  ASSIGN_OR_RETURN(keyed.file, sources.Open(
                                   path,
                                   [&](int64_t, absl::string_view text) -> absl::Status {
                                     ASSIGN_OR_RETURN(Json row, FieldsOf(text, {"id", "question", "s_pop"}));
                                     has_id = has_id || row.contains("id");
                                     fields.push_back(std::move(row));
                                     return absl::OkStatus();
                                   },
                                   RowsFieldOf(path)));
  keyed.key = !key.empty() ? key : has_id ? "id" : "question";
  std::map<Json, std::pair<std::string, size_t>> question_of;  // by id: the question and its first row
  for (size_t i = 0; i < fields.size(); ++i) {
    const RowView row(std::move(fields[i]), keyed.file->PlaceOf(i));
    ASSIGN_OR_RETURN(const Json* id, row.Field(keyed.key));
    if (!id->is_string() && !id->is_number_integer()) return row.Error(keyed.key, "is no text and no whole number");
    keyed.keys.push_back(*id);
    // Rows repeat a question with the answer at other depths; an id with two questions is an error.
    if (keyed.key == "id") {
      ASSIGN_OR_RETURN(const std::string question, row.Str("question"));
      const auto [earlier, is_new] = question_of.emplace(*id, std::make_pair(question, i + 1));
      if (!is_new && earlier->second.first != question) {
        return row.Error("question", absl::StrCat("is not that of row ", earlier->second.second,
                                                  ", which has the same id ", id->dump()));
      }
    }
    if (IsPopQa(dataset)) {
      ASSIGN_OR_RETURN(const Json* popularity, row.Field("s_pop"));
      if (!popularity->is_number() || popularity->get<double>() <= 0) return row.Error("s_pop", "is no number above 0");
      if (!(std::log10(popularity->get<double>()) < threshold)) continue;
    }
    keyed.rows.push_back(i);
  }
  return keyed;
}

// The rows whose key is among max_test_samples keys drawn with Python's random module; in file order.
std::vector<size_t> SampleByKey(const KeyedRows& keyed, const ConfigEntry& entry) {
  if (!entry.max_test_samples.has_value()) return keyed.rows;
  std::set<Json> keys;
  for (size_t row : keyed.rows) keys.insert(keyed.keys[row]);
  const std::vector<Json> sorted(keys.begin(), keys.end());
  std::set<Json> chosen;
  const size_t count = std::min<size_t>(sorted.size(), *entry.max_test_samples);
  for (size_t index : PythonRandom(entry.seed).Sample(sorted.size(), count)) chosen.insert(sorted[index]);
  std::vector<size_t> rows;
  for (size_t row : keyed.rows) {
    if (chosen.count(keyed.keys[row]) > 0) rows.push_back(row);
  }
  return rows;
}

std::string KeyText(const Json& key) { return key.is_string() ? key.get<std::string>() : key.dump(); }

absl::Status TooFewDemos(const std::string& place, size_t found, int shots) {
  return InvalidArgument(place, ": there are ", found, " demonstrations to choose from; ", shots, " are required");
}

absl::Status ImportQa(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  ASSIGN_OR_RETURN(const Template passage, sources.texts->Form("qa.passage"));
  ASSIGN_OR_RETURN(const Template demo, sources.texts->Form("qa.demo"));
  ASSIGN_OR_RETURN(const KeyedRows test, ReadKeys(sources.Resolve(entry.test_file), entry.dataset, sources));
  ASSIGN_OR_RETURN(const KeyedRows pool, ReadKeys(sources.Resolve(entry.demo_file), entry.dataset, sources, test.key));
  std::map<size_t, std::string> demo_texts;  // rendered on first use
  auto demo_text = [&](size_t index) -> absl::StatusOr<std::string> {
    const auto made = demo_texts.find(index);
    if (made != demo_texts.end()) return made->second;
    ASSIGN_OR_RETURN(Json json, pool.file->Read(index));
    const RowView row(std::move(json), pool.file->PlaceOf(index));
    ASSIGN_OR_RETURN(const std::string documents, Passages(passage, row));
    ASSIGN_OR_RETURN(const Json* answers, row.List("answers"));
    const Json& first = (*answers)[0];
    const absl::StatusOr<std::string> answer = first.is_array() ? PythonRepr(first) : PythonStr(first);
    if (!answer.ok()) return row.Error("answers[0]", answer.status().message());
    ASSIGN_OR_RETURN(std::string text,
                     RenderObject(demo, row.json(), {{"documents", documents}, {"answer", *answer}}, row, "row"));
    return demo_texts[index] = std::move(text);
  };
  std::map<std::string, int> times_asked;
  for (size_t index : SampleByKey(test, entry)) {
    ASSIGN_OR_RETURN(Json json, test.file->Read(index));
    const RowView row(std::move(json), test.file->PlaceOf(index));
    const std::string key = KeyText(test.keys[index]);
    ImportedRow imported;
    imported.id = absl::StrCat(index);
    imported.cluster = ShortDigest(key);
    imported.question = absl::StrCat(imported.cluster, "-", times_asked[key]++);
    ASSIGN_OR_RETURN(imported.context, Passages(passage, row));
    ASSIGN_OR_RETURN(imported.values["question"], row.Str("question"));
    ASSIGN_OR_RETURN(imported.gold, row.Texts("answers"));
    imported.reference = row.json()["answers"];
    if (row.json().contains("depth") && row.json()["depth"].is_number()) imported.depth = row.json()["depth"];
    if (entry.shots > 0) {
      std::vector<size_t> candidates;
      for (size_t candidate : pool.rows) {
        if (!IsPopQa(entry.dataset) || pool.keys[candidate] != test.keys[index]) candidates.push_back(candidate);
      }
      std::vector<size_t> order = NumpyRandom(Sha256Seed(key)).Permutation(candidates.size());
      for (size_t& place : order) place = candidates[place];
      const std::vector<size_t> chosen = FirstDifferent(
          order, [&](size_t i) { return pool.keys[i].dump(); }, entry.shots);
      if (std::ssize(chosen) < entry.shots) return TooFewDemos(row.place(), chosen.size(), entry.shots);
      for (size_t demo_index : chosen) {
        ASSIGN_OR_RETURN(const std::string text, demo_text(demo_index));
        absl::StrAppend(&imported.values["demos"], text, "\n\n");
      }
    } else {
      imported.values["demos"] = "";
    }
    imported.item = row.json();
    imported.item["k"] = imported.item["ctxs"].size();
    for (const char* field : {"ctxs", "positive_ctxs", "hard_negative_ctxs", "context"}) imported.item.erase(field);
    imported.item["answer"] = row.json()["answers"];
    imported.item["demos"] = imported.values["demos"];
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

bool IsRerank(const std::string& dataset) { return absl::StrContains(dataset, "msmarco"); }

absl::StatusOr<Prompting> RerankPrompting(const ConfigEntry&) {
  return Prompting{"rerank", "msmarco", "\n", {"NDCG@10", "MRR"}};
}

// Ids by descending label, ties in file order, joined by " > "; and the labels.
absl::StatusOr<std::string> GoldRanking(const RowView& row, Json* labels) {
  ASSIGN_OR_RETURN(const Json* ctxs, row.List("ctxs"));
  std::vector<std::pair<int64_t, std::string>> ranking;
  *labels = Json::array();
  for (size_t i = 0; i < ctxs->size(); ++i) {
    const Json& ctx = (*ctxs)[i];
    const bool is_whole = ctx.is_object() && ctx.contains("id") && ctx["id"].is_string() && ctx.contains("label") &&
                          ctx["label"].is_number_integer();
    if (!is_whole)
      return row.Error(absl::StrCat("ctxs[", i, "]"), "must have an \"id\" (text) and a \"label\" (number)");
    ranking.emplace_back(ctx["label"].get<int64_t>(), ctx["id"].get<std::string>());
    labels->push_back({ctx["id"], ctx["label"]});
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return absl::StrJoin(ranking, " > ", [](std::string* out, const auto& item) { out->append(item.second); });
}

absl::StatusOr<KeyedRows> ReadQueries(const std::string& path, Sources& sources) {
  KeyedRows keyed;
  keyed.key = "qid";
  ASSIGN_OR_RETURN(keyed.file, sources.Open(path, [&](int64_t, absl::string_view text) -> absl::Status {
    ASSIGN_OR_RETURN(const Json row, FieldsOf(text, {"qid"}));
    ASSIGN_OR_RETURN(const std::string qid, GetString(row, "qid"));
    keyed.rows.push_back(keyed.keys.size());
    keyed.keys.push_back(qid);
    return absl::OkStatus();
  }));
  return keyed;
}

// Whether the first passage of the file has a title: by it upstream decides for all of them.
template <typename File>
absl::StatusOr<bool> HasTitles(File& file) {
  ASSIGN_OR_RETURN(Json json, file.Read(0));
  const RowView row(std::move(json), file.PlaceOf(0));
  ASSIGN_OR_RETURN(const Json* ctxs, row.List("ctxs"));
  return (*ctxs)[0].contains("title");
}

// What upstream shows for a passage that differs from the first one depends on the version of its reader: "None", or nothing.
absl::Status CheckTitles(const RowView& row, bool has_titles) {
  const Json& ctxs = row.json()["ctxs"];
  for (size_t i = 0; i < ctxs.size(); ++i) {
    if (ctxs[i].contains("title") == has_titles) continue;
    return row.Error(absl::StrCat("ctxs[", i, "]"), has_titles
                                                        ? "has no \"title\", unlike the first passage of the file"
                                                        : "has a \"title\", unlike the first passage of the file");
  }
  return absl::OkStatus();
}

absl::Status ImportRerank(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  ASSIGN_OR_RETURN(const Template titled, sources.texts->Form("msmarco.titled_passage"));
  ASSIGN_OR_RETURN(const Template untitled, sources.texts->Form("msmarco.passage"));
  ASSIGN_OR_RETURN(const Template demo_end, sources.texts->Form("msmarco.demo_end"));
  ASSIGN_OR_RETURN(KeyedRows pool, ReadQueries(sources.Resolve(entry.demo_file), sources));
  ASSIGN_OR_RETURN(const KeyedRows test, ReadQueries(sources.Resolve(entry.test_file), sources));
  const std::vector<size_t> chosen_rows = SampleByKey(test, entry);
  const bool is_filtered_once = pool.rows.size() > 2 * chosen_rows.size();
  if (is_filtered_once) {
    std::set<Json> asked;
    for (size_t row : chosen_rows) asked.insert(test.keys[row]);
    pool.rows.erase(
        std::remove_if(pool.rows.begin(), pool.rows.end(), [&](size_t i) { return asked.count(pool.keys[i]) > 0; }),
        pool.rows.end());
  }
  std::map<std::string, int> times_asked;
  size_t first_ctx_count = 0;
  ASSIGN_OR_RETURN(const bool has_titles, HasTitles(*test.file));
  for (size_t index : chosen_rows) {
    ASSIGN_OR_RETURN(Json json, test.file->Read(index));
    const RowView row(std::move(json), test.file->PlaceOf(index));
    const std::string qid = test.keys[index];
    ImportedRow imported;
    imported.id = absl::StrCat(index);
    imported.cluster = qid;
    imported.question = absl::StrCat(qid, "-", times_asked[qid]++);
    Json labels;
    ASSIGN_OR_RETURN(const std::string gold, GoldRanking(row, &labels));
    const Json& ctxs = row.json()["ctxs"];
    if (first_ctx_count == 0) first_ctx_count = ctxs.size();
    const Template& passage = has_titles ? titled : untitled;
    RETURN_IF_ERROR(CheckTitles(row, has_titles));
    ASSIGN_OR_RETURN(imported.context, Passages(passage, row));
    ASSIGN_OR_RETURN(imported.values["question"], row.Text("query"));
    imported.values["demos"] = "";
    if (entry.shots > 0) {
      std::vector<size_t> candidates;
      for (size_t candidate : pool.rows) {
        if (is_filtered_once || pool.keys[candidate] != test.keys[index]) candidates.push_back(candidate);
      }
      std::vector<size_t> order = NumpyRandom(Sha256Seed(qid)).Permutation(candidates.size());
      for (size_t& place : order) place = candidates[place];
      const std::vector<size_t> chosen = FirstDifferent(
          order, [&](size_t i) { return pool.keys[i].dump(); }, entry.shots);
      if (std::ssize(chosen) < entry.shots) return TooFewDemos(row.place(), chosen.size(), entry.shots);
      for (size_t demo_index : chosen) {
        ASSIGN_OR_RETURN(Json demo_json, pool.file->Read(demo_index));
        const RowView demo(std::move(demo_json), pool.file->PlaceOf(demo_index));
        Json unused;
        ASSIGN_OR_RETURN(const std::string ranking, GoldRanking(demo, &unused));
        ASSIGN_OR_RETURN(const std::string passages, Passages(passage, demo));
        ASSIGN_OR_RETURN(const std::string query, demo.Text("query"));
        ASSIGN_OR_RETURN(const std::string end, demo_end.Render({{"d['query']", query}, {"ranking", ranking}}));
        absl::StrAppend(&imported.values["demos"], passages, end, "\n\n");
      }
    }
    imported.gold = {gold};
    imported.reference = labels;
    imported.item = row.json();
    imported.item["k"] = ctxs.size();
    for (const char* field : {"ctxs", "query"}) imported.item.erase(field);
    imported.item["question"] = imported.values["question"];
    imported.item["answer"] = gold;
    imported.item["demos"] = imported.values["demos"];
    imported.item["qrel"] = Json::array();
    for (const Json& label : labels) imported.item["qrel"].push_back({label[0], label[1].dump()});
    imported.item["first_ctx_count"] = first_ctx_count;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

bool IsAlce(const std::string& dataset) { return absl::StrContains(dataset, "alce"); }

bool IsQampari(const ConfigEntry& entry) { return absl::StrContains(entry.dataset, "qampari"); }

absl::StatusOr<Prompting> AlcePrompting(const ConfigEntry& entry) {
  Prompting prompting = {"alce_asqa", "alce", "\n\n", {"str_em", "str_hit"}};
  if (IsQampari(entry)) {
    prompting.kind = "alce_qampari";
    prompting.measures = {"qampari_rec_top5", "qampari_f1_top5"};
  } else if (!absl::StrContains(entry.dataset, "asqa")) {
    return InvalidArgument("upstream has no scorer for \"", entry.dataset, "\"");
  }
  return prompting;
}

absl::StatusOr<std::string> NumberedDocuments(const Template& form, const RowView& row, size_t count) {
  ASSIGN_OR_RETURN(const Json* docs, row.Field("docs"));
  if (!docs->is_array()) return row.Error("docs", "is not a list");
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(count, docs->size()); ++i) {
    ASSIGN_OR_RETURN(std::string text,
                     RenderObject(form, (*docs)[i], {{"ID", absl::StrCat(i + 1)}}, row, absl::StrCat("docs[", i, "]")));
    texts.push_back(std::move(text));
  }
  return absl::StrJoin(texts, "\n\n");
}

absl::Status ImportAlce(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  int document_count = 0;
  if (!absl::SimpleAtoi(entry.dataset.substr(entry.dataset.rfind('_') + 1), &document_count) || document_count < 1) {
    return InvalidArgument("the dataset \"", entry.dataset, "\" ends in no number of documents");
  }
  const std::string prompt_path = sources.Resolve(entry.demo_file);
  ASSIGN_OR_RETURN(const std::string prompt_bytes, ReadFile(prompt_path, kDataFile));
  ASSIGN_OR_RETURN(const Json prompt_json, Annotate(ParseJson(prompt_bytes), prompt_path));
  const RowView prompt(prompt_json, prompt_path);
  ASSIGN_OR_RETURN(const std::string instruction, prompt.Text("instruction"));
  ASSIGN_OR_RETURN(const std::string demo_prompt, prompt.Text("demo_prompt"));
  ASSIGN_OR_RETURN(const std::string doc_prompt, prompt.Text("doc_prompt"));
  ASSIGN_OR_RETURN(const Template demo_form, Template::Parse(demo_prompt));
  ASSIGN_OR_RETURN(const Template doc_form, Template::Parse(doc_prompt));
  sources.files[prompt_path] = {Sha256Hex(prompt_bytes), 1};
  ASSIGN_OR_RETURN(const Json* demos, prompt.List("demos"));
  std::vector<std::string> demo_texts;
  for (size_t i = 0; i < demos->size(); ++i) {
    const RowView demo((*demos)[i], absl::StrCat(prompt_path, ": demonstration ", i + 1));
    ASSIGN_OR_RETURN(const std::string context, NumberedDocuments(doc_form, demo, SIZE_MAX));
    ASSIGN_OR_RETURN(
        std::string text,
        RenderObject(demo_form, demo.json(), {{"instruction", instruction}, {"context", context}}, demo, "demos"));
    demo_texts.push_back(std::move(text));
  }
  const size_t shots = entry.shots;
  if (shots > demo_texts.size()) return TooFewDemos(prompt_path, demo_texts.size(), entry.shots);
  const std::string id_field = IsQampari(entry) ? "id" : "sample_id";
  UniqueIds ids;
  ASSIGN_OR_RETURN(const auto file, sources.Open(sources.Resolve(entry.test_file),
                                                 [&](int64_t number, absl::string_view text) -> absl::Status {
                                                   ASSIGN_OR_RETURN(const Json fields, FieldsOf(text, {id_field}));
                                                   return fields.contains(id_field) && !fields[id_field].is_null()
                                                              ? ids.Add(id_field, fields[id_field], number)
                                                              : absl::OkStatus();
                                                 }));
  // All rows draw their demonstrations, in file order, before rows are selected.
  PythonRandom random(entry.seed);
  std::vector<std::vector<size_t>> drawn;
  for (size_t i = 0; i < file->places().size(); ++i) drawn.push_back(random.Sample(demo_texts.size(), shots));
  for (size_t index : ShuffledRows(file->places().size(), entry)) {
    ASSIGN_OR_RETURN(Json json, file->Read(index));
    const RowView row(std::move(json), file->PlaceOf(index));
    ImportedRow imported;
    imported.id = imported.question = imported.cluster = absl::StrCat(index);
    ASSIGN_OR_RETURN(imported.context, NumberedDocuments(doc_form, row, document_count));
    ASSIGN_OR_RETURN(imported.values["question"], row.Str("question"));
    std::string& demo_text = imported.values["demo_text"];
    for (size_t demo : drawn[index]) absl::StrAppend(&demo_text, demo_texts[demo], "\n\n\n");
    imported.values["instruction"] = instruction;
    ASSIGN_OR_RETURN(const Json* gold, row.List(IsQampari(entry) ? "answers" : "qa_pairs"));
    imported.reference = Json::array();
    for (size_t i = 0; i < gold->size(); ++i) {
      const Json& item = (*gold)[i];
      const Json& texts = IsQampari(entry) ? item : item.is_object() ? item.value("short_answers", Json()) : Json();
      const bool is_list = texts.is_array() && !texts.empty() &&
                           std::all_of(texts.begin(), texts.end(), [](const Json& t) { return t.is_string(); });
      if (!is_list) {
        return row.Error(
            IsQampari(entry) ? absl::StrCat("answers[", i, "]") : absl::StrCat("qa_pairs[", i, "].short_answers"),
            "must be a list of at least 1 text");
      }
      imported.reference.push_back(texts);
      for (const Json& text : texts) imported.gold.push_back(text.get<std::string>());
    }
    imported.item = row.json();
    imported.item["docs"] =
        Json(row.json()["docs"].begin(),
             row.json()["docs"].begin() + std::min<size_t>(row.json()["docs"].size(), document_count));
    imported.item["instruction"] = instruction;
    imported.item["demo_text"] = demo_text;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

}  // namespace

const FamilyInfo kQaFamily = {"qa", &IsQa, &SameName, &QaPrompting, &ImportQa};
const FamilyInfo kRerankFamily = {"rerank", &IsRerank, &SameName, &RerankPrompting, &ImportRerank};
const FamilyInfo kAlceFamily = {"alce", &IsAlce, &NameWithoutNumber, &AlcePrompting, &ImportAlce};

}  // namespace varifocal::helmet

// Long documents that upstream truncates with a fixed tokenizer: NarrativeQA, InfiniteBench, Multi-LexSum.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/family.h"
#include "eval_tasks/python/random.h"
#include "eval_tasks/python/text.h"

namespace varifocal::helmet {
namespace {

// A document truncated to a number of tokens of the length tokenizer, or dropped if too short.
struct MeasuredText {
  int64_t token_count = 0;  // including the tokenizer's special tokens
  size_t kept_bytes = 0;
  bool is_cut = false;
};

class LengthCutter {
 public:
  static absl::StatusOr<LengthCutter> Make(const ConfigEntry& entry, const Sources& sources) {
    if (sources.length_tokenizer == nullptr) {
      return FailedPrecondition(
          "\"", entry.dataset,
          "\" is truncated by tokens of Llama 2; pass the directory of that tokenizer with --length-tokenizer");
    }
    LengthCutter cutter;
    cutter.tokenizer_ = sources.length_tokenizer;
    if (!absl::SimpleAtoi(entry.dataset.substr(entry.dataset.rfind('_') + 1), &cutter.tokens_max_)) {
      return InvalidArgument("the dataset \"", entry.dataset, "\" ends in no number of tokens");
    }
    ASSIGN_OR_RETURN(cutter.postfix_, sources.texts->Text("length.postfix"));
    ASSIGN_OR_RETURN(const int64_t postfix_tokens, cutter.tokenizer_->CountTokens(cutter.postfix_));
    cutter.kept_index_ = cutter.tokens_max_ - postfix_tokens;
    if (cutter.kept_index_ < 0) {
      return InvalidArgument("\"", entry.dataset, "\" keeps ", cutter.tokens_max_,
                             " tokens; the truncation marker alone has ", postfix_tokens);
    }
    return cutter;
  }

  // Equal documents are tokenized once.
  absl::StatusOr<MeasuredText> Measure(const std::string& text) {
    const std::string digest = Sha256Hex(text);
    const auto known = measured_.find(digest);
    if (known != measured_.end()) return known->second;
    ASSIGN_OR_RETURN(const int64_t token_count, tokenizer_->CountTokens(text));
    MeasuredText measured{token_count, text.size(), false};
    if (measured.token_count > tokens_max_) {
      measured.is_cut = true;
      ASSIGN_OR_RETURN(const EncodedText encoded, tokenizer_->EncodeWithOffsets(text));
      measured.kept_bytes = encoded.offsets[kept_index_].end;
    }
    return measured_[digest] = measured;
  }

  absl::Status Fill(const std::string& text, ImportedRow& row) {
    ASSIGN_OR_RETURN(const MeasuredText measured, Measure(text));
    row.context = text;
    if (!measured.is_cut) return absl::OkStatus();
    const std::string kept = text.substr(0, measured.kept_bytes);
    auto holds_gold = [&](const std::string& whole) {
      return std::any_of(row.gold.begin(), row.gold.end(),
                         [&](const std::string& gold) { return !gold.empty() && absl::StrContains(whole, gold); });
    };
    row.length_cut_tokens = measured.token_count - kept_index_ - 1;
    row.gold_survived_length_cut = !holds_gold(text) || holds_gold(kept);
    row.context = kept + postfix_;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string postfix_;
  int64_t tokens_max_ = 0;
  int64_t kept_index_ = 0;  // of the last kept token
  std::map<std::string, MeasuredText> measured_;
};

// Seeds of unseeded shuffles, from numpy's global state as left by the Hugging Face backend: one per mapped row.
class ShuffleSeeds {
 public:
  explicit ShuffleSeeds(uint32_t seed) : random_(seed) {}
  uint32_t At(size_t index) {
    while (seeds_.size() <= index) seeds_.push_back(random_.TakeShuffleSeed());
    return seeds_[index];
  }

 private:
  NumpyLegacyRandom random_;
  std::vector<uint32_t> seeds_;
};

absl::StatusOr<std::string> Nested(const RowView& row, const Json& object, absl::string_view path, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) {
    return row.Error(absl::StrCat(path, ".", key), "must be a text");
  }
  return object[key].get<std::string>();
}

absl::StatusOr<std::vector<size_t>> FirstShuffled(size_t row_count, uint32_t seed, int count,
                                                  const std::string& place) {
  std::vector<size_t> order = NumpyRandom(seed).Permutation(row_count);
  if (std::ssize(order) < count) {
    return InvalidArgument(place, ": there are ", order.size(), " demonstrations to choose from; ", count,
                           " are required");
  }
  order.resize(count);
  return order;
}

// --- NarrativeQA

bool IsNarrativeQa(const std::string& dataset) { return absl::StrContains(dataset, "narrativeqa"); }

absl::StatusOr<Prompting> NarrativeQaPrompting(const ConfigEntry&) {
  return Prompting{"default", "narrativeqa", "\n", {"rougeL_f1", "f1", "substring_exact_match"}};
}

absl::StatusOr<std::vector<std::string>> AnswerTexts(const RowView& row) {
  ASSIGN_OR_RETURN(const Json* answers, row.List("answers"));
  std::vector<std::string> texts;
  for (size_t i = 0; i < answers->size(); ++i) {
    ASSIGN_OR_RETURN(std::string text, Nested(row, (*answers)[i], absl::StrCat("answers[", i, "]"), "text"));
    texts.push_back(std::move(text));
  }
  return texts;
}

absl::Status ImportNarrativeQa(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  constexpr int64_t kTokensMin = 131073;
  ASSIGN_OR_RETURN(LengthCutter cutter, LengthCutter::Make(entry, sources));
  ASSIGN_OR_RETURN(const std::string begin, sources.texts->Text("narrativeqa.demos_begin"));
  ASSIGN_OR_RETURN(const Template demo, sources.texts->Form("narrativeqa.demo"));
  ASSIGN_OR_RETURN(const std::string end, sources.texts->Text("narrativeqa.demos_end"));
  ASSIGN_OR_RETURN(const auto train, sources.Open(sources.data + "/narrativeqa/train.jsonl", NoVisit));
  ASSIGN_OR_RETURN(const auto test, sources.Open(sources.data + "/narrativeqa/test.jsonl", NoVisit));
  ShuffleSeeds seeds(entry.seed);
  size_t kept_count = 0;
  for (size_t index : NumpyRandom(entry.seed).Permutation(test->places().size())) {
    if (entry.max_test_samples.has_value() && kept_count == static_cast<size_t>(*entry.max_test_samples)) break;
    ASSIGN_OR_RETURN(Json json, test->Read(index));
    const RowView row(std::move(json), test->PlaceOf(index));
    ASSIGN_OR_RETURN(const Json* document, row.Field("document"));
    ASSIGN_OR_RETURN(const std::string text, Nested(row, *document, "document", "text"));
    ASSIGN_OR_RETURN(const MeasuredText measured, cutter.Measure(text));
    if (measured.token_count < kTokensMin) continue;
    ImportedRow imported;
    ASSIGN_OR_RETURN(const Json* question, row.Field("question"));
    ASSIGN_OR_RETURN(imported.values["question"], Nested(row, *question, "question", "text"));
    ASSIGN_OR_RETURN(imported.gold, AnswerTexts(row));
    std::string& demos = imported.values["demo"];
    if (entry.shots > 0) {
      std::vector<std::string> texts;
      ASSIGN_OR_RETURN(const std::vector<size_t> chosen,
                       FirstShuffled(train->places().size(), seeds.At(kept_count), entry.shots, row.place()));
      for (size_t demo_index : chosen) {
        ASSIGN_OR_RETURN(Json demo_json, train->Read(demo_index));
        const RowView demo_row(std::move(demo_json), train->PlaceOf(demo_index));
        ASSIGN_OR_RETURN(const Json* demo_question, demo_row.Field("question"));
        ASSIGN_OR_RETURN(const std::string asked, Nested(demo_row, *demo_question, "question", "text"));
        ASSIGN_OR_RETURN(const std::vector<std::string> answers, AnswerTexts(demo_row));
        ASSIGN_OR_RETURN(std::string rendered,
                         demo.Render({{"ex['question']['text']", asked}, {"ex['answers'][0]['text']", answers[0]}}));
        texts.push_back(std::move(rendered));
      }
      demos = absl::StrCat(begin, absl::StrJoin(texts, "\n\n"), end);
    }
    imported.id = imported.question = absl::StrCat(index);
    imported.cluster = Sha256Hex(text).substr(0, 16);
    imported.reference = imported.gold;
    RETURN_IF_ERROR(cutter.Fill(text, imported));
    imported.item = {{"question", imported.values["question"]}, {"answer", imported.gold}, {"demo", demos}};
    ++kept_count;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

// --- InfiniteBench

bool IsInfBench(const std::string& dataset) { return absl::StrContains(dataset, "infbench"); }

struct InfBenchPart {
  const char* name;  // what the dataset's name contains
  const char* file;
  const char* texts;  // prefix of its texts
};
constexpr InfBenchPart kInfBenchParts[] = {{"qa_eng", "longbook_qa_eng", "infbench_qa"},
                                           {"choice_eng", "longbook_choice_eng", "infbench_choice"},
                                           {"sum_eng", "longbook_sum_eng", "infbench_sum"}};

absl::StatusOr<const InfBenchPart*> PartOf(const ConfigEntry& entry) {
  for (const InfBenchPart& part : kInfBenchParts) {
    if (absl::StrContains(entry.dataset, part.name)) return &part;
  }
  return InvalidArgument("upstream has no InfiniteBench task for \"", entry.dataset, "\"");
}

absl::StatusOr<Prompting> InfBenchPrompting(const ConfigEntry& entry) {
  ASSIGN_OR_RETURN(const InfBenchPart* part, PartOf(entry));
  Prompting prompting = {"default", part->texts, "\n\n", {"rougeL_f1", "f1"}};
  if (absl::StrContains(part->name, "choice")) {
    prompting.kind = "infbench_choice";
    prompting.measures = {"exact_match"};
  } else if (absl::StrContains(part->name, "sum")) {
    prompting.measures = {"rougeLsum_f1", "rougeL_f1"};
  }
  return prompting;
}

// The question and answers of a row, for its demonstration and scoring.
struct InfBenchQuestion {
  std::string question;
  std::string options;
  std::vector<std::string> answers;
};

absl::StatusOr<InfBenchQuestion> QuestionOf(const RowView& row, bool is_choice, const Template& options_form) {
  InfBenchQuestion question;
  if (row.json().contains("input") && row.json()["input"].is_null()) {
    question.question = "None";  // as in upstream; summaries have no question
  } else {
    ASSIGN_OR_RETURN(question.question, row.Str("input"));
  }
  ASSIGN_OR_RETURN(question.answers, row.Texts("answer"));
  if (!is_choice) return question;
  ASSIGN_OR_RETURN(const std::vector<std::string> options, row.Texts("options"));
  const auto right = std::find(options.begin(), options.end(), question.answers[0]);
  if (options.size() < 4) return row.Error("options", absl::StrCat("has ", options.size(), " texts; 4 are needed"));
  if (right == options.end())
    return row.Error("answer", absl::StrCat("is \"", question.answers[0], "\", which is no option"));
  ASSIGN_OR_RETURN(question.options,
                   options_form.Render({{"0", options[0]}, {"1", options[1]}, {"2", options[2]}, {"3", options[3]}}));
  const std::string letter(1, static_cast<char>('A' + (right - options.begin())));
  question.answers = {letter, absl::StrCat(letter, ". ", question.answers[0])};
  return question;
}

absl::Status ImportInfBench(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  constexpr int64_t kTokensMin = 65536;
  ASSIGN_OR_RETURN(const InfBenchPart* part, PartOf(entry));
  ASSIGN_OR_RETURN(LengthCutter cutter, LengthCutter::Make(entry, sources));
  ASSIGN_OR_RETURN(const Template demo, sources.texts->Form(absl::StrCat(part->texts, ".demo")));
  ASSIGN_OR_RETURN(const Template demos_form, sources.texts->Form("infbench.demos"));
  ASSIGN_OR_RETURN(const Template options_form, sources.texts->Form("infbench_choice.options"));
  const bool is_choice = absl::StrContains(part->name, "choice");
  UniqueIds ids;
  ASSIGN_OR_RETURN(const auto file, sources.Open(absl::StrCat(sources.data, "/infbench/", part->file, ".jsonl"),
                                                 [&](int64_t number, absl::string_view text) -> absl::Status {
                                                   ASSIGN_OR_RETURN(const Json fields, FieldsOf(text, {"id"}));
                                                   ASSIGN_OR_RETURN(const int64_t id, GetInt(fields, "id"));
                                                   return ids.Add("id", id, number);
                                                 }));
  const size_t row_count = file->places().size();
  std::vector<size_t> long_rows;
  std::vector<InfBenchQuestion> questions;
  for (size_t i = 0; i < row_count; ++i) {
    ASSIGN_OR_RETURN(Json json, file->Read(i));
    const RowView row(std::move(json), file->PlaceOf(i));
    ASSIGN_OR_RETURN(InfBenchQuestion question, QuestionOf(row, is_choice, options_form));
    questions.push_back(std::move(question));
    ASSIGN_OR_RETURN(const std::string context, row.Text("context"));
    ASSIGN_OR_RETURN(const MeasuredText measured, cutter.Measure(context));
    if (measured.token_count >= kTokensMin) long_rows.push_back(i);
  }
  for (size_t shuffled : ShuffledRows(long_rows.size(), entry)) {
    const size_t index = long_rows[shuffled];
    ASSIGN_OR_RETURN(Json json, file->Read(index));
    const RowView row(std::move(json), file->PlaceOf(index));
    const InfBenchQuestion& question = questions[index];
    ImportedRow imported;
    imported.values["question"] = question.question;
    if (is_choice) imported.values["options"] = question.options;
    std::string& demos = imported.values["demo"];
    if (entry.shots > 0) {
      ASSIGN_OR_RETURN(const std::vector<size_t> chosen,
                       FirstShuffled(row_count - 1, entry.seed, entry.shots, row.place()));
      std::vector<std::string> texts;
      for (size_t other : chosen) {
        const InfBenchQuestion& shown = questions[other < index ? other : other + 1];  // all rows but this one
        ASSIGN_OR_RETURN(std::string text, demo.Render({{"question", shown.question},
                                                        {"options", shown.options},
                                                        {"answer[0]", shown.answers[0]},
                                                        {"x['answer'][0].strip()", PythonStrip(shown.answers[0])}}));
        texts.push_back(std::move(text));
      }
      ASSIGN_OR_RETURN(demos, demos_form.Render({{"demo", absl::StrJoin(texts, "\n\n")}}));
    }
    imported.gold = question.answers;
    imported.reference = question.answers;
    ASSIGN_OR_RETURN(const int64_t id, row.Int("id"));
    imported.id = imported.question = absl::StrCat(id);
    ASSIGN_OR_RETURN(const std::string context, row.Text("context"));
    imported.cluster = Sha256Hex(context).substr(0, 16);
    RETURN_IF_ERROR(cutter.Fill(context, imported));
    imported.item = row.json();
    imported.item.erase("context");
    imported.item["question"] = question.question;
    imported.item["answer"] = question.answers;
    imported.item["demo"] = demos;
    if (is_choice) imported.item["options"] = question.options;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

// --- Multi-LexSum

bool IsMultiLexSum(const std::string& dataset) { return absl::StrContains(dataset, "multi_lexsum"); }

absl::StatusOr<Prompting> MultiLexSumPrompting(const ConfigEntry&) {
  return Prompting{"multi_lexsum", "multi_lexsum", "\n\n", {"rougeLsum_f1", "rougeL_f1"}};
}

constexpr const char* kShortSummary = "summary/short";

// The documents of a case as one text; a case may have none.
absl::StatusOr<std::string> JoinedSources(const RowView& row) {
  ASSIGN_OR_RETURN(const Json* documents, row.Field("sources"));
  if (documents->is_array() && documents->empty()) return std::string();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, row.Texts("sources"));
  return absl::StrJoin(texts, "\n\n");
}

// Rows of a split that have a short summary.
struct SummarizedRows {
  std::unique_ptr<JsonRowFile> file;
  std::vector<size_t> rows;
};

absl::StatusOr<SummarizedRows> ReadSummarized(const std::string& path, Sources& sources) {
  SummarizedRows read;
  UniqueIds ids;
  ASSIGN_OR_RETURN(read.file, sources.Open(path, [&](int64_t number, absl::string_view text) -> absl::Status {
    ASSIGN_OR_RETURN(const Json fields, FieldsOf(text, {kShortSummary, "id"}));
    if (!fields.contains(kShortSummary)) return InvalidArgument("the field \"", kShortSummary, "\" is missing");
    if (fields.contains("id")) RETURN_IF_ERROR(ids.Add("id", fields["id"], number));
    if (!fields[kShortSummary].is_null()) read.rows.push_back(number - 1);
    return absl::OkStatus();
  }));
  return read;
}

absl::Status ImportMultiLexSum(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  constexpr int64_t kTokensMin = 65536;
  ASSIGN_OR_RETURN(LengthCutter cutter, LengthCutter::Make(entry, sources));
  ASSIGN_OR_RETURN(const std::string begin, sources.texts->Text("multi_lexsum.demos_begin"));
  ASSIGN_OR_RETURN(const Template demo, sources.texts->Form("multi_lexsum.demo"));
  ASSIGN_OR_RETURN(const std::string end, sources.texts->Text("multi_lexsum.demos_end"));
  ASSIGN_OR_RETURN(const SummarizedRows train, ReadSummarized(sources.data + "/multi_lexsum/train.jsonl", sources));
  ASSIGN_OR_RETURN(const SummarizedRows test, ReadSummarized(sources.data + "/multi_lexsum/validation.jsonl", sources));
  struct Chosen {
    size_t index;
    size_t draw;
  };
  std::vector<Chosen> chosen;
  for (size_t i = 0; i < test.rows.size(); ++i) {
    ASSIGN_OR_RETURN(Json json, test.file->Read(test.rows[i]));
    const RowView row(std::move(json), test.file->PlaceOf(test.rows[i]));
    ASSIGN_OR_RETURN(const std::string context, JoinedSources(row));
    ASSIGN_OR_RETURN(const MeasuredText measured, cutter.Measure(context));
    // All rows of train, and earlier rows of this split, draw before this one.
    if (measured.token_count >= kTokensMin) chosen.push_back({test.rows[i], train.rows.size() + i});
  }
  std::vector<size_t> order(chosen.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (entry.max_test_samples.has_value() && std::ssize(chosen) > *entry.max_test_samples) {
    order = ShuffledRows(chosen.size(), entry);
  }
  ShuffleSeeds seeds(entry.seed);
  for (size_t place : order) {
    const size_t index = chosen[place].index;
    ASSIGN_OR_RETURN(Json json, test.file->Read(index));
    const RowView row(std::move(json), test.file->PlaceOf(index));
    ImportedRow imported;
    ASSIGN_OR_RETURN(const std::string summary, row.Text(kShortSummary));
    imported.gold = {summary};
    imported.reference = summary;
    imported.values["question"] = "";
    std::string& demos = imported.values["demo"];
    if (entry.shots > 0) {
      ASSIGN_OR_RETURN(const std::vector<size_t> picks,
                       FirstShuffled(train.rows.size(), seeds.At(chosen[place].draw), entry.shots, row.place()));
      std::vector<std::string> texts;
      for (size_t pick : picks) {
        ASSIGN_OR_RETURN(Json demo_json, train.file->Read(train.rows[pick]));
        const RowView demo_row(std::move(demo_json), train.file->PlaceOf(train.rows[pick]));
        ASSIGN_OR_RETURN(const std::string shown, demo_row.Text(kShortSummary));
        ASSIGN_OR_RETURN(std::string text, demo.Render({{"0", shown}}));
        texts.push_back(std::move(text));
      }
      demos = absl::StrCat(begin, absl::StrJoin(texts, "\n\n"), end);
    }
    imported.id = row.json().contains("id") && row.json()["id"].is_string() ? row.json()["id"].get<std::string>()
                                                                            : absl::StrCat(index);
    imported.question = imported.cluster = imported.id;
    ASSIGN_OR_RETURN(const std::string context, JoinedSources(row));
    RETURN_IF_ERROR(cutter.Fill(context, imported));
    imported.item = row.json();
    imported.item.erase("sources");
    imported.item["question"] = "";
    imported.item["answer"] = summary;
    imported.item["demo"] = demos;
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

}  // namespace

const FamilyInfo kNarrativeQaFamily = {"narrativeqa", &IsNarrativeQa, &NameWithoutNumber, &NarrativeQaPrompting,
                                       &ImportNarrativeQa};
const FamilyInfo kInfBenchFamily = {"infbench", &IsInfBench, &NameWithoutNumber, &InfBenchPrompting, &ImportInfBench};
const FamilyInfo kMultiLexSumFamily = {"multi_lexsum", &IsMultiLexSum, &NameWithoutNumber, &MultiLexSumPrompting,
                                       &ImportMultiLexSum};

}  // namespace varifocal::helmet

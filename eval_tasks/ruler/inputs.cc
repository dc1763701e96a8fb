#include "eval_tasks/ruler/inputs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/python/literals.h"
#include "eval_tasks/python/text.h"

namespace varifocal::ruler {
namespace {

constexpr absl::string_view kSynthetic = "RULER/scripts/data/synthetic/";

// Files whose other versions give other rows. The first of a file is the one that NVIDIA's rows are made with today.
struct KnownFile {
  absl::string_view name, sha256, version;
};
constexpr KnownFile kKnownFiles[] = {
    {"nounlist.txt", "8d88b3ebc2e2969ed92ebe49cdb0c8a87c2ad3b27493d7afdff608f2e51c5bc9", "wonderwords 3.0.1"},
    {"nounlist.txt", "0778f518", "wonderwords 2.2.0"},
    {"adjectivelist.txt", "66814d46b7e292c83e839d12fe2fa083c8f66779b14b294e1be4e1342c5d4131", "wonderwords 3.0.1"},
    {"verblist.txt", "9fbf5e4e69b8869aebd88e6d545312ff9f878a747327ede5f6dbbba5c27b08ad", "wonderwords 3.0.1"},
    {"constants.py", "6296e901d495ec62", "commit c3f5e3b"},
};

std::string NoteOf(absl::string_view name, const std::string& sha256) {
  absl::string_view expected, found;
  for (const KnownFile& known : kKnownFiles) {
    if (known.name != name) continue;
    if (expected.empty()) expected = known.version;
    if (absl::StartsWith(sha256, known.sha256)) found = known.version;
  }
  if (found == expected) return "";
  return absl::StrCat(name, " (SHA-256 ", sha256.substr(0, 8), "..) is ",
                      found.empty() ? "not that" : absl::StrCat("that of ", found, ", not"), " of ", expected,
                      ": its rows are others");
}

std::vector<std::string> SortedSet(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

// The first `count` code points.
std::string Start(absl::string_view text, size_t count) {
  const PythonText points = ToPythonText(text);
  return ToUtf8(points, 0, std::min(count, points.size()));
}

// An object of texts, in the file's order; as in Python, a repeated key keeps its place and gets the last value.
class TextValues : public nlohmann::json_sax<Json> {
 public:
  std::vector<std::string> Take() { return std::move(values_); }

  bool key(string_t& name) override {
    const auto [at, is_new] = places_.emplace(name, values_.size());
    if (is_new) values_.emplace_back();
    place_ = at->second;
    return true;
  }
  bool string(string_t& text) override {
    if (values_.empty()) return false;
    values_[place_] = std::move(text);
    return true;
  }
  bool start_object(size_t) override { return ++depth_ == 1; }
  bool end_object() override { return true; }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool start_array(size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::string> values_;
  size_t place_ = 0;
  int depth_ = 0;
};

class Loader {
 public:
  Loader(std::string folder, CurlyQuotes quotes) : folder_(std::move(folder)), quotes_(quotes) {}

  absl::StatusOr<Inputs> Load(const RulerTaskInfo& task, absl::string_view model_template) {
    RETURN_IF_ERROR(LoadTemplates(task, model_template));
    RETURN_IF_ERROR(LoadData(task));
    inputs_.note = absl::StrJoin(notes_, "; ");
    return std::move(inputs_);
  }

 private:
  absl::Status LoadData(const RulerTaskInfo& task) {
    switch (task.script) {
      case Script::kNiah:
        return LoadNiah(task);
      case Script::kVariableTracking:
        return LoadText("variable_tracking.py", "haystack", inputs_.noise);
      case Script::kCommonWords:
        return LoadCommonWords();
      case Script::kQuestions:
        RETURN_IF_ERROR(LoadText("qa.py", "DOCUMENT_PROMPT", inputs_.document_prompt));
        return task.is_hotpot ? LoadHotpot() : LoadSquad();
      case Script::kFrequentWords:
        break;
    }
    return absl::OkStatus();
  }

  // A source without the value is another version's; only its file can be missing.
  static absl::Status AsInvalid(const absl::Status& status) {
    return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
  }
  static absl::StatusOr<Json> DictionaryOf(absl::string_view source, absl::string_view name) {
    absl::StatusOr<Json> value = PythonConstant(source, name);
    if (!value.ok()) return AsInvalid(value.status());
    if (value->is_object()) return value;
    return InvalidArgument(name, " is no dictionary");
  }

  static absl::string_view PlaceOf(absl::string_view name) { return name.substr(name.rfind('/') + 1); }
  std::string PathOf(absl::string_view name) const { return absl::StrCat(folder_, "/", name); }

  absl::Status Missing(absl::string_view name, absl::string_view how) const {
    return NotFound(PathOf(name), ": no such file; RULER's tasks read ", how,
                    ". The suite with our own wording, which needs no data, is ruler_like");
  }

  void Record(absl::string_view name, const std::string& sha256) {
    inputs_.sha256[std::string(name)] = sha256;
    const bool is_known = std::any_of(std::begin(kKnownFiles), std::end(kKnownFiles),
                                      [&](const KnownFile& known) { return known.name == PlaceOf(name); });
    if (!is_known) return;
    if (std::string note = NoteOf(PlaceOf(name), sha256); !note.empty()) notes_.push_back(std::move(note));
  }

  absl::StatusOr<std::string> Read(absl::string_view name, absl::string_view how) {
    absl::StatusOr<std::string> bytes = ReadFile(PathOf(name), kDataFile);
    if (absl::IsNotFound(bytes.status())) return Missing(name, how);
    if (bytes.ok()) Record(name, Sha256Hex(*bytes));
    return bytes;
  }

  absl::StatusOr<std::string> ReadSource(absl::string_view name) {
    return Read(absl::StrCat(kSynthetic, name), "their prompts from a checkout of NVIDIA/RULER");
  }

  absl::Status LoadText(absl::string_view name, absl::string_view variable, std::string& text) {
    ASSIGN_OR_RETURN(const std::string source, ReadSource(name));
    absl::StatusOr<std::string> found = PythonTextOf(source, variable);
    if (!found.ok()) return Annotate(AsInvalid(found.status()), PathOf(absl::StrCat(kSynthetic, name)));
    text = *std::move(found);
    return absl::OkStatus();
  }

  absl::Status LoadTemplates(const RulerTaskInfo& task, absl::string_view model_template) {
    static constexpr std::array<absl::string_view, 5> kNames = {"niah", "variable_tracking", "common_words_extraction",
                                                                "freq_words_extraction", "qa"};
    const absl::string_view script = kNames[static_cast<size_t>(task.script)];
    ASSIGN_OR_RETURN(const std::string source, ReadSource("constants.py"));
    const auto parse = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const Json tasks, DictionaryOf(source, "TASKS"));
      const auto found = tasks.find(script);
      if (found == tasks.end() || !found->is_object()) return InvalidArgument("TASKS has no \"", script, "\"");
      ASSIGN_OR_RETURN(const std::string text, GetString(*found, "template"));
      ASSIGN_OR_RETURN(inputs_.answer_prefix, GetString(*found, "answer_prefix"));
      ASSIGN_OR_RETURN(const int64_t tokens, GetInt(*found, "tokens_to_generate"));
      if (tokens != task.max_new_tokens) {
        return InvalidArgument("generates ", tokens, " tokens for \"", script, "\", not ", task.max_new_tokens,
                               " as at commit c3f5e3b");
      }
      inputs_.own_template = absl::StrCat(text, inputs_.answer_prefix);
      inputs_.task_start = Start(text, 20);
      inputs_.task_template = inputs_.own_template;
      if (model_template.empty() || model_template == "base") return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::string around, ModelTemplate(model_template));
      ASSIGN_OR_RETURN(const std::string within, helmet::RenderText(around, {{"task_template", text}}));
      inputs_.task_template = absl::StrCat(within, inputs_.answer_prefix);
      return absl::OkStatus();
    };
    const absl::Status status = parse();
    if (status.ok() || absl::IsNotFound(status)) return status;
    return Annotate(status, PathOf(absl::StrCat(kSynthetic, "constants.py")));
  }

  absl::StatusOr<std::string> ModelTemplate(absl::string_view name) {
    ASSIGN_OR_RETURN(const std::string source,
                     Read("RULER/scripts/data/template.py", "model templates from a checkout of NVIDIA/RULER"));
    ASSIGN_OR_RETURN(const Json templates, DictionaryOf(source, "Templates"));
    const auto found = templates.find(name);
    if (found == templates.end() || !found->is_string()) {
      std::vector<std::string> names;
      for (const auto& [key, value] : templates.items()) names.push_back(key);
      return InvalidArgument("template.py has no model template \"", name, "\", but ", absl::StrJoin(names, ", "));
    }
    return found->get<std::string>();
  }

  absl::StatusOr<std::vector<std::string>> WordList(absl::string_view file) {
    const std::string in_package = absl::StrCat("wonderwords/assets/", file);
    const bool is_package = FileExists(PathOf(in_package), FileUse::kData);
    ASSIGN_OR_RETURN(const std::string bytes, Read(is_package ? in_package : absl::StrCat("wonderwords/", file),
                                                   "word lists from a copy of the Python package wonderwords 3.0.1"));
    std::vector<std::string> words;
    for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(bytes, "\n"), '\n')) {
      words.emplace_back(PythonRightStrip(line));
    }
    return words;
  }

  absl::Status LoadNiah(const RulerTaskInfo& task) {
    RETURN_IF_ERROR(LoadText("niah.py", "needle", inputs_.needle));
    if (task.haystack == HaystackKind::kNoise) RETURN_IF_ERROR(LoadText("niah.py", "haystack", inputs_.noise));
    if (task.keys == NeedleKind::kWords || task.values == NeedleKind::kWords) {
      ASSIGN_OR_RETURN(const std::vector<std::string> nouns, WordList("nounlist.txt"));
      ASSIGN_OR_RETURN(const std::vector<std::string> adjectives, WordList("adjectivelist.txt"));
      inputs_.word_keys.emplace(adjectives, nouns);
    }
    return task.haystack == HaystackKind::kEssay ? LoadEssays() : absl::OkStatus();
  }

  absl::Status LoadEssays() {
    const std::string name = absl::StrCat(kSynthetic, "json/PaulGrahamEssays.json");
    ASSIGN_OR_RETURN(const std::string bytes,
                     Read(name, "the essays that RULER's download_paulgraham_essay.py writes"));
    absl::StatusOr<Json> object = FieldsOf(bytes, {"text"});
    ASSIGN_OR_RETURN(std::string text,
                     Annotate(object.ok() ? GetString(*object, "text") : object.status(), PathOf(name)));
    std::string single;
    bool in_space = false;
    for (const CodePoint point : ToPythonText(text)) {
      const bool is_space = IsPythonSpace(point);
      if (is_space && in_space) continue;
      in_space = is_space;
      absl::StrAppend(&single, is_space ? " " : ToUtf8({point}));
    }
    inputs_.essay_words = absl::StrSplit(single, ' ');
    std::array<std::string, 4> texts;
    static constexpr std::array<absl::string_view, 4> kFiles = {"abbrev_types.txt", "collocations.tab",
                                                                "sent_starters.txt", "ortho_context.tab"};
    for (size_t i = 0; i < kFiles.size(); ++i) {
      ASSIGN_OR_RETURN(texts[i], Read(absl::StrCat("punkt_tab/english/", kFiles[i]),
                                      "the English parameters of NLTK's punkt_tab, to split essays into sentences"));
    }
    ASSIGN_OR_RETURN(inputs_.punkt, Annotate(Punkt::Parse(texts[0], texts[1], texts[2], texts[3], quotes_),
                                             PathOf("punkt_tab/english")));
    return absl::OkStatus();
  }

  absl::Status LoadCommonWords() {
    std::vector<std::string> words;
    for (const absl::string_view file : {"nounlist.txt", "adjectivelist.txt", "verblist.txt"}) {
      ASSIGN_OR_RETURN(std::vector<std::string> list, WordList(file));
      words.insert(words.end(), list.begin(), list.end());
    }
    inputs_.words = SortedSet(std::move(words));
    // Needed only where a sample has more words than those lists. Upstream stops without it at every length.
    const std::string name = absl::StrCat(kSynthetic, "json/english_words.json");
    absl::StatusOr<std::string> bytes = Read(name, "english_words.json, which is in Git LFS");
    if (!bytes.ok()) {
      inputs_.more_words_problem = std::string(bytes.status().message());
      return absl::OkStatus();
    }
    if (absl::StartsWith(*bytes, "version https://git-lfs")) {
      inputs_.more_words_problem = absl::StrCat(PathOf(name), ": is a pointer of Git LFS, not the file");
      return absl::OkStatus();
    }
    TextValues values;
    if (!Json::sax_parse(*bytes, &values)) return InvalidArgument(PathOf(name), ": is not a JSON object of texts");
    inputs_.more_words = values.Take();
    return absl::OkStatus();
  }

  absl::Status ScanJson(absl::string_view file, absl::string_view how, absl::string_view rows_field,
                        const std::function<absl::Status(const Json& row)>& visit) {
    const std::string name = absl::StrCat(kSynthetic, "json/", file);
    absl::StatusOr<std::unique_ptr<JsonRowFile>> rows = JsonRowFile::Open(PathOf(name));
    if (absl::IsNotFound(rows.status())) return Missing(name, how);
    RETURN_IF_ERROR(rows.status());
    RETURN_IF_ERROR((*rows)->Scan(
        [&](int64_t, absl::string_view text) -> absl::Status {
          ASSIGN_OR_RETURN(const Json row, ParseJson(text));
          return visit(row);
        },
        rows_field));
    Record(name, (*rows)->sha256());
    if (inputs_.questions.empty()) return InvalidArgument(PathOf(name), ": has no questions");
    return absl::OkStatus();
  }

  static absl::StatusOr<const Json*> ListOf(const Json& object, const std::string& key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) return InvalidArgument("has no list \"", key, "\"");
    return &*found;
  }

  // Documents by their texts until all are known, then by their place among all of them.
  struct RawQuestion {
    Question question;
    std::vector<std::string> documents;
    int article = -1;  // of articles_
  };

  void NumberDocuments(std::vector<RawQuestion> raw) {
    std::vector<std::string> all;
    for (const RawQuestion& row : raw) all.insert(all.end(), row.documents.begin(), row.documents.end());
    for (const std::vector<std::string>& article : articles_) all.insert(all.end(), article.begin(), article.end());
    inputs_.documents = SortedSet(std::move(all));
    const auto place = [&](const std::string& text) -> int {
      return std::lower_bound(inputs_.documents.begin(), inputs_.documents.end(), text) - inputs_.documents.begin();
    };
    inputs_.questions.clear();
    for (RawQuestion& row : raw) {
      for (const std::string& text : row.documents) row.question.documents.push_back(place(text));
      if (row.article >= 0) {
        for (const std::string& text : articles_[row.article]) {
          const int document = place(text);
          if (document != row.question.documents[0]) row.question.more_documents.push_back(document);
        }
      }
      inputs_.questions.push_back(std::move(row.question));
    }
  }

  absl::Status LoadSquad() {
    std::vector<RawQuestion> raw;
    RETURN_IF_ERROR(ScanJson("squad.json", "questions from SQuAD 2.0, which RULER's download_qa_dataset.sh fetches",
                             "data", [&](const Json& article) -> absl::Status {
                               ASSIGN_OR_RETURN(const Json* paragraphs, ListOf(article, "paragraphs"));
                               std::vector<std::string> texts;
                               for (const Json& paragraph : *paragraphs) {
                                 ASSIGN_OR_RETURN(texts.emplace_back(), GetString(paragraph, "context"));
                               }
                               for (size_t p = 0; p < texts.size(); ++p) {
                                 ASSIGN_OR_RETURN(const Json* asked, ListOf((*paragraphs)[p], "qas"));
                                 for (const Json& item : *asked) {
                                   ASSIGN_OR_RETURN(const bool is_impossible, GetBool(item, "is_impossible"));
                                   if (is_impossible) continue;
                                   RawQuestion row;
                                   ASSIGN_OR_RETURN(row.question.text, GetString(item, "question"));
                                   ASSIGN_OR_RETURN(const Json* answers, ListOf(item, "answers"));
                                   for (const Json& answer : *answers) {
                                     ASSIGN_OR_RETURN(row.question.answers.emplace_back(), GetString(answer, "text"));
                                   }
                                   row.documents = {texts[p]};
                                   row.article = std::ssize(articles_);
                                   raw.push_back(std::move(row));
                                   inputs_.questions.emplace_back();
                                 }
                               }
                               articles_.push_back(std::move(texts));
                               return absl::OkStatus();
                             }));
    NumberDocuments(std::move(raw));
    return absl::OkStatus();
  }

  absl::Status LoadHotpot() {
    std::vector<RawQuestion> raw;
    RETURN_IF_ERROR(ScanJson("hotpotqa.json", "questions from HotpotQA, which RULER's download_qa_dataset.sh fetches",
                             "", [&](const Json& item) -> absl::Status {
                               RawQuestion row;
                               ASSIGN_OR_RETURN(row.question.text, GetString(item, "question"));
                               ASSIGN_OR_RETURN(row.question.answers.emplace_back(), GetString(item, "answer"));
                               ASSIGN_OR_RETURN(const Json* contexts, ListOf(item, "context"));
                               for (const Json& context : *contexts) {
                                 if (!context.is_array() || context.size() != 2 || !context[0].is_string() ||
                                     !context[1].is_array()) {
                                   return InvalidArgument("\"context\" is not a list of titles with sentences");
                                 }
                                 std::string text = absl::StrCat(context[0].get<std::string>(), "\n");
                                 for (const Json& sentence : context[1]) {
                                   if (!sentence.is_string())
                                     return InvalidArgument("a sentence of \"context\" is not a text");
                                   absl::StrAppend(&text, sentence.get<std::string>());
                                 }
                                 row.documents.push_back(std::move(text));
                               }
                               if (row.documents.empty()) return InvalidArgument("\"context\" is empty");
                               raw.push_back(std::move(row));
                               inputs_.questions.emplace_back();
                               return absl::OkStatus();
                             }));
    NumberDocuments(std::move(raw));
    return absl::OkStatus();
  }

  const std::string folder_;
  const CurlyQuotes quotes_;
  Inputs inputs_;
  std::vector<std::string> notes_;
  std::vector<std::vector<std::string>> articles_;  // of SQuAD: all paragraphs, with those that no question is about
};

}  // namespace

std::string DefaultRulerDirectory() {
  if (const char* cache = std::getenv("VARIFOCAL_CACHE"); cache != nullptr && *cache != '\0') {
    return absl::StrCat(cache, "/ruler");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "", "/.cache/varifocal/ruler");
}

absl::StatusOr<std::shared_ptr<const Inputs>> LoadInputs(const RulerTaskInfo& task, const InputRequest& request) {
  Loader loader(request.folder.empty() ? DefaultRulerDirectory() : request.folder, request.quotes);
  ASSIGN_OR_RETURN(Inputs inputs, loader.Load(task, request.model_template));
  return std::make_shared<const Inputs>(std::move(inputs));
}

}  // namespace varifocal::ruler

#include "eval_tasks/tasks/short.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/json.h"
#include "base/json_strings.h"
#include "base/plural.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/python/random.h"
#include "eval_tasks/python/text.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal {
namespace {

constexpr char kAskedRow[] = "asked_row";
constexpr char kExclude[] = "exclude";
constexpr uint64_t kFewShotSeed = 1234;  // the harness's --seed for demonstrations

struct ShortRow {
  std::string prompt;
  std::vector<std::string> continuations;
  int gold_index = 0;
  std::string as_demo;              // prompt and right answer
  std::vector<size_t> given_bytes;  // as in Sample
};

using RowReader = absl::StatusOr<ShortRow> (*)(const Json& row);

absl::StatusOr<int> Index(int64_t value, size_t count, const char* field) {
  if (value >= 0 && value < static_cast<int64_t>(count)) return static_cast<int>(value);
  return InvalidArgument("the field \"", field, "\" must be from 0 to ", count - 1);
}

absl::Status WrongField(const char* field, absl::string_view what) {
  return InvalidArgument("the field \"", field, "\" ", what);
}

constexpr char kNoAnswer[] = "is empty; rows without their answer cannot be scored";

absl::Status CheckIsChoice(const std::vector<std::string>& texts, const char* field) {
  if (texts.size() >= 2) return absl::OkStatus();
  return WrongField(field, absl::StrCat("has ", texts.size(), "; a choice needs at least 2"));
}

// A whole number, also written as text. Rows of test splits have none, or an empty text.
absl::StatusOr<int64_t> WholeNumber(const Json& row, const char* field) {
  const auto found = row.find(field);
  if (found == row.end()) return WrongField(field, "is missing; rows without their answer cannot be scored");
  if (found->is_number_integer()) return found->get<int64_t>();
  if (!found->is_string()) return WrongField(field, "is not a whole number");
  const std::string& text = found->get_ref<const std::string&>();
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  if (text.empty()) return WrongField(field, kNoAnswer);
  return WrongField(field, "is not a whole number");
}

ShortRow Choice(std::string prompt, const std::vector<std::string>& choices, int gold_index) {
  ShortRow row{std::move(prompt), {}, gold_index, "", {}};
  for (const std::string& choice : choices) row.continuations.push_back(absl::StrCat(" ", choice));
  row.as_demo = absl::StrCat(row.prompt, row.continuations[gold_index]);
  return row;
}

struct ArcChoices {
  std::vector<std::string> labels;
  std::vector<std::string> texts;
};

// {"label": [..], "text": [..]} as on the hub, or [{"label", "text"}, ..] as in the original release.
absl::StatusOr<ArcChoices> ReadChoices(const Json& choices) {
  ArcChoices read;
  if (choices.is_object()) {
    ASSIGN_OR_RETURN(read.labels, GetNonEmptyStrings(choices, "label"));
    ASSIGN_OR_RETURN(read.texts, GetNonEmptyStrings(choices, "text"));
    return read;
  }
  if (!choices.is_array()) return WrongField("choices", "must be an object of two lists, or a list of objects");
  for (const Json& choice : choices) {
    if (!choice.is_object()) return WrongField("choices", "must hold objects with \"label\" and \"text\"");
    ASSIGN_OR_RETURN(std::string label, GetString(choice, "label"));
    ASSIGN_OR_RETURN(std::string text, GetString(choice, "text"));
    read.labels.push_back(std::move(label));
    read.texts.push_back(std::move(text));
  }
  return read;
}

// The hub's rows, or the original release's, whose question is {"stem", "choices"}.
absl::StatusOr<ShortRow> ReadArc(const Json& row) {
  const bool is_original = row.contains("question") && row["question"].is_object();
  const Json& holder = is_original ? row["question"] : row;
  ASSIGN_OR_RETURN(const std::string question, GetString(holder, is_original ? "stem" : "question"));
  ASSIGN_OR_RETURN(const std::string answer, GetString(row, "answerKey"));
  ASSIGN_OR_RETURN(const ArcChoices choices, ReadChoices(holder.value("choices", Json())));
  if (choices.labels.size() != choices.texts.size()) {
    return WrongField(
        "choices", absl::StrCat("has ", choices.labels.size(), Plural(std::ssize(choices.labels), " label", " labels"),
                                " for ", choices.texts.size(), Plural(std::ssize(choices.texts), " text", " texts")));
  }
  RETURN_IF_ERROR(CheckIsChoice(choices.texts, "choices"));
  if (answer.empty()) return WrongField("answerKey", kNoAnswer);
  const auto right = std::find(choices.labels.begin(), choices.labels.end(), answer);
  if (right == choices.labels.end()) {
    return WrongField("answerKey", "is not the label of a choice");
  }
  if (std::find(right + 1, choices.labels.end(), answer) != choices.labels.end()) {
    return WrongField("answerKey", "is the label of several choices");
  }
  return Choice(absl::StrCat("Question: ", question, "\nAnswer:"), choices.texts, right - choices.labels.begin());
}

// BoolQ's rows have "answer"; SuperGLUE's "label", a truth value in its release and 0 or 1 on the hub.
absl::StatusOr<int> TruthIndex(const Json& row, const char* field) {
  if (row.contains(field) && row[field].is_boolean()) return row[field].get<bool>() ? 1 : 0;
  ASSIGN_OR_RETURN(const int64_t label, WholeNumber(row, field));
  return Index(label, 2, field);
}

absl::StatusOr<ShortRow> ReadBoolQ(const Json& row) {
  ASSIGN_OR_RETURN(const std::string passage, GetString(row, "passage"));
  ASSIGN_OR_RETURN(const std::string question, GetString(row, "question"));
  ASSIGN_OR_RETURN(const int gold_index, TruthIndex(row, row.contains("answer") ? "answer" : "label"));
  if (row.contains("answer") && row.contains("label")) {
    ASSIGN_OR_RETURN(const int label, TruthIndex(row, "label"));
    if (label != gold_index) {
      return InvalidArgument("the fields \"answer\" and \"label\" disagree: ", row["answer"].dump(), " and ",
                             row["label"].dump());
    }
  }
  return Choice(absl::StrCat(passage, "\nQuestion: ", question, "?\nAnswer:"), {"no", "yes"}, gold_index);
}

// The harness's cleaning of WikiHow texts: title marks become full stops, other bracketed marks vanish.
std::string CleanWikiHow(absl::string_view text) {
  const std::string titled = absl::StrReplaceAll(PythonStrip(text), {{" [title]", ". "}});
  std::string kept;
  for (size_t at = 0; at < titled.size();) {
    const size_t close = titled[at] == '[' ? titled.find(']', at) : std::string::npos;
    const bool is_mark = close != std::string::npos && titled.substr(at, close - at).find('\n') == std::string::npos;
    if (is_mark) {
      at = close + 1;
    } else {
      kept += titled[at++];
    }
  }
  return absl::StrReplaceAll(kept, {{"  ", " "}});
}

absl::StatusOr<ShortRow> ReadHellaSwag(const Json& row) {
  ASSIGN_OR_RETURN(const std::string activity, GetString(row, "activity_label"));
  ASSIGN_OR_RETURN(const std::string ctx_a, GetString(row, "ctx_a"));
  ASSIGN_OR_RETURN(const std::string ctx_b, GetString(row, "ctx_b"));
  ASSIGN_OR_RETURN(const int64_t label, WholeNumber(row, "label"));
  ASSIGN_OR_RETURN(std::vector<std::string> endings, GetNonEmptyStrings(row, "endings"));
  RETURN_IF_ERROR(CheckIsChoice(endings, "endings"));
  for (std::string& ending : endings) ending = CleanWikiHow(ending);
  ASSIGN_OR_RETURN(const int gold_index, Index(label, endings.size(), "label"));
  return Choice(CleanWikiHow(absl::StrCat(activity, ": ", ctx_a, " ", PythonCapitalize(ctx_b))), endings, gold_index);
}

absl::StatusOr<ShortRow> ReadLambada(const Json& row) {
  ASSIGN_OR_RETURN(const std::string text, GetString(row, "text"));
  const size_t space = text.rfind(' ');
  if (space == std::string::npos || space == 0) return InvalidArgument("the field \"text\" has fewer than 2 words");
  // A demonstration has two spaces: the harness joins with one a target that begins with one.
  return ShortRow{
      text.substr(0, space), {text.substr(space)}, 0, absl::StrCat(text.substr(0, space), " ", text.substr(space)), {}};
}

absl::StatusOr<ShortRow> ReadPiqa(const Json& row) {
  ASSIGN_OR_RETURN(const std::string goal, GetString(row, "goal"));
  ASSIGN_OR_RETURN(const std::string first, GetString(row, "sol1"));
  ASSIGN_OR_RETURN(const std::string second, GetString(row, "sol2"));
  ASSIGN_OR_RETURN(const int64_t label, WholeNumber(row, "label"));
  ASSIGN_OR_RETURN(const int gold_index, Index(label, 2, "label"));
  return Choice(absl::StrCat("Question: ", goal, "\nAnswer:"), {first, second}, gold_index);
}

absl::StatusOr<ShortRow> ReadWinoGrande(const Json& row) {
  ASSIGN_OR_RETURN(const std::string sentence, GetString(row, "sentence"));
  ASSIGN_OR_RETURN(const std::string first, GetString(row, "option1"));
  ASSIGN_OR_RETURN(const std::string second, GetString(row, "option2"));
  ASSIGN_OR_RETURN(const int64_t answer, WholeNumber(row, "answer"));
  if (answer != 1 && answer != 2) {
    return WrongField("answer", "must be 1 or 2");
  }
  // Otherwise the prompt would be empty where the blank begins the sentence.
  if (first.empty() || second.empty()) return WrongField(first.empty() ? "option1" : "option2", "is empty");
  const size_t blank = sentence.find('_');
  if (blank == std::string::npos) return InvalidArgument("the field \"sentence\" has no \"_\"");
  const std::string ending = absl::StrCat(" ", PythonStrip(absl::string_view(sentence).substr(blank + 1)));
  ShortRow result;
  result.prompt = sentence.substr(0, blank);
  result.continuations = {first + ending, second + ending};
  result.given_bytes = {first.size(), second.size()};
  result.gold_index = answer - 1;
  result.as_demo = absl::StrCat(result.prompt, result.continuations[result.gold_index]);
  return result;
}

struct ShortKind {
  const char* name;
  RowReader read;
  std::vector<std::string> metrics;
  // The harness draws one demonstration more, in case the row itself is among them, for the tasks without a test split.
  bool draws_one_more;
  const char* labels_field;  // of a labels file
};

const std::vector<ShortKind>& Kinds() {
  static const std::vector<std::string> both = {"multiple_choice_accuracy", "multiple_choice_accuracy_normalized"};
  static const std::vector<ShortKind> kinds = {
      {"arc", &ReadArc, both, false, nullptr},
      {"boolq", &ReadBoolQ, {"multiple_choice_accuracy"}, true, nullptr},
      {"hellaswag", &ReadHellaSwag, both, true, nullptr},
      {"lambada", &ReadLambada, {"greedy_continuation", "continuation_log_likelihood"}, false, nullptr},
      {"piqa", &ReadPiqa, both, true, "label"},
      {"winogrande", &ReadWinoGrande, {"multiple_choice_accuracy"}, true, "answer"},
  };
  return kinds;
}

const ShortKind& KindNamed(const std::string& name) {
  return *std::find_if(Kinds().begin(), Kinds().end(), [&](const ShortKind& kind) { return kind.name == name; });
}

absl::StatusOr<std::vector<Json>> ReadObjects(const std::string& path, absl::string_view bytes) {
  RETURN_IF_ERROR(CheckBeginsText(path, bytes));
  std::vector<Json> objects;
  int row_number = 0;
  absl::ConsumePrefix(&bytes, "\xEF\xBB\xBF");  // a byte order mark
  for (absl::string_view line : absl::StrSplit(bytes, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    ++row_number;
    ASSIGN_OR_RETURN(Json object, Annotate(ParseJson(line), absl::StrCat(path, ": row ", row_number)));
    if (!object.is_object())
      return InvalidArgument(path, ": row ", row_number, ": is ", JsonKind(object), ", not a JSON object");
    objects.push_back(std::move(object));
  }
  if (objects.empty()) return InvalidArgument(path, ": has no rows");
  return objects;
}

// PIQA's and WinoGrande's releases have answers in a separate file: one per line, NAME-labels.lst next to NAME.jsonl. ""
// when not needed or absent.
absl::StatusOr<std::string> ReadLabelFile(const std::string& path, const char* field,
                                          const std::vector<Json>& objects) {
  const std::string labels_path = absl::StrCat(absl::StripSuffix(path, ".jsonl"), "-labels.lst");
  if (field == nullptr || objects[0].contains(field) || !FileExists(labels_path, FileUse::kData)) return std::string();
  return ReadFile(labels_path, kDataFile);
}

absl::Status AddLabels(const std::string& path, const char* field, absl::string_view labels,
                       std::vector<Json>& objects) {
  const std::vector<absl::string_view> lines = absl::StrSplit(labels, absl::ByAnyChar("\r\n"), absl::SkipEmpty());
  if (lines.size() != objects.size()) {
    return InvalidArgument(path, ": has ", objects.size(), Plural(std::ssize(objects), " row", " rows"),
                           ", and its labels file ", lines.size(), "; they must have as many");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (objects[i].contains(field)) {
      return InvalidArgument(path, ": row ", i + 1, ": has the field \"", field,
                             "\", which row 1 leaves to the labels file");
    }
    objects[i][field] = std::string(absl::StripAsciiWhitespace(lines[i]));
  }
  return absl::OkStatus();
}

// A file's rows, with the answers of its labels file, and the digest of both.
struct ShortFile {
  std::vector<Json> objects;
  std::string sha256;
};

absl::StatusOr<ShortFile> ReadShortFile(const std::string& path, const char* labels_field) {
  ShortFile file;
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDataFile));
  ASSIGN_OR_RETURN(file.objects, ReadObjects(path, bytes));
  ASSIGN_OR_RETURN(const std::string labels, ReadLabelFile(path, labels_field, file.objects));
  file.sha256 = Sha256Hex(bytes);
  if (labels.empty()) return file;
  RETURN_IF_ERROR(AddLabels(path, labels_field, labels, file.objects));
  file.sha256 = Sha256Hex(file.sha256 + Sha256Hex(labels));
  return file;
}

absl::StatusOr<std::vector<ShortRow>> ReadRows(const std::string& path, const std::vector<Json>& objects,
                                               RowReader read) {
  std::vector<ShortRow> rows;
  for (const Json& object : objects) {
    ASSIGN_OR_RETURN(ShortRow row, Annotate(read(object), absl::StrCat(path, ": row ", rows.size() + 1)));
    rows.push_back(std::move(row));
  }
  return rows;
}

struct DemoDraw {
  size_t shots = 0;
  bool draws_one_more = false;  // and leaves out the asked row
  std::string path;             // of the pool
  std::function<bool(size_t row, size_t demo)> is_asked;
};

// Demonstrations for each row, in the harness's order of draws.
absl::StatusOr<std::vector<std::vector<size_t>>> DrawDemos(size_t row_count, size_t pool_size, const DemoDraw& draw) {
  PythonRandom random(kFewShotSeed);
  const size_t drawn_count = draw.shots + (draw.draws_one_more ? 1 : 0);
  if (pool_size < drawn_count) {
    const int64_t shots = draw.shots, have = pool_size;
    return InvalidArgument(
        draw.path, ": has ", have, Plural(have, " row; ", " rows; "), shots,
        Plural(shots, " demonstration for each question needs", " demonstrations for each question need"), " at least ",
        drawn_count);
  }
  std::vector<std::vector<size_t>> all;
  for (size_t row = 0; row < row_count; ++row) {
    std::vector<size_t> demos;
    for (size_t index : random.Sample(pool_size, drawn_count)) {
      if (!draw.draws_one_more || !draw.is_asked(row, index)) demos.push_back(index);
    }
    if (demos.size() < draw.shots) {  // the file has duplicates of the row
      std::vector<size_t> others;
      for (size_t i = 0; i < pool_size; ++i) {
        if (!draw.is_asked(row, i)) others.push_back(i);
      }
      if (others.size() < draw.shots) return InvalidArgument(draw.path, ": has too few distinct rows");
      demos.clear();
      for (size_t index : random.Sample(others.size(), draw.shots)) demos.push_back(others[index]);
    }
    demos.resize(draw.shots);
    all.push_back(std::move(demos));
  }
  return all;
}

class ShortTask : public SingleQuestionTask {
 public:
  ShortTask(TaskSpec spec, std::vector<ShortRow> rows, std::string data_sha256, std::string note)
      : spec_(std::move(spec)), rows_(std::move(rows)), data_sha256_(std::move(data_sha256)), note_(std::move(note)) {}

  const std::string& name() const override { return spec_.name; }
  int question_count() const override { return rows_.size(); }
  std::string data_sha256() const override { return data_sha256_; }
  std::string Note() const override { return note_; }

  Sample Identify(const SampleRequest& request) const override {
    const ShortRow& row = rows_[request.index];
    Sample sample = AskedSample(spec_, request);
    sample.row_id = absl::StrCat(request.index + 1);
    sample.question_id = sample.cluster = absl::StrCat(spec_.name, "/", sample.row_id);
    sample.continuations = row.continuations;
    sample.given_bytes = row.given_bytes;
    sample.gold = {row.continuations[row.gold_index]};
    sample.gold_continuation_indices = {row.gold_index};
    sample.sampling_seed = SamplingSeed(ItemSeed(request.seed, spec_.name, request.index));
    return sample;
  }

 private:
  absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const override {
    Sample sample = Identify(request);
    sample.tokenizer_sha256 = tokenizer.sha256();
    sample.prompt = rows_[request.index].prompt;
    for (size_t i = 0; i < sample.continuations.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodePiece(sample.Scored(i)));
      sample.max_new_tokens = std::max<int>(sample.max_new_tokens, ids.size());
      if (i > 0 && sample.given_bytes.empty()) continue;  // all share one context
      ASSIGN_OR_RETURN(std::vector<int32_t> context, tokenizer.EncodeContext(sample.prompt, sample.Given(i)));
      if (context.size() > sample.token_ids.size()) sample.token_ids = context;
      if (!sample.given_bytes.empty()) sample.context_token_ids.push_back(std::move(context));
    }
    sample.shortfall_tokens = sample.context_length - sample.prompt_token_count() - sample.max_new_tokens;
    if (sample.shortfall_tokens >= 0) return sample;
    return WithReason(
        OutOfRange("row ", sample.row_id, " of task \"", spec_.name, "\" takes ", sample.prompt_token_count(),
                   " tokens and ", sample.max_new_tokens, " for its answer; the limit is ", sample.context_length),
        ErrorReason::kPromptTooLong);
  }

  const TaskSpec spec_;
  const std::vector<ShortRow> rows_;
  const std::string data_sha256_, note_;
};

}  // namespace

std::vector<std::string> ShortTaskNames() { return NamesOf(Kinds()); }

std::vector<std::string> ShortTaskMetrics(const std::map<std::string, std::string>& parameters) {
  const auto task = parameters.find("task");
  return KindNamed(task == parameters.end() ? "arc" : task->second).metrics;
}

absl::StatusOr<std::unique_ptr<Task>> MakeShortTask(const TaskSpec& spec) {
  const ShortKind& kind = KindNamed(GetText(spec.parameters, "task"));
  const std::string& path = GetText(spec.parameters, "path");
  const std::string& shots_path = GetText(spec.parameters, "shots_path");
  const size_t shots = GetInteger(spec.parameters, "shots");
  ASSIGN_OR_RETURN(const ShortFile file, ReadShortFile(path, kind.labels_field));
  const bool has_pool = shots > 0 && !shots_path.empty();
  ShortFile pool_file;
  if (has_pool) {
    ASSIGN_OR_RETURN(pool_file, ReadShortFile(shots_path, kind.labels_field));
  }
  const std::string digest = has_pool ? Sha256Hex(file.sha256 + pool_file.sha256) : file.sha256;
  RETURN_IF_ERROR(CheckRecordedSha256(
      spec.parameters, absl::StrCat(path, " with its labels", has_pool ? absl::StrCat(" and ", shots_path) : ""),
      digest));
  ASSIGN_OR_RETURN(std::vector<ShortRow> rows, ReadRows(path, file.objects, kind.read));
  if (shots == 0) return std::make_unique<ShortTask>(spec, std::move(rows), digest, "");
  const std::string& pool_path = has_pool ? shots_path : path;
  const std::vector<Json>& pool_objects = has_pool ? pool_file.objects : file.objects;
  ASSIGN_OR_RETURN(const std::vector<ShortRow> pool, ReadRows(pool_path, pool_objects, kind.read));
  const auto is_same_question = [&](size_t row, size_t demo) {
    return rows[row].prompt == pool[demo].prompt && rows[row].continuations == pool[demo].continuations;
  };
  const auto is_same_row = [&](size_t row, size_t demo) { return file.objects[row] == pool_objects[demo]; };
  DemoDraw draw = {.shots = shots, .draws_one_more = kind.draws_one_more, .path = pool_path, .is_asked = is_same_row};
  if (GetText(spec.parameters, kAskedRow) == kExclude) {
    draw.draws_one_more = true;
    draw.is_asked = is_same_question;
  }
  ASSIGN_OR_RETURN(const auto demos, DrawDemos(rows.size(), pool.size(), draw));
  int64_t shown_count = 0;
  std::vector<std::string> before(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t demo : demos[i]) absl::StrAppend(&before[i], pool[demo].as_demo, "\n\n");
    shown_count +=
        std::any_of(demos[i].begin(), demos[i].end(), [&](size_t demo) { return is_same_question(i, demo); });
  }
  for (size_t i = 0; i < rows.size(); ++i) rows[i].prompt.insert(0, before[i]);
  std::string note;
  if (shown_count > 0) {
    note = absl::StrCat("task \"", spec.name, "\": ", shown_count, " of ", rows.size(),
                        Plural(std::ssize(rows), " prompt shows", " prompts show"),
                        " the asked question with its answer among the demonstrations, as in lm-evaluation-harness; ",
                        kAskedRow, ": ", kExclude, " leaves it out");
  }
  return std::make_unique<ShortTask>(spec, std::move(rows), digest, std::move(note));
}

}  // namespace varifocal

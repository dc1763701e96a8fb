// varifocal metric: scores answers with the metrics of eval_tasks, without any model.
#include <algorithm>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/files.h"
#include "client/rows.h"
#include "client/verb.h"
#include "eval_tasks/helmet/score.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/row_texts.h"

namespace varifocal::client {
namespace {

absl::StatusOr<std::vector<std::string>> Names(const Json& line) {
  return NonBlankTextsOf(FindField(line, "metric"), "\"metric\"");
}

// One index, or a list of them.
absl::StatusOr<std::vector<int>> GoldIndices(const Json& line) {
  constexpr char kKey[] = "gold_continuation_index";
  std::vector<int> indices;
  const Json* found = FindField(line, kKey);
  if (found == nullptr || found->is_null()) return indices;
  for (const Json& item : found->is_array() ? *found : Json::array({*found})) {
    ASSIGN_OR_RETURN(const int64_t index, GetInt(Json{{kKey, item}}, kKey));
    if (index < 0 || index > std::numeric_limits<int>::max()) {
      return InvalidArgument("\"", kKey, "\" is ", index, "; it must be 0 or above.");
    }
    indices.push_back(static_cast<int>(index));
  }
  return indices;
}

// `written` is the line with long numbers as texts: gold answers are read as in rows of a task.
absl::StatusOr<MetricInput> ReadInput(const Json& line, const Json& written) {
  MetricInput input;
  ASSIGN_OR_RETURN(const std::optional<std::string> prediction, FindString(line, "prediction"));
  input.prediction = prediction.value_or("");
  if (const Json* gold = FindField(written, "gold"); gold != nullptr) {
    ASSIGN_OR_RETURN(input.gold, NonBlankTextsOf(gold, "\"gold\""));
  }
  if (const Json* texts = FindField(line, "continuations"); texts != nullptr) {
    const Json list = texts->is_array() ? *texts : Json::array({*texts});
    ASSIGN_OR_RETURN(input.continuations, GetStrings(Json{{"continuations", list}}, "continuations"));
  }
  ASSIGN_OR_RETURN(input.gold_continuation_indices, GoldIndices(line));
  if (const auto scores = line.find("continuation_scores"); scores != line.end()) {
    if (!scores->is_array()) {
      return InvalidArgument("\"continuation_scores\" must be a list, not ", JsonKind(*scores), ".");
    }
    for (const Json& score : *scores) {
      ContinuationScore read;
      ASSIGN_OR_RETURN(read.log_likelihood, GetDouble(score, "log_likelihood"));
      ASSIGN_OR_RETURN(const std::optional<int64_t> token_count, FindInt(score, "token_count"));
      read.token_count = token_count.value_or(0);
      ASSIGN_OR_RETURN(const std::optional<bool> is_greedy, FindBool(score, "is_greedy"));
      read.is_greedy = is_greedy.value_or(false);
      input.continuation_scores.push_back(read);
    }
  }
  return input;
}

constexpr absl::string_view kHelmetPrefix = "helmet/";

bool IsHelmet(const std::string& name) { return absl::StartsWith(name, kHelmetPrefix); }

// Metrics of HELMET and of other benchmarks: "gold" is what their rows have.
bool ReadsOwnGold(const std::string& name) {
  const Metric* metric = FindMetric(name);
  return IsHelmet(name) || (metric != nullptr && metric->uses_raw_output);
}

absl::StatusOr<Json> ScoreOne(const std::string& name, const Json& line, const MetricInput& input) {
  if (IsHelmet(name) && FindMetric(name) == nullptr) {  // all of a kind's measures at once
    ASSIGN_OR_RETURN(const std::string output, GetString(line, "prediction"));
    return helmet::Score(absl::string_view(name).substr(kHelmetPrefix.size()), output,
                         line.contains("gold") ? line["gold"] : Json(), line);
  }
  const Metric* metric = FindMetric(name);
  if (metric == nullptr) {
    std::vector<std::string> known = NamesOf(Metrics());
    for (const helmet::KindInfo& kind : helmet::Kinds()) known.push_back(absl::StrCat(kHelmetPrefix, kind.name));
    return InvalidArgument("unknown metric \"", name, "\"", DidYouMean(name, known));
  }
  if (metric->uses_raw_output) {
    MetricInput whole;
    ASSIGN_OR_RETURN(whole.output, GetString(line, "prediction"));
    ASSIGN_OR_RETURN(whole.reference_json, DumpJson(line.contains("gold") ? line["gold"] : Json()));
    return metric->Score(whole);
  }
  if (!metric->needs_continuations && (line.value("prediction", Json()).is_null() || input.gold.empty())) {
    return InvalidArgument(name, " needs \"prediction\" and at least one \"gold\".");
  }
  if (metric->needs_continuations && input.continuation_scores.empty()) {
    return InvalidArgument(name, " needs \"continuation_scores\".");
  }
  return metric->Score(input);
}

class ScoreAnswers : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("jsonl", &jsonl_, "PATH", "one answer a line; - is standard input").Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    bool has_error = false;
    const auto score = [&](int64_t, absl::string_view text) -> absl::Status {
      ASSIGN_OR_RETURN(const Json line, ParseJsonObject(text));
      ASSIGN_OR_RETURN(const Json written, ParseRowObject(text));
      ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(line));
      const bool reads_own_gold = std::all_of(names.begin(), names.end(), ReadsOwnGold);
      ASSIGN_OR_RETURN(const MetricInput input,
                       reads_own_gold ? absl::StatusOr<MetricInput>(MetricInput()) : ReadInput(line, written));
      Json values = Json::object();
      for (const std::string& name : names) {
        ASSIGN_OR_RETURN(values[name], ScoreOne(name, line, input));
      }
      return Print(console, values);
    };
    RETURN_IF_ERROR(ForEachLine(jsonl_, score, [&](const absl::Status& error) {
      has_error = true;
      console.err << "varifocal: " << error.message() << "\n";
      Print(console, {{"error", std::string(error.message())}}).IgnoreError();  // a line for every line
    }));
    return has_error ? ExitCode::kFailed : ExitCode::kDone;
  }

 private:
  absl::Status Print(Console& console, const Json& values) const {
    if (console.format != Format::kText) {
      RETURN_IF_ERROR(PrintJson(console, values));
    } else {
      std::string text;
      for (const auto& [name, value] : values.items()) {
        absl::StrAppend(&text, text.empty() ? "" : "  ", name, " ", value.dump());
      }
      console.out << text << "\n";
    }
    if (jsonl_ == "-") console.out.flush();  // the writer of the lines may wait for the results
    return absl::OkStatus();
  }

  std::string jsonl_;
};

}  // namespace

constinit const Verb kMetricVerb = {
    .name = "metric",
    .group = "Tasks",
    .summary = "score existing answers",
    .about =
        R"(Reads one JSON object per line and prints one per line without buffering: {metric name: value, ..}. "metric" is
a name or a list of names, "gold" an accepted text or a list of them, read as in rows of a task: numbers
and truth values are texts as JSON writes them, and none may be empty. A metric of log-likelihoods takes
"continuation_scores" [{"log_likelihood", "token_count", "is_greedy"}] and "gold_continuation_index"
(from 0; a list where several are right) instead of a prediction. "helmet/KIND" returns an object: the
prediction after HELMET's post-processing of that kind (docs/helmet.md). For a metric of another benchmark
"gold" is the object of its rows' references (docs/benchmarks.md). Other keys are ignored, so that
rows may have ids. A line that is refused gives {"error": sentence}, also on standard error; the others
are scored, and the exit code is 1.)",
    .examples =
        "echo '{\"metric\": \"token_f1\", \"prediction\": \"the red door\", \"gold\": [\"a red door\"]}' > "
        "answers.jsonl\n"
        "varifocal metric --jsonl=answers.jsonl --format=jsonl",
    .make = &Make<ScoreAnswers>,
};

}  // namespace varifocal::client

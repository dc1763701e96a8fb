// varifocal metric: scores answers with the metrics of eval_tasks, without any model.
#include <algorithm>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/rows.h"
#include "client/verb.h"
#include "eval_tasks/helmet/score.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/suggest.h"

namespace varifocal::client {
namespace {

absl::StatusOr<std::vector<std::string>> Strings(const Json& line, const char* key, bool required) {
  std::vector<std::string> values;
  const auto found = line.find(key);
  if (found == line.end()) {
    if (!required) return values;
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is missing."));
  }
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& item : list) {
    if (!item.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", key, "\" must be text or a list of texts, not ", item.type_name(), "."));
    }
    values.push_back(item.get<std::string>());
  }
  if (required && values.empty()) return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is an empty list."));
  return values;
}

absl::StatusOr<MetricInput> ReadInput(const Json& line) {
  MetricInput input;
  ASSIGN_OR_RETURN(const std::optional<std::string> prediction, FindString(line, "prediction"));
  input.prediction = prediction.value_or("");
  ASSIGN_OR_RETURN(input.gold, Strings(line, "gold", /*required=*/false));
  ASSIGN_OR_RETURN(input.continuations, Strings(line, "continuations", /*required=*/false));
  ASSIGN_OR_RETURN(const std::optional<int64_t> gold_index, FindInt(line, "gold_continuation_index"));
  input.gold_continuation_index = gold_index.value_or(-1);
  if (const auto scores = line.find("continuation_scores"); scores != line.end()) {
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

absl::StatusOr<Json> ScoreOne(const std::string& name, const Json& line, const MetricInput& input) {
  if (IsHelmet(name) && FindMetric(name) == nullptr) {  // all of a kind's measures at once
    ASSIGN_OR_RETURN(const std::string output, GetString(line, "prediction"));
    return helmet::Score(absl::string_view(name).substr(kHelmetPrefix.size()), output,
                         line.contains("gold") ? line["gold"] : Json(), line);
  }
  const Metric* metric = FindMetric(name);
  if (metric == nullptr) {
    std::vector<std::string> known;
    for (const Metric& row : Metrics()) known.push_back(row.name);
    for (const helmet::KindInfo& kind : helmet::Kinds()) known.push_back(absl::StrCat(kHelmetPrefix, kind.name));
    return absl::InvalidArgumentError(absl::StrCat("unknown metric \"", name, "\"", DidYouMean(name, known)));
  }
  if (metric->uses_raw_output) {
    MetricInput whole;
    ASSIGN_OR_RETURN(whole.output, GetString(line, "prediction"));
    ASSIGN_OR_RETURN(whole.reference_json, DumpJson(line.contains("gold") ? line["gold"] : Json()));
    return metric->Score(whole);
  }
  if (!metric->needs_continuations && (!line.contains("prediction") || input.gold.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(name, " needs \"prediction\" and at least one \"gold\"."));
  }
  return metric->Score(input);
}

class JudgeAnswers : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("jsonl", &jsonl_, "PATH", "one answer a line; - is standard input").Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    bool has_error = false;
    const auto judge = [&](int64_t, const Json& line) -> absl::Status {
      ASSIGN_OR_RETURN(const std::vector<std::string> names, Strings(line, "metric", /*required=*/true));
      // HELMET's kinds read their own gold answers.
      const bool is_helmet = std::all_of(names.begin(), names.end(), IsHelmet);
      ASSIGN_OR_RETURN(const MetricInput input,
                       is_helmet ? absl::StatusOr<MetricInput>(MetricInput()) : ReadInput(line));
      Json values = Json::object();
      for (const std::string& name : names) {
        ASSIGN_OR_RETURN(values[name], ScoreOne(name, line, input));
      }
      return Print(console, values);
    };
    RETURN_IF_ERROR(ForEachJsonLine(jsonl_, judge, [&](const absl::Status& error) {
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

extern const Verb kMetricVerb;
constinit const Verb kMetricVerb = {
    .name = "metric",
    .group = "Tasks",
    .summary = "score existing answers",
    .about =
        R"(Reads one JSON object per line and prints one per line without buffering: {metric name: value, ..}. "metric" is
a name or a list of names, "gold" a string or a list of accepted strings. A metric of log-likelihoods
takes "continuation_scores" [{"log_likelihood", "token_count", "is_greedy"}] and
"gold_continuation_index" (from 0) instead of a prediction. "helmet/KIND" returns an object: the prediction after
HELMET's post-processing of that kind (docs/helmet.md). Other keys are ignored, so that rows may have ids. A line that
is refused gives {"error": sentence}, also on standard error; the others are scored, and the exit code is 1.)",
    .examples =
        "echo '{\"metric\": \"token_f1\", \"prediction\": \"the red door\", \"gold\": [\"a red door\"]}' > "
        "answers.jsonl\n"
        "varifocal metric --jsonl=answers.jsonl --format=jsonl",
    .formats = "text json jsonl",
    .make = &Make<JudgeAnswers>,
};

}  // namespace varifocal::client

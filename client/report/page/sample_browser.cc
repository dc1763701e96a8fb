#include "client/report/page/sample_browser.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/plural.h"
#include "client/report/data/browser_samples.h"
#include "client/report/data/text_format.h"
#include "client/report/page/excerpt.h"
#include "client/report/page/template.h"
#include "db/answer_kinds.h"

namespace varifocal::report {
namespace {

constexpr size_t kAnswerBytesMax = 300;

struct OutcomeName {
  const char* key;
  const char* label;
};
constexpr OutcomeName kOutcomes[] = {
    {"gain", "gain"},   {"loss", "loss"},     {"both-right", "both right"}, {"both-wrong", "both wrong"},
    {"equal", "equal"}, {"failed", "failed"}, {"left-out", "left out"}};

const char* LabelOf(const std::string& key) {
  for (const OutcomeName& outcome : kOutcomes) {
    if (key == outcome.key) return outcome.label;
  }
  return "";
}

std::vector<std::string> NamesOf(uint32_t answer_kinds) {
  std::vector<std::string> names;
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if ((answer_kinds & kind.mark) != 0) names.push_back(kind.name);
  }
  return names;
}

Json Options(const std::vector<std::pair<std::string, std::string>>& values) {
  Json options = Json::array();
  for (const auto& [value, text] : values) options.push_back({{"value", value}, {"text", text}});
  return options;
}

// "1,008 prompt tokens · evidence at 37 % · question 5e0f..", "prompt cut from 3,242 to 991 tokens · .."
std::string FactsLine(const BrowserSample& sample, const ReportData& data) {
  std::vector<std::string> facts;
  if (sample.prompt_token_count.has_value() && sample.cut_token_count > 0) {
    facts.push_back(absl::StrCat("prompt cut from ", CountLabel(*sample.prompt_token_count + sample.cut_token_count),
                                 " to ", CountLabel(*sample.prompt_token_count), " tokens",
                                 sample.has_lost_gold ? ", the gold answer is not in the rest" : ""));
  } else if (sample.prompt_token_count.has_value()) {
    facts.push_back(absl::StrCat(CountLabel(*sample.prompt_token_count), " prompt tokens"));
  }
  if (sample.depth.has_value()) facts.push_back(absl::StrCat("evidence at ", Unsigned(*sample.depth * 100, 0), " %"));
  facts.push_back(absl::StrCat("question ", sample.question_id));
  if (const int64_t epochs = data.epochs.at(data.job.job_id).count; epochs > 1)
    facts.push_back(absl::StrCat("answer ", sample.sample_index % epochs + 1, " of ", epochs));
  if (!sample.filters.empty()) facts.push_back(absl::StrCat("scored: ", sample.filters));
  return absl::StrJoin(facts, " \u00B7 ");
}

// Prints the whole prompt.
std::string PromptCommand(const BrowserSample& sample, const ReportData& data) {
  // What decides how the indices of a cell run through the data seeds.
  const Json spec = ParseJson(data.job.spec_json).value_or(Json());
  const Json suite = spec.is_object() ? spec.value("suite", Json()) : Json();
  std::string seeds;
  if (suite.is_object() && suite.contains("seeds")) {
    const int64_t limit = FindInt(spec, "limit").value_or(std::nullopt).value_or(0);
    seeds = absl::StrCat(" --seeds=", FindInt(suite, "seeds").value_or(std::nullopt).value_or(1),
                         limit > 0 ? absl::StrCat(" --limit=", limit) : "");
  }
  if (suite.is_object() && suite.contains("epochs"))
    absl::StrAppend(&seeds, " --epochs=", FindInt(suite, "epochs").value_or(std::nullopt).value_or(1));
  const bool is_chat_form = suite.is_object() && suite.value("form", Json()) == "chat";
  return absl::StrCat("varifocal samples ", ShellWord(data.job.suite), is_chat_form ? " --form=chat" : "",
                      " --tokenizer=DIR --seed=", data.job.data_seed, seeds, " --tasks=", ShellWord(sample.task),
                      " --lengths=", sample.nominal_length, " --index=", sample.sample_index);
}

// "stop \u00B7 4 new tokens \u00B7 0.35 s"
std::string MetaLine(const VariantAnswer& answer) {
  if (answer.finish_reason.empty()) return "";
  std::vector<std::string> facts = {answer.finish_reason == "length" ? "cut by the limit on new tokens"
                                                                     : answer.finish_reason};
  if (!answer.is_scored)
    facts.push_back(absl::StrCat(answer.new_token_count, answer.new_token_count == 1 ? " new token" : " new tokens"));
  facts.push_back(absl::StrCat(Unsigned((answer.prefill_us + answer.decode_us) / 1e6, 2), " s"));
  return absl::StrJoin(facts, " \u00B7 ");
}

std::string SampleHtml(const BrowserSample& sample, const ReportData& data) {
  Json values = {{"task", sample.task},
                 {"context_length", sample.context_length},
                 {"length", data.Length(sample.task, sample.context_length)},
                 {"index", sample.sample_index},
                 {"outcome_keys", absl::StrJoin(sample.outcomes, " ")},
                 {"outcomes", Json::array()},
                 {"answers", Json::array()},
                 {"facts", FactsLine(sample, data)},
                 {"command", PromptCommand(sample, data)},
                 {"gold", Shorten(absl::StrJoin(sample.gold, " | "), kAnswerBytesMax)}};
  for (size_t i = 0; i < sample.outcomes.size(); ++i) {
    values["outcomes"].push_back({{"key", sample.outcomes[i]},
                                  {"label", LabelOf(sample.outcomes[i])},
                                  {"name", sample.outcomes.size() > 1 ? data.variants[i + 1].name : ""}});
  }
  if (!sample.excerpt.empty()) values["excerpt"] = ExcerptHtml(sample.excerpt, sample.evidence, sample.gold);
  std::set<std::string> flags;
  for (const VariantAnswer& answer : sample.answers) {
    Json column = {{"variant", answer.variant},
                   {"score", answer.value.has_value() ? Unsigned(*answer.value, 2) : "\u2014"},
                   {"meta", MetaLine(answer)}};
    if (answer.is_left_out) {
      column["error"] = Sentence("answer_left_out");
    } else if (!answer.error.empty()) {
      column["error"] = Shorten(answer.error, kAnswerBytesMax);
      flags.insert("failed");
    } else if (answer.answer.empty()) {
      column["nothing"] = absl::StrJoin(NamesOf(answer.answer_kinds & ~db::kTruncatedPrompt), ", ");
    } else {
      column["answer"] = Shorten(answer.answer, kAnswerBytesMax);
    }
    if (!answer.written.empty()) column["written"] = ShortenFront(answer.written, kAnswerBytesMax);
    for (const std::string& name : NamesOf(answer.answer_kinds)) flags.insert(name);
    column["is_best"] = IsBest(answer, data.primary_metric(sample.task));
    values["answers"].push_back(std::move(column));
  }
  values["flags"] = absl::StrJoin(flags, " ");
  flags.erase("failed");  // an outcome already
  values["marks"] = flags;
  return FillTemplate("sample.html", values);
}

}  // namespace

std::string SampleBrowserHtml(const ReportData& data) {
  if (data.samples.empty()) return absl::StrCat("<p>", Sentence("no_samples"), "</p>\n");
  std::vector<std::pair<std::string, std::string>> tasks, lengths, outcomes, flags, candidates;
  for (const std::string& task : data.tasks) tasks.emplace_back(task, task);
  for (int64_t length : data.lengths) lengths.emplace_back(absl::StrCat(length), data.Length("", length));
  std::set<std::string> seen;
  bool has_failed = false;
  uint32_t kinds = 0;
  for (const BrowserSample& sample : data.samples) {
    seen.insert(sample.outcomes.begin(), sample.outcomes.end());
    for (const VariantAnswer& answer : sample.answers) {
      has_failed |= !answer.error.empty();
      kinds |= answer.answer_kinds;
    }
  }
  if (seen.count("gain") + seen.count("loss") > 0) outcomes.emplace_back("flipped", "flipped");
  for (const OutcomeName& outcome : kOutcomes) {
    if (seen.count(outcome.key) > 0) outcomes.emplace_back(outcome.key, outcome.label);
  }
  if (has_failed) flags.emplace_back("failed", "failed answers");
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if ((kinds & kind.mark) != 0) flags.emplace_back(kind.name, kind.answers);
  }
  for (size_t i = 1; i < data.variants.size(); ++i) candidates.emplace_back(absl::StrCat(i - 1), data.variants[i].name);
  Json values = {{"selects", Json::array()},
                 {"sample_count", CountLabel(data.samples.size())},
                 {"sample_total", CountLabel(data.sample_total)},
                 {"questions", std::string(Plural(data.sample_total, "question", "questions"))},
                 {"baseline", data.baseline}};
  const auto add = [&](const char* id, const char* label, const char* all, const auto& options) {
    values["selects"].push_back({{"id", id}, {"label", label}, {"all", all}, {"options", Options(options)}});
  };
  add("task", "Task", "all", tasks);
  add("length", "Length", "all", lengths);
  if (!outcomes.empty()) add("outcome", "Outcome", "all", outcomes);
  if (candidates.size() > 1) add("candidate", "of", "any candidate", candidates);
  if (!flags.empty()) add("flag", "With", "any answers", flags);
  std::string samples;
  for (const BrowserSample& sample : data.samples) samples += SampleHtml(sample, data);
  values["samples"] = std::move(samples);
  return FillTemplate("browser.html", values);
}

}  // namespace varifocal::report

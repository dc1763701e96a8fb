#include "client/report/page/sample_browser.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/report/data/text_format.h"
#include "client/report/page/excerpt.h"
#include "client/report/page/template.h"
#include "db/refusal.h"

namespace varifocal::report {
namespace {

constexpr size_t kAnswerBytesMax = 300;

using SampleKey = std::tuple<std::string, int64_t, int64_t>;  // task, context length, sample index

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

std::vector<std::string> GoldStrings(const std::string& gold_json) {
  std::vector<std::string> gold;
  auto parsed = ParseJson(gold_json);
  if (!parsed.ok() || !parsed->is_array()) return gold;
  for (const Json& item : *parsed) gold.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return gold;
}

void ReadTruncation(const std::optional<std::string>& truncation_json, BrowserSample& sample) {
  if (!truncation_json.has_value()) return;
  const auto parsed = ParseJson(*truncation_json);
  if (!parsed.ok() || !parsed->is_object()) return;
  const Json count = parsed->value("cut_token_count", Json());
  if (count.is_number_integer()) sample.cut_token_count = count.get<int64_t>();
  sample.has_lost_gold = parsed->value("gold_survived", Json()) == false;
}

// What is kept of one answer while all are read: where its texts are, and what its outcome needs.
struct AnswerMark {
  int64_t generation_id = 0;  // 0: not there yet
  std::optional<double> value;
  bool is_left_out = false;
};
using AnswerMarks = std::map<SampleKey, std::vector<AnswerMark>>;  // by variant

std::string Outcome(const AnswerMark& baseline, const AnswerMark& candidate, const db::TaskMetricRecord* metric) {
  if (candidate.is_left_out) return "left-out";
  if (!baseline.value.has_value() || !candidate.value.has_value()) return "failed";
  const bool lower_is_better = metric != nullptr && metric->worst_value.has_value() && metric->best_value.has_value() &&
                               *metric->best_value < *metric->worst_value;
  const double gain = (*candidate.value - *baseline.value) * (lower_is_better ? -1 : 1);
  if (gain > 0) return "gain";
  if (gain < 0) return "loss";
  if (metric == nullptr) return "equal";
  if (metric->best_value == baseline.value) return "both-right";
  return metric->is_binary || metric->worst_value == baseline.value ? "both-wrong" : "equal";
}

bool IsBest(const VariantAnswer& answer, const db::TaskMetricRecord* metric) {
  return metric != nullptr && answer.value.has_value() && answer.value == metric->best_value;
}

// As db::AnswerCounts counts them.
bool IsRefused(const VariantAnswer& answer, const db::TaskMetricRecord* metric) {
  return answer.error.empty() && !answer.is_scored && !IsBest(answer, metric) && db::IsRefusal(answer.answer);
}

// Reads every answer without its texts, which a job of a million samples has too many of.
absl::StatusOr<AnswerMarks> ReadMarks(db::Reader& reader, ReportData& data) {
  AnswerMarks marks;
  for (size_t i = 0; i < data.variants.size(); ++i) {
    const bool is_of_other_job = data.keys[i].job_id != data.job.job_id;
    db::CrossPairs pairs;
    if (is_of_other_job) {
      ASSIGN_OR_RETURN(pairs, db::PairAcrossJobs(reader, data.keys[0], data.keys[i]));
      for (auto& [key, of_variants] : marks) of_variants[i].is_left_out = true;
    }
    const auto add = [&](const db::AnswerRow& row) -> absl::Status {
      const std::optional<int64_t> length = data.tested.Of(row.sample.task, row.sample.context_length);
      if (!length.has_value()) return absl::OkStatus();  // asked with the same prompts at a shorter length
      db::SampleRecord of_test = row.sample;
      of_test.context_length = *length;
      SampleKey key = {row.sample.task, row.sample.context_length, row.sample.sample_index};
      if (is_of_other_job) {
        const auto paired = pairs.baseline_index.find(key);
        if (paired == pairs.baseline_index.end()) return absl::OkStatus();
        std::get<2>(key) = paired->second;
      }
      std::get<1>(key) = *length;
      const bool is_answered = row.generation.error_code.empty();
      std::vector<AnswerMark>& of_variants = marks[key];
      of_variants.resize(data.variants.size());
      of_variants[i] = {row.generation_id, row.value, false};
      if (is_answered) {
        Work& work = data.work[i];
        ++work.answered_count;
        work.computed_prompt_token_count +=
            std::max<int64_t>(0, row.sample.prompt_token_count.value_or(0) - row.generation.cached_token_count);
        work.new_token_count += row.generation.new_token_count;
        work.prefill_us += row.generation.prefill_us;
        work.decode_us += row.generation.decode_us;
      }
      const db::TaskMetricRecord* metric = data.primary_metric(row.sample.task);
      if (metric == nullptr || !metric->worst_value.has_value() || !metric->best_value.has_value() ||
          metric->worst_value == metric->best_value) {
        return absl::OkStatus();
      }
      // A failed answer counts as the worst value.
      const std::optional<double> counted = is_answered ? row.value : metric->worst_value;
      if (counted.has_value()) {
        data.depths.Add(i, of_test, (*counted - *metric->worst_value) / (*metric->best_value - *metric->worst_value));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(reader.EachAnswer(data.keys[i].job_id, data.keys[i].name, add));
  }
  return marks;
}

// With the texts of all its answers; those of the first variant that has it are the question's.
absl::StatusOr<BrowserSample> ReadSample(db::Reader& reader, const ReportData& data, const SampleKey& key,
                                         const std::vector<AnswerMark>& marks) {
  BrowserSample sample;
  std::tie(sample.task, sample.context_length, sample.sample_index) = key;
  bool has_question = false;
  for (size_t i = 0; i < marks.size(); ++i) {
    VariantAnswer& answer = sample.answers.emplace_back();
    answer.variant = data.variants[i].name;
    answer.is_left_out = marks[i].is_left_out;
    answer.value = marks[i].value;
    if (marks[i].generation_id == 0) continue;
    ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> details,
                     reader.Samples({.job_id = data.keys[i].job_id,
                                     .variant = data.keys[i].name,
                                     .after_id = marks[i].generation_id - 1,
                                     .limit = 1}));
    // Between two reads of a running job a failed answer may have been replaced.
    if (details.empty() || details[0].generation_id != marks[i].generation_id) continue;
    const db::SampleDetail& detail = details[0];
    if (!has_question) {
      has_question = true;
      sample.question_id = detail.sample.question_id;
      sample.excerpt = detail.sample.excerpt.value_or(detail.sample.prompt.value_or(""));
      sample.evidence = EvidenceSpans(detail.sample.evidence_json.value_or("[]"));
      sample.gold = GoldStrings(detail.sample.gold_json);
      sample.nominal_length = detail.sample.context_length;
      sample.prompt_token_count = detail.sample.prompt_token_count;
      sample.depth = DepthOf(detail.sample);
      ReadTruncation(detail.sample.truncation_json, sample);
    }
    const db::GenerationRecord& generation = detail.generation;
    answer.answer = generation.answer.value_or("");
    answer.finish_reason = generation.finish_reason;
    answer.new_token_count = generation.new_token_count;
    answer.prefill_us = generation.prefill_us;
    answer.decode_us = generation.decode_us;
    answer.is_scored = generation.log_likelihoods_json.has_value();
    if (!generation.error_code.empty())
      answer.error = absl::StrCat(generation.error_code, ": ", generation.error_message);
  }
  return sample;
}

Json Options(const std::vector<std::pair<std::string, std::string>>& values) {
  Json options = Json::array();
  for (const auto& [value, text] : values) options.push_back({{"value", value}, {"text", text}});
  return options;
}

// "1,008 prompt tokens · evidence at 37 % · question 5e0f..", "prompt cut from 3,242 to 991 tokens · .."
std::string FactsLine(const BrowserSample& sample) {
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
  return absl::StrCat("varifocal samples ", ShellWord(data.job.suite), " --tokenizer=DIR --seed=", data.job.data_seed,
                      seeds, " --tasks=", ShellWord(sample.task), " --lengths=", sample.nominal_length,
                      " --index=", sample.sample_index);
}

// "stop \u00B7 4 new tokens \u00B7 0.35 s"
std::string MetaLine(const VariantAnswer& answer) {
  if (answer.finish_reason.empty()) return "";
  std::vector<std::string> facts = {answer.IsCut() ? "cut by the limit on new tokens" : answer.finish_reason};
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
                 {"facts", FactsLine(sample)},
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
      column["error"] = "left out: its job did not ask this with the same prompt";
    } else if (!answer.error.empty()) {
      column["error"] = Shorten(answer.error, kAnswerBytesMax);
      flags.insert("failed");
    } else if (answer.IsEmpty()) {
      column["is_empty"] = true;
      flags.insert("empty");
    } else {
      column["answer"] = Shorten(answer.answer, kAnswerBytesMax);
    }
    if (answer.IsCut()) flags.insert("cut");
    if (IsRefused(answer, data.primary_metric(sample.task))) flags.insert("refused");
    column["is_best"] = IsBest(answer, data.primary_metric(sample.task));
    values["answers"].push_back(std::move(column));
  }
  if (sample.cut_token_count > 0) flags.insert("truncated");
  values["flags"] = absl::StrJoin(flags, " ");
  flags.erase("failed");  // an outcome already
  values["marks"] = flags;
  return FillTemplate("sample.html", values);
}

}  // namespace

bool VariantAnswer::IsEmpty() const {
  return !is_left_out && error.empty() && !is_scored && !finish_reason.empty() && answer.empty();
}

absl::Status CollectBrowserSamples(db::Reader& reader, int64_t sample_count_max, ReportData& data) {
  data.work.assign(data.variants.size(), {});
  ASSIGN_OR_RETURN(const AnswerMarks marks, ReadMarks(reader, data));
  data.sample_total = marks.size();
  const auto outcomes_of = [&](const SampleKey& key, const std::vector<AnswerMark>& of_variants) {
    std::vector<std::string> outcomes;
    for (size_t i = 1; i < of_variants.size(); ++i) {
      outcomes.push_back(Outcome(of_variants[0], of_variants[i], data.primary_metric(std::get<0>(key))));
    }
    return outcomes;
  };
  std::map<std::tuple<std::string, int64_t, std::vector<std::string>>, std::vector<SampleKey>> groups;
  for (const auto& [key, of_variants] : marks) {
    std::vector<SampleKey>& keys = groups[{std::get<0>(key), std::get<1>(key), outcomes_of(key, of_variants)}];
    if (std::ssize(keys) < sample_count_max) keys.push_back(key);
  }
  std::set<SampleKey> chosen;
  for (size_t turn = 0; std::ssize(chosen) < std::min(sample_count_max, data.sample_total); ++turn) {
    for (const auto& [group, keys] : groups) {
      if (turn < keys.size() && std::ssize(chosen) < sample_count_max) chosen.insert(keys[turn]);
    }
  }
  for (const SampleKey& key : chosen) {
    ASSIGN_OR_RETURN(BrowserSample sample, ReadSample(reader, data, key, marks.at(key)));
    sample.outcomes = outcomes_of(key, marks.at(key));
    data.samples.push_back(std::move(sample));
  }
  return absl::OkStatus();
}

std::string SampleBrowserHtml(const ReportData& data) {
  if (data.samples.empty()) return "<p>No sample has been answered yet.</p>\n";
  std::vector<std::pair<std::string, std::string>> tasks, lengths, outcomes, flags, candidates;
  for (const std::string& task : data.tasks) tasks.emplace_back(task, task);
  for (int64_t length : data.lengths) lengths.emplace_back(absl::StrCat(length), data.Length("", length));
  std::set<std::string> seen;
  bool has_failed = false, has_empty = false, has_refused = false, has_cut = false, has_truncated = false;
  for (const BrowserSample& sample : data.samples) {
    seen.insert(sample.outcomes.begin(), sample.outcomes.end());
    has_truncated |= sample.cut_token_count > 0;
    for (const VariantAnswer& answer : sample.answers) {
      has_failed |= !answer.error.empty();
      has_empty |= answer.IsEmpty();
      has_refused |= IsRefused(answer, data.primary_metric(sample.task));
      has_cut |= answer.IsCut();
    }
  }
  if (seen.count("gain") + seen.count("loss") > 0) outcomes.emplace_back("flipped", "flipped");
  for (const OutcomeName& outcome : kOutcomes) {
    if (seen.count(outcome.key) > 0) outcomes.emplace_back(outcome.key, outcome.label);
  }
  if (has_failed) flags.emplace_back("failed", "a failed answer");
  if (has_empty) flags.emplace_back("empty", "an empty answer");
  if (has_refused) flags.emplace_back("refused", "a refusal");
  if (has_cut) flags.emplace_back("cut", "a cut answer");
  if (has_truncated) flags.emplace_back("truncated", "a truncated prompt");
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

#include "client/report/data/browser_samples.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/report/data/evidence_spans.h"
#include "db/pairing.h"
#include "eval_tasks/filters.h"
#include "eval_tasks/job_spec.h"

namespace varifocal::report {
namespace {

using SampleKey = std::tuple<std::string, int64_t, int64_t>;  // task, context length, sample index

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
  uint32_t answer_kinds = 0;
  bool is_left_out = false;
};
using AnswerMarks = std::map<SampleKey, std::vector<AnswerMark>>;  // by variant

std::string Outcome(const AnswerMark& baseline, const AnswerMark& candidate, const db::TaskMetricRecord* metric) {
  if (candidate.is_left_out) return "left-out";
  if (!baseline.value.has_value() || !candidate.value.has_value()) return "failed";
  const bool lower_is_better = metric != nullptr && metric->LowerIsBetter();
  const double gain = (*candidate.value - *baseline.value) * (lower_is_better ? -1 : 1);
  if (gain > 0) return "gain";
  if (gain < 0) return "loss";
  if (metric == nullptr) return "equal";
  if (metric->best_value == baseline.value) return "both-right";
  return metric->is_binary || metric->worst_value == baseline.value ? "both-wrong" : "equal";
}

}  // namespace

bool IsBest(const VariantAnswer& answer, const db::TaskMetricRecord* metric) {
  return metric != nullptr && answer.value.has_value() && answer.value == metric->best_value;
}

namespace {

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
    std::map<int64_t, uint32_t> kinds;  // by generation
    RETURN_IF_ERROR(
        reader.EachMarkedAnswer(data.keys[i].job_id, data.keys[i].name, [&kinds](const db::MarkedAnswerRow& row) {
          kinds[row.generation_id] = row.answer_kinds;
          return absl::OkStatus();
        }));
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
      const auto marked = kinds.find(row.generation_id);
      of_variants[i] = {row.generation_id, row.value, marked == kinds.end() ? 0 : marked->second};
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

// Of tasks whose answers are taken out of what is written: how.
std::map<std::string, std::string> FiltersByTask(const std::string& spec_json) {
  std::map<std::string, std::string> filters;
  const absl::StatusOr<Json> spec = ParseJson(spec_json);
  if (!spec.ok() || !spec->is_object()) return filters;
  const Json suite = spec->value("suite", Json());
  if (!suite.is_object()) return filters;
  for (const Json& task : suite.value("tasks", Json::array())) {
    if (!task.is_object() || !task.contains("filters")) continue;
    std::vector<FilterSpec> chain;
    for (const Json& step : task["filters"]) {
      if (absl::StatusOr<FilterSpec> filter = FilterFromJson(step); filter.ok()) chain.push_back(*std::move(filter));
    }
    filters[GetString(task, "name").value_or("")] = FiltersText(chain);
  }
  return filters;
}

// With the texts of all its answers; those of the first variant that has it are the question's.
absl::StatusOr<BrowserSample> ReadSample(db::Reader& reader, const ReportData& data,
                                         const std::map<std::string, std::string>& filters, const SampleKey& key,
                                         const std::vector<AnswerMark>& marks) {
  BrowserSample sample;
  std::tie(sample.task, sample.context_length, sample.sample_index) = key;
  bool has_question = false;
  for (size_t i = 0; i < marks.size(); ++i) {
    VariantAnswer& answer = sample.answers.emplace_back();
    answer.variant = data.variants[i].name;
    answer.is_left_out = marks[i].is_left_out;
    answer.value = marks[i].value;
    answer.answer_kinds = marks[i].answer_kinds;
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
    if (const auto found = filters.find(sample.task); found != filters.end()) {
      sample.filters = found->second;
      answer.written = std::string(absl::StripAsciiWhitespace(generation.answer_raw.value_or("")));
      if (answer.written == answer.answer) answer.written.clear();
    }
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

}  // namespace

absl::Status CollectBrowserSamples(db::Reader& reader, int64_t sample_count_max, ReportData& data) {
  data.work.assign(data.variants.size(), {});
  ASSIGN_OR_RETURN(const AnswerMarks marks, ReadMarks(reader, data));
  data.sample_total = marks.size();
  const std::map<std::string, std::string> filters = FiltersByTask(data.job.spec_json);
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
    ASSIGN_OR_RETURN(BrowserSample sample, ReadSample(reader, data, filters, key, marks.at(key)));
    sample.outcomes = outcomes_of(key, marks.at(key));
    data.samples.push_back(std::move(sample));
  }
  return absl::OkStatus();
}

}  // namespace varifocal::report

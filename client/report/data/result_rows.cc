#include "client/report/data/result_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/group_table.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "client/report/data/thinking_table.h"
#include "db/stats/labels.h"
#include "eval_tasks/metric.h"

namespace varifocal::report {
namespace {

Json EmptyRow(const char* kind) {
  Json row = Json::object();
  for (const std::string& key : ResultKeys()) row[key] = nullptr;
  row["kind"] = kind;
  return row;
}

void AddRelativeGain(const stats::RelativeGain& relative, Json& row) {
  if (!relative.has_value()) {
    row["relative_problem"] = stats::RelativeGainProblemName(relative.problem);
    return;
  }
  row["relative_gain"] = relative.gain;
  row["relative_low"] = relative.low;
  row["relative_high"] = relative.high;
}

void AddOutcomeWithout(const std::string& kind, const stats::AnsweredInference& part, Json& row) {
  row[absl::StrCat("outcome_without_", kind)] = stats::OutcomeName(part.outcome);
  row[absl::StrCat("difference_without_", kind)] = part.difference;
}

template <typename Row>
void AddSides(const Row& row, const ResultContext& context, Json& json) {
  json["baseline"] = row.baseline;
  json["candidate"] = row.candidate;
  json["baseline_job"] = context.baseline_job;
  json["candidate_job"] = context.candidate_job;
  std::vector<std::string> imported;
  if (context.baseline_is_imported) imported.push_back("baseline");
  if (context.candidate_is_imported) imported.push_back("candidate");
  json["imported"] = absl::StrJoin(imported, " ");
  json["baseline_epochs"] = context.baseline_epochs.count;
  json["candidate_epochs"] = context.candidate_epochs.count;
  if (context.baseline_epochs.count > 1 || context.candidate_epochs.count > 1)
    json["epochs_statistic"] = context.baseline_epochs.statistic.Name();
  for (const auto& [side, variant] : {std::pair("baseline", &row.baseline), std::pair("candidate", &row.candidate)}) {
    const Json setting = context.groups->Setting(*variant);
    if (!setting.is_null()) json[absl::StrCat(side, "_focus_attention")] = setting.dump();
  }
  json["labels"] = absl::StrJoin(RowLabels(row, context), " ");
  for (const AnswersBehind& behind : KindsBehind(row, SidesOf(row, *context.answers, *context.tested))) {
    const stats::AnsweredInference& part = row.without.at(behind.marks);
    if (behind.name == db::kSeveralKinds && part.can_infer) AddOutcomeWithout(behind.name, part, json);
  }
  json["unfinished"] = row.is_unfinished;
}

void AddAnswerCounts(const std::string& task, int64_t length, const std::string& baseline, const std::string& candidate,
                     const ResultContext& context, Json& json) {
  const auto add = [&](const char* side, const db::AnswerCounts& counts) {
    json[absl::StrCat(side, "_failed_count")] = counts.failed_count;
    for (const db::AnswerKind& kind : db::kAnswerKinds)
      json[absl::StrCat(side, "_", kind.name, "_count")] = counts.*kind.count;
  };
  add("baseline", context.answers->Of(baseline, task, length));
  add("candidate", context.answers->Of(candidate, task, length));
}

void AddThinking(const std::string& task, int64_t length, const std::string& baseline, const std::string& candidate,
                 const ResultContext& context, Json& json) {
  for (const auto& [side, variant] : {std::pair("baseline", &baseline), std::pair("candidate", &candidate)}) {
    const std::optional<db::ThinkingCostRow> cost = context.thinking->Of(*variant, task, length);
    if (!cost) continue;
    json[absl::StrCat(side, "_thinking_tokens")] = cost->thinking_tokens;
    json[absl::StrCat(side, "_answer_tokens")] = cost->answer_tokens;
    json[absl::StrCat(side, "_tokens_per_right")] = OrNull(cost->tokens_per_right);
  }
}

void AddGroups(const std::string& task, int64_t length, const std::string& baseline, const std::string& candidate,
               const ResultContext& context, Json& json) {
  for (const auto& [side, variant] : {std::pair("baseline", &baseline), std::pair("candidate", &candidate)}) {
    const std::optional<GroupShares> shares = context.groups->Of(*variant, task, length);
    if (!shares) continue;
    json[absl::StrCat(side, "_pairs_visible")] = shares->pairs_visible;
    json[absl::StrCat(side, "_largest_group")] = OrNull(shares->largest_group);
  }
}

// `task` "" for all of them; `length` the longer one of a contrast.
template <typename Row>
std::vector<std::string> LabelsOfRow(const Row& row, const std::string& task, int64_t length, bool is_incomplete,
                                     bool is_secondary, const ResultContext& context) {
  stats::LabelledRow labelled;
  labelled.inference = &row;
  labelled.is_secondary = is_secondary;
  labelled.is_incomplete = is_incomplete;
  labelled.is_imported = context.baseline_is_imported || context.candidate_is_imported;
  labelled.sides = {context.answers->Of(row.baseline, task, length), context.answers->Of(row.candidate, task, length)};
  for (const AnswersBehind& behind : KindsBehind(row, SidesOf(row, *context.answers, *context.tested)))
    labelled.rests_on.push_back(behind.name);
  return stats::LabelsOf(labelled);
}

std::string ClusterNote(const stats::Inference& row) {
  if (!row.can_infer) {
    return absl::StrCat(!row.has_single_cluster  ? "all differences are equal"
                        : row.cluster_count == 1 ? "1 context"
                                                 : "a task with 1 context",
                        ": ", stats::kNothingInferred);
  }
  if (row.cluster_count >= stats::kSignFlipClusterCountMin) return "";
  return absl::StrCat(row.cluster_count, " contexts: the sign-flip check cannot reach p below ",
                      Json(row.p_sign_flip_min).dump());
}

// {"1": 0.04, "2": -0.01}: a data seed's difference; null in a job of one seed.
void AddSeeds(const std::vector<stats::SeedDifference>& seeds, Json& row) {
  for (const stats::SeedDifference& of_seed : seeds)
    row["seed_differences"][absl::StrCat(of_seed.seed)] = of_seed.difference;
}

}  // namespace

std::string SeedSpread(const std::vector<stats::SeedDifference>& seeds, double scale, int digits) {
  if (seeds.size() < 2) return "";
  double mean = 0, squares = 0, low = seeds[0].difference, high = low;
  for (const stats::SeedDifference& of_seed : seeds) {
    mean += of_seed.difference / std::ssize(seeds);
    low = std::min(low, of_seed.difference);
    high = std::max(high, of_seed.difference);
  }
  for (const stats::SeedDifference& of_seed : seeds)
    squares += (of_seed.difference - mean) * (of_seed.difference - mean);
  return absl::StrCat(Signed(low * scale, digits), " to ", Signed(high * scale, digits), ", standard deviation ",
                      Unsigned(std::sqrt(squares / (std::ssize(seeds) - 1)) * scale, digits));
}

void AddInference(const stats::Inference& inferred, Json& row) {
  row["difference"] = inferred.difference;
  row["cluster_count"] = inferred.cluster_count;
  row["test_count"] = inferred.test_count;
  row["adjustment"] = inferred.is_max_t ? "max_t" : "holm";
  row["fragile"] = inferred.is_fragile;
  row["outcome"] = stats::OutcomeName(inferred.outcome);
  if (inferred.answered && inferred.answered->can_infer && !inferred.is_unfinished)
    row["outcome_without_failures"] = stats::OutcomeName(inferred.answered->outcome);
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    const auto part = inferred.without.find(kind.mark);
    if (part == inferred.without.end() || !part->second.can_infer || inferred.is_unfinished) continue;
    AddOutcomeWithout(kind.name, part->second, row);
  }
  row["within_margin"] = inferred.IsWithinMargin();
  row["margin"] = OrNull(inferred.margin);
  if (!inferred.can_infer) return;
  row["low"] = inferred.low;
  row["high"] = inferred.high;
  row["degrees"] = inferred.degrees;
  row["p_value"] = inferred.p_value;
  row["p_adjusted"] = inferred.p_adjusted;
  row["adjusted_low"] = inferred.adjusted_low;
  row["adjusted_high"] = inferred.adjusted_high;
  row["p_sign_flip"] = inferred.sign_flip.p_value;
  row["p_sign_flip_min"] = inferred.p_sign_flip_min;
  row["sign_flip_test"] = inferred.sign_flip.test;
  row["sign_flip_draws"] = inferred.sign_flip.draws;
  row["sign_flip_seed"] = inferred.sign_flip.seed;
  if (inferred.margin.has_value()) row["p_equivalence_adjusted"] = inferred.p_equivalence_adjusted;
  row["detectable_difference"] = OrNull(inferred.detectable_difference);
}

const std::vector<std::string>& ResultKeys() {
  static const std::vector<std::string>* const keys = [] {
    // Kinds are "cell", "suite_mean", "contrast", "slope" and "choice".
    auto* all = new std::vector<std::string>(absl::StrSplit(
        "kind task metric is_primary_metric context_length short_length baseline candidate baseline_job "
        "candidate_job task_count planned_task_count planned_count sample_count failed_count cluster_count "
        "baseline_failed_count candidate_failed_count baseline_empty_count candidate_empty_count "
        "baseline_refused_count candidate_refused_count baseline_cut_count candidate_cut_count "
        "baseline_truncated_count candidate_truncated_count baseline_mean baseline_low baseline_high candidate_mean "
        "candidate_low candidate_high short_difference choice_difference difference adjusted_low adjusted_high low "
        "high relative_gain relative_low relative_high relative_problem degrees p_value p_adjusted test_count "
        "adjustment p_sign_flip p_sign_flip_min sign_flip_test sign_flip_draws sign_flip_seed fragile outcome "
        "outcome_without_failures margin p_equivalence_adjusted detectable_difference gain_count loss_count "
        "unfinished labels baseline_left_out_count candidate_left_out_count imported baseline_focus_attention "
        "candidate_focus_attention baseline_pairs_visible candidate_pairs_visible baseline_largest_group "
        "candidate_largest_group prompt_tokens_min prompt_tokens_max nominal_lengths seed_differences within_margin",
        ' '));
    for (const char* of : {"outcome", "difference"}) {
      for (const db::AnswerKind& kind : db::kAnswerKinds) all->push_back(absl::StrCat(of, "_without_", kind.name));
    }
    for (const char* of : {"outcome", "difference"}) {
      all->push_back(absl::StrCat(of, "_without_", db::kSeveralKinds));
    }
    for (const char* later : {"_unfinished_count", "_thinking_count", "_thinking_tokens", "_answer_tokens",
                              "_tokens_per_right", "_unextracted_count"}) {
      for (const char* side : {"baseline", "candidate"}) all->push_back(absl::StrCat(side, later));
    }
    all->insert(all->end(), {"baseline_epochs", "candidate_epochs", "epochs_statistic"});
    for (const char* side : {"baseline_", "candidate_"}) AddCountKeys(side, *all);  // kinds without a place above
    return all;
  }();
  return *keys;
}

std::vector<std::string> RowLabels(const stats::Comparison& row, const ResultContext& context) {
  return LabelsOfRow(row, row.task, row.context_length, row.is_incomplete, !row.is_primary_metric, context);
}

std::vector<std::string> RowLabels(const stats::SuiteComparison& row, const ResultContext& context) {
  return LabelsOfRow(row, "", row.context_length, row.is_incomplete, /*is_secondary=*/false, context);
}

std::vector<std::string> RowLabels(const stats::LengthContrast& row, const ResultContext& context) {
  return LabelsOfRow(row, row.task, row.long_length, row.is_unfinished, /*is_secondary=*/false, context);
}

namespace {

// What every kind of row has: the inference, the two sides and the length.
template <typename Row>
Json CommonJson(const char* kind, const Row& row, const std::string& task, int64_t length,
                const ResultContext& context) {
  Json json = EmptyRow(kind);
  AddInference(row, json);
  AddSides(row, context, json);
  AddLength(*context.tested, task, length, json);
  return json;
}

// What a cell and a mean over tasks have in common.
template <typename Row>
Json MeansJson(const char* kind, const Row& row, const std::string& task, const ResultContext& context) {
  Json json = CommonJson(kind, row, task, row.context_length, context);
  AddSeeds(row.by_seed, json);
  AddRelativeGain(row.relative, json);
  AddAnswerCounts(task, row.context_length, row.baseline, row.candidate, context, json);
  AddGroups(task, row.context_length, row.baseline, row.candidate, context, json);
  AddThinking(task, row.context_length, row.baseline, row.candidate, context, json);
  json["sample_count"] = row.sample_count;
  json["failed_count"] = row.failed_count;
  json["baseline_mean"] = row.baseline_mean;
  json["candidate_mean"] = row.candidate_mean;
  return json;
}

}  // namespace

Json ResultJson(const stats::Comparison& row, const ResultContext& context) {
  Json json = MeansJson("cell", row, row.task, context);
  json["task"] = row.task;
  json["metric"] = row.metric;
  json["is_primary_metric"] = row.is_primary_metric;
  json["planned_count"] = row.planned_count;
  if (row.baseline_interval.has_value()) {
    json["baseline_low"] = row.baseline_interval->low;
    json["baseline_high"] = row.baseline_interval->high;
  }
  if (row.candidate_interval.has_value()) {
    json["candidate_low"] = row.candidate_interval->low;
    json["candidate_high"] = row.candidate_interval->high;
  }
  json["gain_count"] = row.gain_count;
  json["loss_count"] = row.loss_count;
  json["baseline_left_out_count"] = row.baseline_left_out_count;
  json["candidate_left_out_count"] = row.candidate_left_out_count;
  return json;
}

Json ResultJson(const stats::SuiteComparison& row, const ResultContext& context) {
  Json json = MeansJson("suite_mean", row, "", context);
  json["task_count"] = row.finished_task_count;
  json["planned_task_count"] = row.planned_task_count;
  return json;
}

Json ResultJson(const stats::LengthContrast& row, const ResultContext& context) {
  const bool is_slope = row.kind == stats::LengthContrast::Kind::kSlope;
  Json json = CommonJson(is_slope ? "slope" : "contrast", row, row.task, row.long_length, context);
  if (!row.task.empty()) {
    json["task"] = row.task;
    json["metric"] = row.metric;
    json["is_primary_metric"] = true;
  }
  json["short_length"] = context.tested->At(row.task, row.short_length).Tokens();
  json["sample_count"] = row.question_count;
  json["short_difference"] = row.short_difference;
  return json;
}

Json ResultJson(const stats::Choice& choice, const ResultContext& context) {
  Json json = ResultJson(choice.confirmation, context);
  json["kind"] = "choice";
  json["choice_difference"] = choice.choice_difference;
  if (choice.is_baseline) {  // nothing was tested
    json["candidate_job"] = json["baseline_job"];
    for (const char* key : {"difference", "baseline_mean", "candidate_mean", "task_count", "planned_task_count",
                            "sample_count", "failed_count", "test_count", "cluster_count"})
      json[key] = nullptr;
  }
  // Counted over all contexts, of which this row has half.
  for (const char* side : {"baseline", "candidate"}) {
    json[absl::StrCat(side, "_failed_count")] = nullptr;
    for (const db::AnswerKind& kind : db::kAnswerKinds) json[absl::StrCat(side, "_", kind.name, "_count")] = nullptr;
    for (const char* of_all :
         {"pairs_visible", "largest_group", "thinking_tokens", "answer_tokens", "tokens_per_right"})
      json[absl::StrCat(side, "_", of_all)] = nullptr;
  }
  return json;
}

std::string DesignNote(const stats::Comparison& row) {
  if (row.is_unfinished) {
    return absl::StrCat(CountLabel(row.sample_count), " of ", CountLabel(row.planned_count), " questions so far");
  }
  return ClusterNote(row);
}

std::string DesignNote(const stats::SuiteComparison& row) {
  if (row.is_unfinished) return absl::StrCat(row.finished_task_count, " of ", row.planned_task_count, " tasks so far");
  return ClusterNote(row);
}

bool HasGoldRows(const stats::ComparisonReport& report) {
  return std::any_of(report.comparisons.begin(), report.comparisons.end(),
                     [](const stats::Comparison& row) { return IsGoldMetric(row.metric); });
}

std::string OutcomeLabel(const stats::Inference& row) {
  if (row.is_unfinished || !row.can_infer) return "no verdict";
  if (row.failures_decide) return kFailuresDecide;
  return absl::StrCat(stats::OutcomeName(row.outcome), row.IsWithinMargin() ? ", by less than the margin" : "");
}

std::string OutcomeCounts(const std::vector<std::string>& labels) {
  std::vector<std::string> counts;
  for (const char* outcome : {"better", "worse", "equivalent", "undecided", kFailuresDecide, "no verdict"}) {
    const auto is_outcome = [&](const std::string& label) {
      return label == outcome || absl::StartsWith(label, absl::StrCat(outcome, ","));
    };
    if (const auto count = std::count_if(labels.begin(), labels.end(), is_outcome); count > 0)
      counts.push_back(absl::StrCat(count, " ", outcome));
  }
  return absl::StrJoin(counts, ", ");
}

}  // namespace varifocal::report

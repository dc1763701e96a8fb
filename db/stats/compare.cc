#include "db/stats/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/stats/adjust_together.h"
#include "db/stats/design_effects.h"
#include "db/stats/grouped_pairs.h"

namespace varifocal::stats {
namespace {

using db::PairRow;

// Better is +1 when the best value is the high one (or unknown), else -1.
double Direction(const MetricInfo& info) {
  return info.worst_value.has_value() && info.best_value.has_value() && *info.best_value < *info.worst_value ? -1 : 1;
}

bool HasFailure(const PairRow& pair) { return pair.baseline_error.has_value() || pair.candidate_error.has_value(); }

// Those that both sides answered.
std::vector<PairRow> Answered(std::vector<PairRow> pairs) {
  std::erase_if(pairs, HasFailure);
  return pairs;
}

// Whether failures are among the differences: not where the metric has no worst value.
bool DoFailuresCount(const std::vector<PairRow>& pairs) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [](const PairRow& pair) { return HasFailure(pair) && pair.difference.has_value(); });
}

// Those that both sides answered, neither with an answer of these kinds.
std::vector<PairRow> AnsweredWithout(const std::vector<PairRow>& pairs, uint32_t kinds) {
  std::vector<PairRow> answered = Answered(pairs);
  std::erase_if(answered, [&](const PairRow& pair) { return (pair.answer_kinds & kinds) != 0; });
  return answered;
}

// The next smaller set of kinds that is a part of `kinds`; 0 is the last.
uint32_t NextPart(uint32_t part, uint32_t kinds) { return (part - 1) & kinds; }

// The parts of a row's pairs that have an outcome of their own, for one task after the other.
class Parts {
 public:
  // `with` gives the part's differences of a task.
  template <typename With>
  void Add(const std::vector<PairRow>& pairs, double difference_max, double design_effect, With with) {
    const auto of = [&](const std::vector<PairRow>& part) {
      return TaskDifferences{with(part), difference_max, design_effect};
    };
    uint32_t kinds = 0;  // of answers (db/answer_kinds.h) among the differences
    for (const PairRow& pair : pairs) kinds |= pair.difference.has_value() ? pair.answer_kinds : 0;
    has_failures_ |= DoFailuresCount(pairs);
    kinds_ |= kinds;
    answered_.push_back(of(Answered(pairs)));
    Task& task = without_.emplace_back(Task{kinds, {}});
    for (uint32_t part = kinds; part != 0; part = NextPart(part, kinds))
      task.differences.emplace(part, of(AnsweredWithout(pairs, part)));
  }
  void Infer(const InferenceOptions& options, Inference& row) const {
    if (has_failures_) row.answered = InferAnswered(answered_, options);
    for (uint32_t part = kinds_; part != 0; part = NextPart(part, kinds_)) {
      std::vector<TaskDifferences> tasks;
      for (size_t i = 0; i < answered_.size(); ++i) {
        const uint32_t own = part & without_[i].kinds;
        tasks.push_back(own == 0 ? answered_[i] : without_[i].differences.at(own));
      }
      row.without[part] = InferAnswered(tasks, options);
    }
  }

 private:
  struct Task {
    uint32_t kinds = 0;
    std::map<uint32_t, TaskDifferences> differences;  // by a set of these kinds
  };
  bool has_failures_ = false;
  uint32_t kinds_ = 0;
  std::vector<TaskDifferences> answered_;
  std::vector<Task> without_;
};

using Member = std::optional<double> PairRow::*;
using Lengths = std::map<int64_t, std::vector<PairRow>>;

// `value` of the pairs that have `member`.
template <typename Value>
std::vector<ClusteredValue> ValuesOf(const std::vector<PairRow>& pairs, Member member, const Value& value) {
  std::vector<ClusteredValue> values;
  for (const PairRow& pair : pairs) {
    if ((pair.*member).has_value()) values.push_back({pair.cluster, value(pair)});
  }
  return values;
}

std::vector<Cluster> ClustersOf(const std::vector<PairRow>& pairs, Member member = &PairRow::difference) {
  return GroupByCluster(ValuesOf(pairs, member, [&](const PairRow& pair) { return *(pair.*member); }));
}

InferenceOptions OptionsFor(const CompareOptions& options, std::optional<double> margin, double direction) {
  return {options.confidence, margin, direction, options.with_sign_flip, options.sign_flip};
}

// Differences as a share of the metric's span, better being positive, so that tasks can be averaged.
std::vector<ClusteredValue> ScaledDifferences(const std::vector<PairRow>& pairs, const MetricInfo& info) {
  const double scale = Direction(info) / std::abs(*info.best_value - *info.worst_value);
  return ValuesOf(pairs, &PairRow::difference, [&](const PairRow& pair) { return *pair.difference * scale; });
}

// The baseline's values likewise, of the same pairs: 0 is the worst value.
std::vector<Cluster> ScaledBaseline(const std::vector<PairRow>& pairs, const MetricInfo& info) {
  return GroupByCluster(ValuesOf(pairs, &PairRow::difference, [&](const PairRow& pair) {
    return (*pair.baseline_value - *info.worst_value) / (*info.best_value - *info.worst_value);
  }));
}

// Whether a ratio of two means has a meaning: values begin at zero, at whichever end is the better one.
bool HasZero(const MetricInfo& info) {
  return info.worst_value.has_value() && info.best_value.has_value() && *info.worst_value != *info.best_value &&
         std::min(*info.worst_value, *info.best_value) == 0;
}

// The weight of each length in a contrast of the lengths; they add up to zero.
std::map<int64_t, double> WeightsOf(LengthContrast::Kind kind, const Lengths& lengths,
                                    const std::map<int64_t, double>& places) {
  std::map<int64_t, double> weights;
  if (kind == LengthContrast::Kind::kChange) return {{lengths.begin()->first, -1}, {lengths.rbegin()->first, 1}};
  // Least squares on x = log2(length): weight = (x - mean) / sum (x - mean)^2
  double mean = 0, squares = 0;
  for (const auto& [length, place] : places) mean += std::log2(place) / lengths.size();
  for (const auto& [length, place] : places) squares += std::pow(std::log2(place) - mean, 2);
  for (const auto& [length, place] : places) weights[length] = (std::log2(place) - mean) / squares;
  return weights;
}

// value - first; 0 where they differ by no more than rounding.
double Beyond(double first, double value) {
  const double rest = value - first;
  return std::abs(rest) <= 1e-12 * std::max(std::abs(first), std::abs(value)) ? 0 : rest;
}

// The weighted sum of a question's differences, of those with a difference at every length; in the metric's own unit.
// The weights add up to zero, so that the first difference is subtracted: equal ones give exactly 0, not what is left of
// rounding, from which a spread and a verdict would follow.
// The values are the differences at the shortest and at the longest length; a failure at any length is one here.
std::vector<PairRow> ContrastPairs(const Lengths& lengths, const std::map<int64_t, double>& weights) {
  std::map<std::string, std::map<int64_t, double>> differences;  // by question and length
  std::set<std::string> failed;                                  // at any of these lengths
  std::map<std::string, uint32_t> kinds;                         // of answers, likewise
  for (const auto& [length, weight] : weights) {
    for (const PairRow& pair : lengths.at(length)) {
      if (pair.difference.has_value()) differences[pair.question_id].emplace(length, *pair.difference);
      if (HasFailure(pair)) failed.insert(pair.question_id);
      kinds[pair.question_id] |= pair.answer_kinds;
    }
  }
  std::vector<PairRow> result;
  for (const PairRow& pair : lengths.rbegin()->second) {
    const auto found = differences.find(pair.question_id);
    if (found == differences.end() || found->second.size() < weights.size()) continue;
    PairRow contrast = pair;
    contrast.baseline_value = found->second.begin()->second;
    contrast.candidate_value = found->second.rbegin()->second;
    contrast.difference = 0;
    if (failed.contains(pair.question_id) && !HasFailure(contrast)) contrast.candidate_error = "at another length";
    contrast.answer_kinds = kinds.at(pair.question_id);
    const double first = found->second.begin()->second;
    for (const auto& [length, difference] : found->second)
      *contrast.difference += weights.at(length) * Beyond(first, difference);
    result.push_back(std::move(contrast));
  }
  return result;
}

double MeanOf(const std::vector<PairRow>& pairs, Member member) {
  return MeanOfClusters(ClustersOf(pairs, member)).mean;
}

DesignEffects EffectsOf(const GroupedPairs& grouped, Member member) {
  DesignEffects effects;
  for (const auto& [key, lengths] : grouped.pairs) {
    const MetricInfo& info = grouped.metrics.at({std::get<0>(key), std::get<2>(key)});
    const std::optional<double> span =
        CanBeAveraged(info) ? std::optional(*info.best_value - *info.worst_value) : std::nullopt;
    for (const auto& [length, pairs] : lengths) effects.Add(key, length, ClustersOf(pairs, member), span);
  }
  return effects;
}

// Every planned pair exists, answered or failed.
bool IsFinished(const GroupedPairs& grouped, const std::string& task, int64_t length,
                const std::vector<PairRow>& pairs) {
  return FinishedCount(pairs) >= grouped.planned.at({task, length});
}

// Fills in the inference of a row whose is_unfinished is already set, and those of its parts.
void InferRow(const std::vector<TaskDifferences>& tasks, const Parts& parts, const InferenceOptions& options,
              Inference& row) {
  const bool is_unfinished = row.is_unfinished;
  row = InferDifference(tasks, options);
  row.is_unfinished = is_unfinished;
  parts.Infer(options, row);
}

// Of the task's mean. The same contexts have the same names at every length.
void AddContributions(const std::string& task, const std::vector<ClusteredValue>& values,
                      ClusterContributions& contributions) {
  for (const ClusteredValue& value : values) {
    contributions[absl::StrCat(task, "\n", value.cluster)] += value.value / values.size();
  }
}

// Adds the mean difference of each seed's questions to `sums`, with the number of tasks that have it.
void AddSeeds(const std::vector<PairRow>& pairs, double scale, std::map<int64_t, std::pair<double, int64_t>>& sums) {
  std::map<int64_t, std::pair<double, int64_t>> of_task;
  for (const PairRow& pair : pairs) {
    if (!pair.difference.has_value() || !pair.seed.has_value()) continue;
    of_task[*pair.seed].first += *pair.difference * scale;
    ++of_task[*pair.seed].second;
  }
  for (const auto& [seed, sum] : of_task) {
    sums[seed].first += sum.first / sum.second;
    ++sums[seed].second;
  }
}

// Seeds that all of these tasks have.
std::vector<SeedDifference> MeansOfSeeds(const std::map<int64_t, std::pair<double, int64_t>>& sums) {
  int64_t task_count = 0;
  for (const auto& [seed, sum] : sums) task_count = std::max(task_count, sum.second);
  std::vector<SeedDifference> means;
  for (const auto& [seed, sum] : sums) {
    if (sum.second == task_count) means.push_back({seed, sum.first / task_count});
  }
  return means;
}

SuiteComparison CompareSuite(const GroupedPairs& grouped, const DesignEffects& design_effects, int64_t length,
                             const std::string& baseline, const std::string& candidate, const CompareOptions& options) {
  SuiteComparison row;
  row.context_length = length;
  row.baseline = baseline;
  row.candidate = candidate;
  std::vector<TaskDifferences> tasks;
  std::vector<TaskRatio> ratios;
  Parts parts;
  std::map<int64_t, std::pair<double, int64_t>> of_seeds;
  for (const auto& [key, info] : grouped.metrics) {
    if (CanBeAveraged(info)) row.planned_task_count += grouped.planned.contains({key.first, length});
  }
  for (const auto& [key, lengths] : grouped.pairs) {
    const auto& [task, metric_index, metric] = key;
    const MetricInfo& info = grouped.metrics.at({task, metric});
    auto found = lengths.find(length);
    if (!CanBeAveraged(info) || found == lengths.end()) continue;
    std::vector<ClusteredValue> values = ScaledDifferences(found->second, info);
    if (values.empty()) continue;
    AddSeeds(found->second, Direction(info) / std::abs(*info.best_value - *info.worst_value), of_seeds);
    tasks.push_back({GroupByCluster(values), 1, design_effects.Of(key, length)});
    ratios.push_back({tasks.back().clusters, ScaledBaseline(found->second, info)});
    parts.Add(found->second, 1, tasks.back().design_effect,
              [&](const auto& part) { return GroupByCluster(ScaledDifferences(part, info)); });
    if (options.with_max_t) {
      AddContributions(task, values, row.contributions);
      AddContributions(task, ScaledDifferences(Answered(found->second), info), row.answered_contributions);
    }
    const double worst = *info.worst_value;
    const double span = *info.best_value - worst;
    std::vector<PairRow> whole = found->second;
    row.failed_count += std::count_if(whole.begin(), whole.end(), HasFailure);
    std::erase_if(whole, [](const PairRow& pair) { return !pair.difference.has_value(); });
    row.baseline_mean += (MeanOf(whole, &PairRow::baseline_value) - worst) / span;
    row.candidate_mean += (MeanOf(whole, &PairRow::candidate_value) - worst) / span;
    row.finished_task_count += IsFinished(grouped, task, length, found->second);
  }
  row.task_count = tasks.size();
  row.is_unfinished = row.finished_task_count < row.planned_task_count;
  row.is_incomplete = row.is_unfinished || row.failed_count > 0;
  if (tasks.empty()) return row;
  row.baseline_mean /= tasks.size();
  row.candidate_mean /= tasks.size();
  InferRow(tasks, parts, OptionsFor(options, options.margin, 1), row);
  row.relative = InferRelativeGain(ratios, row, options.confidence);
  row.sample_count = row.value_count;
  row.by_seed = MeansOfSeeds(of_seeds);
  return row;
}

std::vector<LengthContrast> ContrastLengths(LengthContrast::Kind kind, const GroupedPairs& grouped,
                                            const DesignEffects& design_effects, const std::string& baseline,
                                            const std::string& candidate, const CompareOptions& options) {
  std::vector<LengthContrast> contrasts;
  std::vector<TaskDifferences> all_tasks;
  Parts all_parts;
  std::map<int64_t, double> all_weights;
  LengthContrast all;
  for (const auto& [key, lengths] : grouped.pairs) {
    const auto& [task, metric_index, metric] = key;
    const MetricInfo& info = grouped.metrics.at({task, metric});
    if (!info.is_primary || lengths.size() < (kind == LengthContrast::Kind::kSlope ? 3 : 2)) continue;
    std::map<int64_t, double> places;  // the length itself, or that of the longest prompt
    for (const auto& [length, pairs] : lengths) places[length] = grouped.tested.At(task, length).Tokens();
    const std::map<int64_t, double> weights = WeightsOf(kind, lengths, places);
    const std::vector<PairRow> pairs = ContrastPairs(lengths, weights);
    if (pairs.empty()) continue;
    LengthContrast row;
    row.kind = kind;
    row.task = task;
    row.metric = metric;
    row.short_length = lengths.begin()->first;
    row.long_length = lengths.rbegin()->first;
    row.baseline = baseline;
    row.candidate = candidate;
    row.short_difference = MeanOf(pairs, &PairRow::baseline_value);
    row.long_difference = MeanOf(pairs, &PairRow::candidate_value);
    double weight_sum = 0;
    for (const auto& [length, weight] : weights) {
      row.is_unfinished |= !IsFinished(grouped, task, length, lengths.at(length));
      weight_sum += std::abs(weight);
    }
    // A slope is equivalent to zero when the change over all lengths that it implies is within the margin.
    const double unit = kind == LengthContrast::Kind::kSlope
                            ? std::log2(places.rbegin()->second) - std::log2(places.begin()->second)
                            : 1;
    const double width = RangeOf(info.worst_value, info.best_value).Width();
    const double design_effect = design_effects.Of(key, row.long_length);
    const bool has_span = CanBeAveraged(info);
    const InferenceOptions own =
        OptionsFor(options, has_span ? std::optional(options.margin * width / unit) : std::nullopt, Direction(info));
    Parts parts;
    parts.Add(pairs, weight_sum * width, design_effect, [](const auto& part) { return ClustersOf(part); });
    InferRow({{ClustersOf(pairs), weight_sum * width, design_effect}}, parts, own, row);
    row.question_count = row.value_count;
    contrasts.push_back(row);

    // Into the mean over tasks, where every task has the same lengths.
    if (!has_span) continue;
    if (all_tasks.empty()) {
      all = row;
      all.short_difference = all.long_difference = 0;
      all.margin = options.margin / unit;
      all_weights = weights;
    }
    if (weights != all_weights) continue;
    const double scale = Direction(info) / width;
    all.short_difference += row.short_difference * scale;
    all.long_difference += row.long_difference * scale;
    all.is_unfinished |= row.is_unfinished;
    all_tasks.push_back({GroupByCluster(ScaledDifferences(pairs, info)), weight_sum, design_effect});
    all_parts.Add(pairs, weight_sum, design_effect,
                  [&](const auto& part) { return GroupByCluster(ScaledDifferences(part, info)); });
  }
  if (all_tasks.size() < 2) return contrasts;
  InferRow(all_tasks, all_parts, OptionsFor(options, all.margin, 1), all);
  all.task = all.metric = "";
  all.short_difference /= all_tasks.size();
  all.long_difference /= all_tasks.size();
  all.question_count = all.value_count;
  contrasts.push_back(all);
  return contrasts;
}

// Fills a report in which only the pairing is set. `where` names the source of the pairs in errors.
absl::StatusOr<ComparisonReport> CompareGrouped(const GroupedPairs& grouped, const std::string& where,
                                                const std::string& baseline, const std::string& candidate,
                                                const CompareOptions& options, ComparisonReport report) {
  const DesignEffects difference_effects = EffectsOf(grouped, &PairRow::difference);
  const DesignEffects baseline_effects = EffectsOf(grouped, &PairRow::baseline_value);
  const DesignEffects candidate_effects = EffectsOf(grouped, &PairRow::candidate_value);
  std::map<int64_t, bool> lengths_seen;
  int64_t group_count = 0;
  for (const auto& [key, lengths] : grouped.pairs) {
    for (const auto& [length, pairs] : lengths) {
      const auto& [task, metric_index, metric] = key;
      MetricInfo info = grouped.metrics.at({task, metric});
      info.planned_count = grouped.planned.at({task, length});
      info.design_effect = difference_effects.Of(key, length);
      info.baseline_design_effect = baseline_effects.Of(key, length);
      info.candidate_design_effect = candidate_effects.Of(key, length);
      absl::StatusOr<Comparison> row = ComparePairs(pairs, info, options);
      // All failed and the metric has no worst value: nothing to compare, and incomplete.
      if (absl::IsFailedPrecondition(row.status())) continue;
      RETURN_IF_ERROR(row.status());
      if (const auto cell = grouped.cells.find({task, length}); cell != grouped.cells.end()) {
        row->baseline_left_out_count = cell->second.baseline_left_out_count;
        row->candidate_left_out_count = cell->second.candidate_left_out_count;
      }
      report.is_incomplete |= row->is_incomplete;
      report.comparisons.push_back(*std::move(row));
      lengths_seen[length] = true;
      group_count += metric_index == 0;
    }
  }
  if (report.comparisons.empty()) {
    return FailedPrecondition(where, " has no sample that both ", baseline, " and ", candidate, " answered");
  }
  report.is_incomplete |= group_count < std::ssize(grouped.planned);
  for (const auto& [length, seen] : lengths_seen) {
    SuiteComparison row = CompareSuite(grouped, difference_effects, length, baseline, candidate, options);
    if (row.task_count > 0) report.suite.push_back(std::move(row));
  }
  for (const auto kind : {LengthContrast::Kind::kChange, LengthContrast::Kind::kSlope}) {
    for (LengthContrast& row : ContrastLengths(kind, grouped, difference_effects, baseline, candidate, options))
      report.contrasts.push_back(std::move(row));
  }
  report.declared = grouped.Declared();
  AdjustTogether({&report}, {}, options.confidence);
  return report;
}

}  // namespace

absl::StatusOr<Comparison> ComparePairs(const std::vector<PairRow>& pairs, const MetricInfo& info,
                                        const CompareOptions& options) {
  std::vector<ClusteredValue> baseline, candidate, differences;
  Comparison row;
  for (const PairRow& pair : pairs) {
    row.failed_count += HasFailure(pair);
    if (!pair.difference.has_value()) continue;
    baseline.push_back({pair.cluster, *pair.baseline_value});
    candidate.push_back({pair.cluster, *pair.candidate_value});
    differences.push_back({pair.cluster, *pair.difference});
    const double gain = *pair.difference * Direction(info);
    row.gain_count += gain > 0;
    row.loss_count += gain < 0;
  }
  if (differences.empty()) return FailedPrecondition("no sample has a value on both sides");
  const PairRow& first = pairs.front();
  row.task = first.task;
  row.metric = first.metric;
  row.context_length = first.context_length;
  row.baseline = first.baseline_variant;
  row.candidate = first.candidate_variant;
  row.is_primary_metric = info.is_primary;
  row.planned_count = info.planned_count;
  row.sample_count = differences.size();
  row.is_unfinished = FinishedCount(pairs) < row.planned_count;
  row.is_incomplete = row.is_unfinished || row.failed_count > 0 || row.sample_count < row.planned_count;

  const double width = RangeOf(info.worst_value, info.best_value).Width();
  const std::vector<Cluster> baseline_clusters = GroupByCluster(baseline);
  const std::vector<Cluster> candidate_clusters = GroupByCluster(candidate);
  row.baseline_mean = MeanOfClusters(baseline_clusters).mean;
  row.candidate_mean = MeanOfClusters(candidate_clusters).mean;
  const auto interval_of = [&](const std::vector<ClusteredValue>& side, std::optional<double> effect) {
    return ScoreInterval(GroupByCluster(side),
                         {info.is_binary, RangeOf(info.worst_value, info.best_value), options.confidence, effect});
  };
  row.baseline_interval = interval_of(baseline, info.baseline_design_effect);
  row.candidate_interval = interval_of(candidate, info.candidate_design_effect);
  const std::vector<Cluster> clusters = GroupByCluster(differences);
  const bool has_span = info.worst_value.has_value() && info.best_value.has_value();
  const double design_effect = BorrowedDesignEffect(clusters, info.design_effect, PooledDesignEffect({clusters}));
  const InferenceOptions inference =
      OptionsFor(options, has_span ? std::optional(options.margin * width) : std::nullopt, Direction(info));
  Parts parts;
  parts.Add(pairs, width, design_effect, [](const auto& part) { return ClustersOf(part); });
  InferRow({{clusters, width, design_effect}}, parts, inference, row);
  if (HasZero(info)) row.relative = InferRelativeGain({{clusters, baseline_clusters}}, row, options.confidence);
  AdjustForMultipleTests({&row}, 1, options.confidence);
  std::map<int64_t, std::pair<double, int64_t>> of_seeds;
  AddSeeds(pairs, 1, of_seeds);
  row.by_seed = MeansOfSeeds(of_seeds);
  return row;
}

absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                                 const std::string& candidate, const CompareOptions& options) {
  return CompareVariants(reader, {job_id, baseline}, {job_id, candidate}, options);
}

absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, const CompareOptions& options) {
  ComparisonReport report;
  PairSource own;
  PairSource& source = options.source == nullptr ? own : *options.source;
  const int64_t job_id = baseline.job_id;
  const bool is_one_job = job_id == candidate.job_id;
  ASSIGN_OR_RETURN(GroupedPairs grouped, is_one_job
                                             ? ReadPairs(reader, job_id, baseline.name, candidate.name, source, report)
                                             : ReadPairsAcrossJobs(reader, baseline, candidate, source, report));
  KeepContexts(options.contexts, grouped);
  const std::string where =
      is_one_job ? absl::StrCat("job ", job_id) : absl::StrCat("the pair of jobs ", job_id, " and ", candidate.job_id);
  return CompareGrouped(grouped, where, baseline.name, db::JobVariantLabel(candidate, job_id), options,
                        std::move(report));
}

}  // namespace varifocal::stats

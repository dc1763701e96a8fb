#include "db/stats/grouped_pairs.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/variant_names.h"

namespace varifocal::stats {
namespace {

using db::PairRow;

absl::Status CheckVariants(db::Reader& reader, int64_t job_id, const std::string& baseline,
                           const std::string& candidate) {
  if (baseline == candidate) return InvalidArgument("baseline and candidate are both \"", baseline, "\"");
  ASSIGN_OR_RETURN(std::vector<db::VariantRecord> variants, reader.Variants(job_id));
  for (const std::string& name : {baseline, candidate}) {
    bool known = std::any_of(variants.begin(), variants.end(), [&](const auto& v) { return v.name == name; });
    if (known) continue;
    return NotFound(NoSuchVariant(job_id, name, variants), "; a variant of another job is named with it, such as 3/",
                    name);
  }
  return absl::OkStatus();
}

absl::StatusOr<const TestedLengths*> TestedOf(db::Reader& reader, int64_t job_id, PairSource& source) {
  if (const auto known = source.tested.find(job_id); known != source.tested.end()) return &known->second;
  ASSIGN_OR_RETURN(TestedLengths tested, TestedLengths::Read(reader, job_id));
  return &source.tested.emplace(job_id, std::move(tested)).first->second;
}

absl::StatusOr<const AnswerKindMarks*> MarksOf(db::Reader& reader, int64_t job_id, const std::string& variant,
                                               PairSource& source) {
  const auto [known, is_new] = source.variants.try_emplace({job_id, variant});
  if (!is_new) return &known->second;
  AnswerKindMarks& marks = known->second;
  RETURN_IF_ERROR(reader.EachMarkedAnswer(job_id, variant, [&marks](db::MarkedAnswerRow row) {
    marks[{std::move(row.task), row.context_length, std::move(row.question_id)}] |= row.answer_kinds;  // of any epoch
    return absl::OkStatus();
  }));
  return &known->second;
}

absl::StatusOr<const QuestionSeeds*> SeedsOf(db::Reader& reader, int64_t job_id, PairSource& source) {
  const auto [known, is_new] = source.seeds.try_emplace(job_id);
  if (is_new) {
    ASSIGN_OR_RETURN(known->second, reader.DataSeeds(job_id));
  }
  return &known->second;
}

// Sorts pairs into the groups of the metrics and cells that are known.
class PairGrouper {
 public:
  // `planned` by task and length of the suite.
  PairGrouper(int64_t job_id, const std::vector<db::TaskMetricRecord>& metrics,
              const std::map<std::pair<std::string, int64_t>, int64_t>& planned, const TestedLengths& tested,
              std::vector<const AnswerKindMarks*> marks, const QuestionSeeds& seeds)
      : job_id_(job_id), marks_(std::move(marks)), seeds_(seeds) {
    grouped_.tested = tested;
    for (const auto& [cell, count] : planned) {
      if (const std::optional<int64_t> length = tested.Of(cell.first, cell.second))
        grouped_.planned[{cell.first, *length}] = count;
    }
    for (const db::TaskMetricRecord& metric : metrics) {
      grouped_.metrics[{metric.task, metric.metric}] = {.is_binary = metric.is_binary,
                                                        .is_primary = metric.metric_index == 0,
                                                        .worst_value = metric.worst_value,
                                                        .best_value = metric.best_value};
      metric_index_[{metric.task, metric.metric}] = metric.metric_index;
    }
  }

  absl::Status Add(PairRow pair) {
    const std::optional<int64_t> length = grouped_.tested.Of(pair.task, pair.context_length);
    if (!length.has_value()) return absl::OkStatus();  // asked with the same prompts at a shorter length
    for (const AnswerKindMarks* marks : marks_) {
      const auto found = marks->find({pair.task, pair.context_length, pair.question_id});
      if (found != marks->end()) pair.answer_kinds |= found->second;
    }
    if (const auto seed = seeds_.find({pair.task, pair.question_id}); seed != seeds_.end()) pair.seed = seed->second;
    pair.context_length = *length;
    const auto metric = grouped_.metrics.find({pair.task, pair.metric});
    if (metric == grouped_.metrics.end() || !grouped_.planned.contains({pair.task, pair.context_length})) {
      return DataLoss("the database is damaged: job ", job_id_, " has answers to task ", pair.task, " at ",
                      pair.context_length, " tokens and no such cell");
    }
    const int64_t index = metric_index_[{pair.task, pair.metric}];
    for (const std::optional<double>& value : {pair.baseline_value, pair.candidate_value}) {
      RETURN_IF_ERROR(CheckValue(pair.task, pair.metric, value, metric->second.worst_value, metric->second.best_value));
    }
    grouped_.pairs[{pair.task, index, pair.metric}][pair.context_length].push_back(std::move(pair));
    return absl::OkStatus();
  }
  GroupedPairs Take() { return std::move(grouped_); }

 private:
  const int64_t job_id_;
  const std::vector<const AnswerKindMarks*> marks_;
  const QuestionSeeds& seeds_;
  GroupedPairs grouped_;
  std::map<std::pair<std::string, std::string>, int64_t> metric_index_;
};

}  // namespace

int64_t FinishedCount(const std::vector<PairRow>& pairs) {
  return std::count_if(pairs.begin(), pairs.end(), [](const PairRow& pair) { return !pair.is_partial; });
}

bool CanBeAveraged(const MetricInfo& info) {
  return info.is_primary && info.worst_value.has_value() && info.best_value.has_value() &&
         *info.worst_value != *info.best_value;
}

DeclaredTests GroupedPairs::Declared() const {
  DeclaredTests tests;
  std::set<int64_t> averaged_lengths;
  for (const auto& [cell, count] : planned) {
    for (const auto& [key, info] : metrics) {
      if (key.first != cell.first) continue;
      (info.is_primary ? tests.primary : tests.secondary) += 1;
      if (CanBeAveraged(info)) averaged_lengths.insert(cell.second);
    }
  }
  tests.suite = averaged_lengths.size();
  return tests;
}

void KeepContexts(Contexts contexts, GroupedPairs& grouped) {
  if (contexts == Contexts::kAll) return;
  std::map<std::string, std::set<std::string>> names;  // of clusters, by task
  for (const auto& [key, lengths] : grouped.pairs) {
    for (const auto& [length, pairs] : lengths) {
      for (const PairRow& pair : pairs) names[pair.task].insert(pair.cluster);
    }
  }
  std::map<std::string, std::set<std::string>> removed;
  for (const auto& [task, clusters] : names) {
    bool is_choice = true;
    for (const std::string& cluster : clusters) {
      if (is_choice != (contexts == Contexts::kChoice)) removed[task].insert(cluster);
      is_choice = !is_choice;
    }
  }
  std::set<std::pair<std::string, int64_t>> unfinished;
  for (auto& [key, lengths] : grouped.pairs) {
    for (auto& [length, pairs] : lengths) {
      const std::pair cell{std::get<0>(key), length};
      if (FinishedCount(pairs) < grouped.planned.at(cell)) unfinished.insert(cell);
      std::erase_if(pairs, [&](const PairRow& pair) { return removed[pair.task].contains(pair.cluster); });
    }
    std::erase_if(lengths, [](const auto& length) { return length.second.empty(); });
  }
  std::erase_if(grouped.pairs, [](const auto& pairs) { return pairs.second.empty(); });
  for (const auto& [key, lengths] : grouped.pairs) {
    for (const auto& [length, pairs] : lengths) {
      const std::pair cell{std::get<0>(key), length};
      grouped.planned[cell] = std::ssize(pairs) + unfinished.contains(cell);
    }
  }
}

absl::StatusOr<GroupedPairs> ReadPairs(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                       const std::string& candidate, PairSource& source, ComparisonReport& report) {
  RETURN_IF_ERROR(CheckVariants(reader, job_id, baseline, candidate));
  ASSIGN_OR_RETURN(report.tokenizers_differ, reader.TokenizersDiffer(job_id, baseline, candidate));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.QuestionCells(job_id));
  std::map<std::pair<std::string, int64_t>, int64_t> planned;
  for (const db::CellRow& cell : cells) {
    if (cell.cell.variant != baseline && cell.cell.variant != candidate) continue;
    int64_t& count = planned[{cell.cell.task, cell.cell.context_length}];
    count = std::max(count, cell.cell.planned_count);
  }
  ASSIGN_OR_RETURN(const TestedLengths* const tested, TestedOf(reader, job_id, source));
  std::vector<const AnswerKindMarks*> marks;
  for (const std::string& variant : {baseline, candidate}) {
    ASSIGN_OR_RETURN(marks.emplace_back(), MarksOf(reader, job_id, variant, source));
  }
  ASSIGN_OR_RETURN(const QuestionSeeds* const seeds, SeedsOf(reader, job_id, source));
  PairGrouper grouper(job_id, metrics, planned, *tested, std::move(marks), *seeds);
  RETURN_IF_ERROR(
      reader.EachPair(job_id, baseline, candidate, [&](PairRow pair) { return grouper.Add(std::move(pair)); }));
  return grouper.Take();
}

absl::StatusOr<GroupedPairs> ReadPairsAcrossJobs(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, PairSource& source,
                                                 ComparisonReport& report) {
  ASSIGN_OR_RETURN(db::CrossPairs cross, db::PairAcrossJobs(reader, baseline, candidate));
  report.is_across_jobs = true;
  report.tokenizers_differ = cross.tokenizers_differ;
  report.tasks_with_other_settings = std::move(cross.tasks_with_other_settings);
  std::map<std::pair<std::string, int64_t>, int64_t> planned;
  for (const db::PairedCell& cell : cross.cells) {
    report.paired_count += cell.paired_count;
    report.baseline_left_out_count += cell.baseline_left_out_count;
    report.candidate_left_out_count += cell.candidate_left_out_count;
    if (cell.planned_count > 0) planned[{cell.task, cell.context_length}] = cell.planned_count;
  }
  ASSIGN_OR_RETURN(const TestedLengths* const tested, TestedOf(reader, baseline.job_id, source));
  std::vector<const AnswerKindMarks*> marks;
  for (const db::JobVariant* variant : {&baseline, &candidate}) {
    ASSIGN_OR_RETURN(marks.emplace_back(), MarksOf(reader, variant->job_id, variant->name, source));
  }
  ASSIGN_OR_RETURN(const QuestionSeeds* const seeds, SeedsOf(reader, baseline.job_id, source));
  PairGrouper grouper(baseline.job_id, cross.metrics, planned, *tested, std::move(marks), *seeds);
  for (PairRow& pair : cross.pairs) RETURN_IF_ERROR(grouper.Add(std::move(pair)));
  GroupedPairs grouped = grouper.Take();
  for (db::PairedCell& cell : cross.cells) {
    if (const std::optional<int64_t> length = grouped.tested.Of(cell.task, cell.context_length))
      grouped.cells[{cell.task, *length}] = std::move(cell);
  }
  return grouped;
}

}  // namespace varifocal::stats

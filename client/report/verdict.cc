#include "client/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/text_format.h"

namespace varifocal::report {
namespace {

std::string Points(double share) { return Signed(share * 100, 1); }

std::string Lengths(const std::vector<const stats::SuiteComparison*>& rows) {
  std::vector<std::string> labels;
  for (const auto* row : rows) labels.push_back(LengthLabel(row->context_length));
  return JoinWithAnd(labels);
}

std::string IntervalText(const stats::SuiteComparison& row, const ReportData& data) {
  return absl::StrCat(std::lround(data.confidence * 100), " % interval ", Points(row.low), " to ", Points(row.high));
}

const stats::SuiteComparison* Largest(const std::vector<const stats::SuiteComparison*>& rows) {
  return *std::max_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return std::abs(a->difference) < std::abs(b->difference);
  });
}

// " (+12.5 points at 4K, 95 % interval +6.0 to +19.0, p = 0.002)"
std::string Evidence(const stats::SuiteComparison& row, double p_holm, size_t row_count, const ReportData& data) {
  return absl::StrCat(" (", Points(row.difference), " points",
                      row_count > 1 ? absl::StrCat(" at ", LengthLabel(row.context_length)) : "", ", ",
                      IntervalText(row, data), ", ", PEquals(p_holm), ")");
}

// The tasks that the two were compared on: of a variant of another job perhaps not all.
std::vector<std::string> TasksOf(const Versus& versus, const ReportData& data) {
  if (!versus.report.is_across_jobs) return data.tasks;
  std::set<std::string> compared;
  for (const stats::Comparison& row : versus.report.comparisons) compared.insert(row.task);
  return {compared.begin(), compared.end()};
}

// The rows of single tasks that stay below the level after adjusting over the whole table, largest first.
std::string TaskSentence(const Versus& versus, const ReportData& data) {
  std::vector<const stats::Comparison*> rows;
  for (size_t i = 0; i < versus.report.comparisons.size(); ++i) {
    const stats::Comparison& row = versus.report.comparisons[i];
    if (row.is_primary_metric && versus.rows_holm[i] <= kSignificance && IsShare(data.metric(row.task, row.metric))) {
      rows.push_back(&row);
    }
  }
  if (rows.empty() || TasksOf(versus, data).size() < 2) return "";
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(a->difference) > std::abs(b->difference); });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 3); ++i) {
    parts.push_back(absl::StrCat(rows[i]->task, " at ", LengthLabel(rows[i]->context_length), " (",
                                 Points(rows[i]->difference), ")"));
  }
  const std::string more = rows.size() > 3 ? absl::StrCat("; ", rows.size(), " such cells in all") : "";
  return absl::StrCat("Among single tasks the difference is clearest in ", JoinWithAnd(parts), more, ".");
}

std::string GrowthSentence(const Versus& versus, const ReportData& data) {
  for (const stats::LengthContrast& row : versus.report.contrasts) {
    if (!row.task.empty() && TasksOf(versus, data).size() > 1) continue;
    if (!row.task.empty() && !IsShare(data.metric(row.task, row.metric))) continue;
    const std::string span =
        absl::StrCat(" from ", LengthLabel(row.short_length), " to ", LengthLabel(row.long_length));
    const std::string numbers =
        absl::StrCat(" (", Points(row.contrast), " points, ", std::lround(data.confidence * 100), " % interval ",
                     Points(row.low), " to ", Points(row.high), ", ", PEquals(row.p_value), ", not adjusted)");
    if (row.p_value > kSignificance) return absl::StrCat("No sign that the difference changes", span, numbers, ".");
    return absl::StrCat("The difference ", row.contrast > 0 ? "moves towards " : "moves against ", versus.candidate,
                        span, numbers, ".");
  }
  return "";
}

}  // namespace

std::vector<Verdict> MakeVerdicts(const ReportData& data) {
  std::vector<Verdict> verdicts;
  for (const Versus& versus : data.versus) {
    Verdict verdict;
    verdict.candidate = versus.candidate;
    if (versus.report.suite.empty()) {
      verdict.tone = "unknown";
      verdict.headline = absl::StrCat(versus.candidate, " cannot be compared with ", data.baseline, " yet",
                                      versus.problem.empty() ? "" : absl::StrCat(": ", versus.problem), ".");
      verdicts.push_back(std::move(verdict));
      continue;
    }
    std::vector<const stats::SuiteComparison*> better, worse, none;
    auto p_of = [&](const stats::SuiteComparison* row) { return versus.suite_holm[row - versus.report.suite.data()]; };
    for (const stats::SuiteComparison& row : versus.report.suite) {
      auto& list = p_of(&row) > kSignificance ? none : row.difference > 0 ? better : worse;
      list.push_back(&row);
    }
    const std::vector<std::string> tasks = TasksOf(versus, data);
    const bool one_task = tasks.size() == 1;
    const std::string where = one_task ? absl::StrCat(" on ", tasks.front()) : "";
    const std::string over = one_task ? "" : absl::StrCat(", averaged over ", tasks.size(), " tasks");
    auto clause = [&](const char* verb, const std::vector<const stats::SuiteComparison*>& rows) {
      const auto* largest = Largest(rows);
      return absl::StrCat(verb, data.baseline, where, " at ", Lengths(rows), over,
                          Evidence(*largest, p_of(largest), rows.size(), data));
    };
    if (!better.empty() && !worse.empty()) {
      verdict.tone = "mixed";
      verdict.headline =
          absl::StrCat(versus.candidate, clause(" beats ", better), ", but", clause(" falls behind ", worse));
    } else if (!better.empty()) {
      verdict.tone = "better";
      verdict.headline = absl::StrCat(versus.candidate, clause(" beats ", better));
    } else if (!worse.empty()) {
      verdict.tone = "worse";
      verdict.headline = absl::StrCat(versus.candidate, clause(" falls behind ", worse));
    } else {
      verdict.tone = "none";
      const auto* largest = Largest(none);
      verdict.headline = absl::StrCat("No difference found between ", versus.candidate, " and ", data.baseline, where,
                                      " at ", Lengths(none), over, "; the largest is ", Points(largest->difference),
                                      " points at ", LengthLabel(largest->context_length), " (",
                                      IntervalText(*largest, data), ", ", PEquals(p_of(largest)), ")");
    }
    verdict.headline += ".";
    if (!none.empty() && verdict.tone != "none") {
      std::vector<std::string> parts;
      for (const auto* row : none) {
        parts.push_back(absl::StrCat(LengthLabel(row->context_length), " (", Points(row->difference), ", ",
                                     Points(row->low), " to ", Points(row->high), ")"));
      }
      verdict.details.push_back(absl::StrCat("No difference found at ", JoinWithAnd(parts), "."));
    }
    for (std::string sentence : {TaskSentence(versus, data), GrowthSentence(versus, data)}) {
      if (!sentence.empty()) verdict.details.push_back(std::move(sentence));
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Label> SourceLabels(const ReportData& data) {
  std::vector<Label> labels;
  for (const db::VariantRecord& variant : data.variants) {
    if (!db::IsImported(variant)) continue;
    labels.push_back(
        {"imported",
         absl::StrCat("The answers of ", variant.name, " came from another engine, in a file with SHA-256 ",
                      ShortHash(variant.model.weights_sha256), "; scores and statistics were computed here.")});
  }
  for (size_t i = 0; i < data.versus.size(); ++i) {
    const stats::ComparisonReport& report = data.versus[i].report;
    if (!report.is_across_jobs) continue;
    const std::string job = absl::StrCat("job ", data.job.job_id),
                      other = absl::StrCat("job ", data.keys[i + 1].job_id);
    labels.push_back(
        {"two jobs", absl::StrCat(data.versus[i].candidate, " was asked in ", other, ": ",
                                  CountLabel(report.paired_count), " of its questions were asked in ", job,
                                  " with the same ", report.tokenizers_differ ? "settings and data" : "prompt",
                                  " and are paired, left out are ", CountLabel(report.baseline_left_out_count), " of ",
                                  job, " and ", CountLabel(report.candidate_left_out_count), " of ", other, ".",
                                  report.tasks_with_other_settings.empty()
                                      ? ""
                                      : absl::StrCat(" The specifications of the two differ in ",
                                                     JoinWithAnd(report.tasks_with_other_settings), "."))});
  }
  return labels;
}

std::vector<Label> MakeLabels(const ReportData& data) {
  std::vector<Label> labels;
  std::vector<const db::JobRow*> jobs = {&data.job};
  for (const db::JobRow& job : data.other_jobs) jobs.push_back(&job);
  bool is_mixed = false;
  const auto is_imported = [&](const db::JobRow& job) {  // then nothing can be resumed
    for (size_t i = 0; i < data.keys.size(); ++i) {
      if (data.keys[i].job_id == job.job_id && db::IsImported(data.variants[i])) return true;
    }
    return false;
  };
  for (const db::JobRow* job : jobs) {
    is_mixed |= job->is_mixed;
    if (job->planned_count == job->answered_count && job->failed_count == 0) continue;
    labels.push_back(
        {"incomplete",
         absl::StrCat(jobs.size() > 1 ? absl::StrCat("Job ", job->job_id, ": ") : "", CountLabel(job->answered_count),
                      " of ", CountLabel(job->planned_count), " answers are there, ", CountLabel(job->failed_count),
                      " failed; a failed one counts as the worst value",
                      is_imported(*job) ? "." : " until it is resumed.")});
  }
  for (Label& label : SourceLabels(data)) labels.push_back(std::move(label));
  std::vector<std::string> beyond;
  for (const db::VariantRecord& variant : data.variants) {
    if (data.lengths.empty() || !IsExtrapolated(variant, data.lengths.back())) continue;
    beyond.push_back(absl::StrCat(variant.name, " beyond ", LengthLabel(*variant.model.trained_context_length)));
  }
  if (!beyond.empty()) {
    labels.push_back({"extrapolated", absl::StrCat("Contexts longer than the model was trained with: ",
                                                   absl::StrJoin(beyond, ", "), ".")});
  }
  std::vector<std::string> run_time;
  for (const db::VariantRecord& variant : data.variants) {
    if (variant.focal_temperature_json.has_value())
      run_time.push_back(absl::StrCat(variant.name, " is ", AttentionLabel(variant)));
  }
  if (!run_time.empty()) {
    labels.push_back({"run with t", absl::StrCat("A temperature applied at run time is not one trained with: ",
                                                 absl::StrJoin(run_time, "; "), ".")});
  }
  for (const Versus& versus : data.versus) {
    if (!versus.report.tokenizers_differ) continue;
    labels.push_back({"different tokenizers", absl::StrCat(versus.candidate, " and ", data.baseline,
                                                           " were asked the same questions in different prompts.")});
  }
  if (is_mixed) {
    labels.push_back(
        {"mixed executions",
         "The answers come from more than one code version, backend or instruction set (see Provenance)."});
  }
  std::set<std::string> dtypes;
  for (const db::VariantRecord& variant : data.variants) dtypes.insert(variant.model.dtype);
  if (dtypes.size() > 1) {
    labels.push_back(
        {"mixed number formats", absl::StrCat("The variants ran in ", absl::StrJoin(dtypes, " and "), ".")});
  }
  return labels;
}

}  // namespace varifocal::report

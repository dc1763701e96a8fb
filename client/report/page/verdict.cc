#include "client/report/page/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "db/stats/labels.h"

namespace varifocal::report {
namespace {

std::string Points(double share) { return Signed(share * 100, 1); }

using MeanRows = std::vector<const stats::SuiteComparison*>;

std::string LengthOf(const stats::SuiteComparison& row, const ReportData& data) {
  return data.Length("", row.context_length);
}

std::string Lengths(const MeanRows& rows, const ReportData& data) {
  std::vector<std::string> labels;
  for (const auto* row : rows) labels.push_back(LengthOf(*row, data));
  return JoinWithAnd(labels);
}

std::string IntervalText(const stats::Inference& row, const ReportData& data) {
  return IntervalAndP(row, 100, 1, data.confidence);
}

std::string AfterComma(const std::string& text) { return text.empty() ? "" : absl::StrCat(", ", text); }

std::string Margin(const ReportData& data) { return absl::StrCat("\u00B1", Unsigned(data.margin * 100, 1), " points"); }

const stats::SuiteComparison* Largest(const MeanRows& rows) {
  return *std::max_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return std::abs(a->difference) < std::abs(b->difference);
  });
}

// "72 of 72 answers of ep failed", "1 of 48 answers of a and 2 of 48 of b failed"; "" where none did.
std::string FailedText(const std::vector<db::AnswerCounts>& sides) {
  std::vector<std::string> parts;
  for (const db::AnswerCounts& counts : sides) {
    if (counts.failed_count == 0) continue;
    parts.push_back(absl::StrCat(CountLabel(counts.failed_count), " of ",
                                 CountLabel(counts.failed_count + counts.answered_count),
                                 parts.empty() ? " answers" : "", " of ", counts.variant));
  }
  return parts.empty() ? "" : absl::StrCat(JoinWithAnd(parts), " failed");
}

std::string FailedText(const stats::SuiteComparison& row, const ReportData& data) {
  return FailedText(
      {data.answers.Of(row.baseline, "", row.context_length), data.answers.Of(row.candidate, "", row.context_length)});
}

// "; 3 of 400 answers of c failed", of several rows "; 3 of 400 answers of c failed at 4K and ..".
std::string FailedNote(const MeanRows& rows, const ReportData& data) {
  std::vector<std::string> parts;
  for (const auto* row : rows) {
    const std::string failed = FailedText(*row, data);
    if (failed.empty()) continue;
    parts.push_back(rows.size() > 1 ? absl::StrCat(failed, " at ", LengthOf(*row, data)) : failed);
  }
  return parts.empty() ? "" : absl::StrCat("; ", JoinWithAnd(parts));
}

std::string RestsNote(const stats::SuiteComparison& row, const ReportData& data, const std::string& at = "") {
  return RestsNote(row, SidesOf(row, data.answers, data.tested), 100, 1, at);
}

std::string FragileNote(const stats::Inference& row) {
  return row.is_fragile ? absl::StrCat(", ", stats::kFragileLabel) : "";
}

// Of every row that a headline names, with its length where it names several.
std::string RestsNotes(const MeanRows& rows, const ReportData& data) {
  std::string notes;
  for (const auto* row : rows) notes += RestsNote(*row, data, rows.size() > 1 ? LengthOf(*row, data) : "");
  return notes;
}

// "+12.5 points at 4K (95 % interval +6.0 to +19.0, p = 0.002, adjusted for 8 tests)"
std::string Numbers(const stats::SuiteComparison& row, const ReportData& data) {
  const std::string where = absl::StrCat(Points(row.difference), " points at ", LengthOf(row, data));
  if (row.LacksSpread() && row.is_zero_everywhere) return where;
  const std::string details = absl::StrCat(AfterComma(IntervalText(row, data)), FragileNote(row), RestsNote(row, data));
  return details.empty() ? where : absl::StrCat(where, " (", absl::string_view(details).substr(2), ")");
}

// "a change of 12.0 points would have been found four times out of five"
std::string Detectable(const char* what, const stats::Inference& row, const char* where) {
  return Sentence(
      "would_be_found",
      {{"what", what},
       {"untested", UntestedNote(row)},
       {"where", where},
       {"size", row.detectable_difference.has_value() ? Unsigned(*row.detectable_difference * 100, 1) : ""}});
}

// "1K (72 of 72 answers of ep failed; -29.2 points with failures as the worst score) and 2K (..)"
std::string FailuresList(const MeanRows& rows, const ReportData& data) {
  std::vector<std::string> parts;
  for (const auto* row : rows) {
    parts.push_back(absl::StrCat(LengthOf(*row, data), " (", FailedText(*row, data), "; ", Points(row->difference),
                                 " points with failures as the worst score)"));
  }
  return JoinWithAnd(parts);
}

// "+12.5 points at 4K, 95 % interval +6.0 to +19.0, p = 0.002, adjusted for 8 tests"
std::string Evidence(const MeanRows& rows, const ReportData& data) {
  const stats::SuiteComparison& row = *Largest(rows);
  return absl::StrCat(
      Points(row.difference), " points", rows.size() > 1 ? absl::StrCat(" at ", LengthOf(row, data)) : "",
      AfterComma(IntervalText(row, data)), FragileNote(row), RestsNotes(rows, data), FailedNote(rows, data));
}

// Whether the metric has a span, so that the mean over tasks has the task.
bool IsAveraged(const db::TaskMetricRecord* metric) {
  return metric != nullptr && metric->worst_value.has_value() && metric->best_value.has_value() &&
         *metric->worst_value != *metric->best_value;
}

// The tasks of a mean over tasks; of a variant of another job perhaps not all.
std::vector<std::string> TasksAt(const CandidateComparison& comparison, int64_t length, const ReportData& data) {
  std::vector<std::string> tasks;
  for (const stats::Comparison& row : comparison.report.comparisons) {
    if (row.is_primary_metric && row.context_length == length && IsAveraged(data.primary_metric(row.task)))
      tasks.push_back(row.task);
  }
  return tasks;
}

// How many tasks the rows are means over: " on recall" and ", averaged over 5 tasks"; where they differ by length, all of them.
struct Scope {
  std::string where, over;
};
Scope ScopeOf(const MeanRows& rows, const CandidateComparison& comparison, const ReportData& data) {
  const auto counted = [](int64_t count) { return absl::StrCat(count, count == 1 ? " task" : " tasks"); };
  std::set<std::vector<std::string>> sets;
  std::set<int64_t> planned;
  std::vector<std::string> parts;
  for (const auto* row : rows) {
    sets.insert(TasksAt(comparison, row->context_length, data));
    planned.insert(row->planned_task_count);
    parts.push_back(absl::StrCat(counted(row->planned_task_count), " at ", LengthOf(*row, data)));
  }
  if (planned.size() > 1) return {"", absl::StrCat(", averaged over ", JoinWithAnd(parts))};
  if (*planned.begin() > 1) return {"", absl::StrCat(", averaged over ", counted(*planned.begin()))};
  if (sets.size() > 1 || sets.begin()->empty()) return {"", ", one task at each"};
  return {absl::StrCat(" on ", sets.begin()->front()), ""};
}

// Whether a mean over tasks is one over several of them, at any length.
bool HasSeveralTasks(const CandidateComparison& comparison) {
  return std::any_of(comparison.report.suite.begin(), comparison.report.suite.end(),
                     [](const stats::SuiteComparison& row) { return row.planned_task_count > 1; });
}

// The cells that are better or worse after adjusting over the whole table, largest first.
std::string TaskSentence(const CandidateComparison& comparison, const ReportData& data) {
  std::vector<const stats::Comparison*> rows;
  for (const stats::Comparison& row : comparison.report.comparisons) {
    const bool is_decided = row.outcome == stats::Outcome::kBetter || row.outcome == stats::Outcome::kWorse;
    if (row.is_primary_metric && is_decided && IsShare(data.metric(row.task, row.metric))) rows.push_back(&row);
  }
  if (rows.empty() || !HasSeveralTasks(comparison)) return "";
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(a->difference) > std::abs(b->difference); });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 3); ++i) {
    parts.push_back(absl::StrCat(rows[i]->task, " at ", data.Length(rows[i]->task, rows[i]->context_length), " (",
                                 Points(rows[i]->difference), ")"));
  }
  return Sentence("clearest_tasks",
                  {{"list", JoinWithAnd(parts)}, {"count", rows.size() > 3 ? Json(rows.size()) : Json()}});
}

std::string GrowthSentence(const CandidateComparison& comparison, const ReportData& data) {
  for (const stats::LengthContrast& row : comparison.report.contrasts) {
    if (!row.task.empty() && HasSeveralTasks(comparison)) continue;
    if (!row.task.empty() && !IsShare(data.metric(row.task, row.metric))) continue;
    if (row.is_unfinished || !row.can_infer) continue;
    const std::string steady = SteadyNote(data, comparison, row);
    Json values = {{"candidate", comparison.candidate},
                   {"margin", Margin(data)},
                   {"is_small", row.IsWithinMargin()},
                   {"numbers", absl::StrCat(Points(row.difference), " points", AfterComma(IntervalText(row, data)),
                                            FragileNote(row))},
                   {"notes", absl::StrCat(steady.empty() ? "" : absl::StrCat("; ", steady),
                                          RestsNote(row, SidesOf(row, data.answers, data.tested), 100, 1))},
                   {"span", absl::StrCat(" from ", data.Length(row.task, row.short_length), " to ",
                                         data.Length(row.task, row.long_length))}};
    switch (row.outcome) {
      case stats::Outcome::kBetter:
        values["direction"] = "towards";
        return Sentence("moves", values);
      case stats::Outcome::kWorse:
        values["direction"] = "against";
        return Sentence("moves", values);
      case stats::Outcome::kEquivalent:
        return Sentence("moves_little", values);
      case stats::Outcome::kUndecided:
        break;
    }
    values["found"] = row.failures_decide ? "failed answers decide" : Detectable("change", row, "");
    return Sentence("moves_undecided", values);
  }
  return "";
}

// "1K (-2.0, -9.0 to +5.0; detectable 10.1) and 2K (..)"
std::string UndecidedList(const MeanRows& rows, const ReportData& data) {
  std::vector<std::string> parts;
  for (const auto* row : rows) {
    const std::string untested = UntestedNote(*row);
    const std::string detectable =
        row->detectable_difference.has_value() ? Unsigned(*row->detectable_difference * 100, 1) : "none";
    const std::string enough = EnoughNote(*row, 100, 1, data.confidence);
    parts.push_back(absl::StrCat(
        LengthOf(*row, data), " (", Points(row->difference),
        row->HasInterval() ? absl::StrCat(", ", Points(row->adjusted_low), " to ", Points(row->adjusted_high)) : "",
        "; ", untested.empty() ? absl::StrCat("detectable ", detectable, enough.empty() ? "" : "; ", enough) : untested,
        RestsNote(*row, data), ")"));
  }
  return JoinWithAnd(parts);
}

// The limits of designs with few clusters, once for all affected cells.
std::string DesignSentence(const CandidateComparison& comparison) {
  int64_t fewest = 0;
  std::string note;
  for (const stats::Comparison& row : comparison.report.comparisons) {
    if (!row.is_primary_metric || row.is_unfinished || (fewest > 0 && row.cluster_count >= fewest)) continue;
    const std::string found = DesignNote(row);
    if (found.empty()) continue;
    fewest = row.cluster_count;
    note = found;
  }
  return note.empty() ? "" : Sentence("design", {{"note", note}});
}

// One data seed alone may say otherwise.
std::string SeedSentence(const CandidateComparison& comparison, const ReportData& data) {
  std::vector<std::string> parts;
  size_t seed_count = 0;
  for (const stats::SuiteComparison& row : comparison.report.suite) {
    if (row.by_seed.size() < 2) continue;
    seed_count = std::max(seed_count, row.by_seed.size());
    parts.push_back(absl::StrCat("at ", LengthOf(row, data), " from ", SeedSpread(row.by_seed, 100, 1)));
  }
  if (parts.empty()) return "";
  return Sentence("seeds", {{"count", seed_count}, {"list", JoinWithAnd(parts)}});
}

struct Rows {
  MeanRows better, worse, equivalent, undecided, failures, open;
};

Rows SortByOutcome(const std::vector<stats::SuiteComparison>& suite) {
  Rows rows;
  for (const stats::SuiteComparison& row : suite) {
    if (row.is_unfinished || !row.can_infer) {
      rows.open.push_back(&row);
      continue;
    }
    auto& list = row.outcome == stats::Outcome::kBetter       ? rows.better
                 : row.outcome == stats::Outcome::kWorse      ? rows.worse
                 : row.outcome == stats::Outcome::kEquivalent ? rows.equivalent
                 : row.failures_decide                        ? rows.failures
                                                              : rows.undecided;
    list.push_back(&row);
  }
  return rows;
}

// "No verdict at 1K (2 of 5 tasks so far)."
std::string OpenSentence(const MeanRows& rows, const ReportData& data) {
  if (rows.empty()) return "";
  std::vector<std::string> parts;
  for (const auto* row : rows) parts.push_back(absl::StrCat(LengthOf(*row, data), " (", DesignNote(*row), ")"));
  return Sentence("no_verdict_at", {{"list", JoinWithAnd(parts)}});
}

// Where no metric has a span there is no mean over tasks, and the cells speak.
Verdict MakeVerdictOfCells(const CandidateComparison& comparison, const ReportData& data) {
  constexpr size_t kNamedCellCountMax = 4;
  Verdict verdict;
  verdict.candidate = comparison.candidate;
  std::map<stats::Outcome, int> counts;
  std::vector<std::string> outcomes;
  std::map<std::string, db::AnswerCounts> answers;  // of all these cells, by variant
  for (const stats::Comparison& row : comparison.report.comparisons) {
    if (!row.is_primary_metric) continue;
    const std::vector<AnswerSides> sides = SidesOf(row, data.answers, data.tested);
    const std::vector<db::AnswerCounts> of_cell = {sides.front().baseline, sides.front().candidate};
    for (const db::AnswerCounts& side : of_cell) {
      db::AnswerCounts& sum = answers[side.variant];
      sum.variant = side.variant;
      sum.answered_count += side.answered_count;
      sum.failed_count += side.failed_count;
    }
    const std::string failed = FailedText(of_cell);
    ++counts[row.outcome];
    outcomes.push_back(OutcomeLabel(row));
    if (verdict.details.size() >= kNamedCellCountMax) continue;
    const std::string note = DesignNote(row);
    verdict.details.push_back(
        absl::StrCat(row.metric, " of ", row.task, " at ", data.Length(row.task, row.context_length), ": ",
                     Signed(row.difference, 3),
                     row.HasInterval() ? absl::StrCat(" (", IntervalAndP(row, 1, 3, data.confidence), ")") : "", ", ",
                     OutcomeLabel(row), FragileNote(row), note.empty() ? "" : absl::StrCat("; ", note),
                     RestsNote(row, sides, 1, 3), failed.empty() ? "" : absl::StrCat("; ", failed), "."));
  }
  const int better = counts[stats::Outcome::kBetter], worse = counts[stats::Outcome::kWorse];
  verdict.tone = better > 0 && worse > 0 ? "mixed" : better > 0 ? "better" : worse > 0 ? "worse" : "undecided";
  verdict.headline =
      Sentence("cells_headline", {{"candidate", comparison.candidate},
                                  {"baseline", data.baseline},
                                  {"count", outcomes.size()},
                                  {"is_one", outcomes.size() == 1},
                                  {"outcomes", OutcomeCounts(outcomes)},
                                  {"failed", FailedText({answers[data.baseline], answers[comparison.candidate]})}});
  return verdict;
}

Verdict MakeVerdict(const CandidateComparison& comparison, const ReportData& data) {
  Verdict verdict;
  verdict.candidate = comparison.candidate;
  verdict.tone = "unknown";
  const Rows rows = SortByOutcome(comparison.report.suite);
  const bool is_all_open = rows.open.size() == comparison.report.suite.size();
  const std::string yet = data.IsEnded() ? "" : " yet";
  const bool has_primary = std::any_of(comparison.report.comparisons.begin(), comparison.report.comparisons.end(),
                                       [](const stats::Comparison& row) { return row.is_primary_metric; });
  if (comparison.report.suite.empty() && has_primary) return MakeVerdictOfCells(comparison, data);
  // Of a sentence about rows.
  const auto values_of = [&](const MeanRows& list) -> Json {
    const Scope scope = ScopeOf(list, comparison, data);
    return {{"candidate", comparison.candidate}, {"baseline", data.baseline}, {"where", scope.where},
            {"lengths", Lengths(list, data)},    {"over", scope.over},        {"margin", Margin(data)}};
  };
  if (comparison.report.suite.empty() || is_all_open) {
    verdict.headline = Sentence(comparison.report.suite.empty() ? "cannot_compare" : "no_verdict",
                                {{"candidate", comparison.candidate},
                                 {"baseline", data.baseline},
                                 {"yet", yet},
                                 {"problem", comparison.problem}});
    if (!comparison.report.suite.empty()) verdict.details.push_back(OpenSentence(rows.open, data));
    return verdict;
  }
  const auto clause = [&](const char* outcome, const MeanRows& list) -> std::string {
    if (list.empty()) return "";
    Json values = values_of(list);
    values["outcome"] = outcome;
    values["is_small"] = std::all_of(list.begin(), list.end(), [](const auto* row) { return row->IsWithinMargin(); });
    values["evidence"] = Evidence(list, data);
    return Sentence("clause", values);
  };
  const std::string better = clause("better", rows.better), worse = clause("worse", rows.worse);
  if (!better.empty() || !worse.empty()) {
    verdict.tone = worse.empty() ? "better" : better.empty() ? "worse" : "mixed";
    verdict.headline = Sentence("is_decided", {{"candidate", comparison.candidate},
                                               {"clause", better.empty() ? worse : better},
                                               {"other_clause", better.empty() ? "" : worse}});
  } else if (!rows.failures.empty()) {
    verdict.tone = "undecided";
    const stats::SuiteComparison& largest = *Largest(rows.failures);
    Json values = values_of(rows.failures);
    values["failed"] = absl::StrCat(FailedText(largest, data),
                                    rows.failures.size() > 1 ? absl::StrCat(" at ", LengthOf(largest, data)) : "");
    verdict.headline = Sentence("failures_headline", values);
  } else if (rows.undecided.empty()) {
    verdict.tone = "equivalent";
    Json values = values_of(rows.equivalent);
    values["notes"] = RestsNotes(rows.equivalent, data) + FailedNote(rows.equivalent, data);
    verdict.headline = Sentence("equivalent_headline", values);
  } else {
    verdict.tone = "undecided";
    const stats::SuiteComparison& largest = *Largest(rows.undecided);
    Json values = values_of(rows.undecided);
    values["largest"] = Numbers(largest, data);
    values["found"] = Detectable("difference", largest, " there");
    values["failed"] = FailedNote(rows.undecided, data);
    verdict.headline = Sentence("undecided_headline", values);
  }
  if (!rows.failures.empty()) {
    verdict.details.push_back(Sentence("failures_at", {{"list", FailuresList(rows.failures, data)},
                                                       {"meaning", stats::LabelOf("failures").sentence}}));
  }
  const bool is_settled = !rows.failures.empty() || (verdict.tone != "equivalent" && verdict.tone != "undecided");
  if (!rows.undecided.empty() && (is_settled || rows.undecided.size() > 1))
    verdict.details.push_back(Sentence("undecided_at", {{"list", UndecidedList(rows.undecided, data)}}));
  MeanRows small;
  for (const MeanRows* list : {&rows.better, &rows.worse}) {
    const size_t before = small.size();
    for (const auto* row : *list) {
      if (row->IsWithinMargin()) small.push_back(row);
    }
    if (small.size() - before == list->size()) small.resize(before);  // the headline has it
  }
  if (!small.empty()) {
    verdict.details.push_back(Sentence("small_at", {{"margin", Margin(data)}, {"lengths", Lengths(small, data)}}));
  }
  if (!rows.equivalent.empty() && verdict.tone != "equivalent") {
    verdict.details.push_back(
        Sentence("equivalent_at", {{"margin", Margin(data)}, {"lengths", Lengths(rows.equivalent, data)}}));
  }
  for (std::string sentence :
       {OpenSentence(rows.open, data), TaskSentence(comparison, data), GrowthSentence(comparison, data),
        SeedSentence(comparison, data), DesignSentence(comparison)}) {
    if (!sentence.empty()) verdict.details.push_back(std::move(sentence));
  }
  return verdict;
}

}  // namespace

std::vector<Verdict> MakeVerdicts(const ReportData& data) {
  std::vector<Verdict> verdicts;
  for (const CandidateComparison& comparison : data.comparisons) verdicts.push_back(MakeVerdict(comparison, data));
  return verdicts;
}

}  // namespace varifocal::report

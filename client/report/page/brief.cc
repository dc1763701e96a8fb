#include "client/report/page/brief.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

constexpr double kEmptyShareMin = 0.1;  // of the answers of a side: worth a word on the first screen

using MeanRows = std::vector<const stats::SuiteComparison*>;

bool IsOpen(const stats::SuiteComparison& row) { return row.is_unfinished || !row.can_infer; }

bool IsBeyondTraining(const stats::SuiteComparison& row, const ReportData& data) {
  return data.answers.IsExtrapolated(row.baseline, "", row.context_length) ||
         data.answers.IsExtrapolated(row.candidate, "", row.context_length);
}

// Decided ones first.
enum class BriefKind { kDecided, kEquivalent, kUndecided, kUntested, kFailures };

std::pair<BriefKind, std::string> BriefKindOf(const stats::SuiteComparison& row) {
  if (row.failures_decide) return {BriefKind::kFailures, "failures"};
  if (row.LacksSpread() && row.is_zero_everywhere) return {BriefKind::kUntested, "untested"};
  const char* name = stats::OutcomeName(row.outcome);
  if (row.IsDecided()) return {BriefKind::kDecided, name};
  return {row.outcome == stats::Outcome::kEquivalent ? BriefKind::kEquivalent : BriefKind::kUndecided, name};
}

// "at 4K", "at 1K and 2K", "from 1K to 8K"; "below" and "above" are where nothing but these is on that side of `named`.
std::string Where(const MeanRows& rows, const MeanRows& all, const MeanRows& named, const ReportData& data) {
  const auto length = [](const stats::SuiteComparison* row) { return row->context_length; };
  const auto label = [&](const stats::SuiteComparison* row) { return data.Length("", row->context_length); };
  if (rows.size() > 1 && !named.empty()) {
    const auto [low, high] = std::minmax_element(named.begin(), named.end(),
                                                 [&](const auto* a, const auto* b) { return length(a) < length(b); });
    const auto count = [&](const auto& is_there) { return std::count_if(all.begin(), all.end(), is_there); };
    if (length(rows.back()) < length(*low) &&
        count([&, end = length(*low)](const auto* row) { return length(row) < end; }) == std::ssize(rows))
      return "below";
    if (length(rows.front()) > length(*high) &&
        count([&, end = length(*high)](const auto* row) { return length(row) > end; }) == std::ssize(rows))
      return "above";
  }
  const auto is_between = [&](const auto* row) {
    return length(row) >= length(rows.front()) && length(row) <= length(rows.back());
  };
  if (rows.size() > 2 && std::count_if(all.begin(), all.end(), is_between) == std::ssize(rows))
    return absl::StrCat("from ", label(rows.front()), " to ", label(rows.back()));
  std::vector<std::string> labels;
  for (const auto* row : rows) labels.push_back(label(row));
  return absl::StrCat("at ", JoinWithAnd(labels));
}

// "worse at 4K, equivalent below": of these rows, `all` being those of the comparison.
std::string Clauses(const MeanRows& rows, const MeanRows& all, const ReportData& data) {
  std::map<std::pair<BriefKind, std::string>, MeanRows> groups;
  for (const auto* row : rows) groups[BriefKindOf(*row)].push_back(row);
  std::vector<std::pair<BriefKind, const MeanRows*>> order;
  for (const auto& [kind, group] : groups) order.emplace_back(kind.first, &group);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->front()->context_length) <
           std::pair(b.first, b.second->front()->context_length);
  });
  std::vector<std::string> clauses;
  MeanRows named;
  for (const auto& [kind, group] : order) {
    clauses.push_back(Sentence("brief_clause", {{"outcome", stats::OutcomeName(group->front()->outcome)},
                                                {"failures", kind == BriefKind::kFailures},
                                                {"untested", kind == BriefKind::kUntested},
                                                {"where", Where(*group, all, named, data)}}));
    named.insert(named.end(), group->begin(), group->end());
  }
  return absl::StrJoin(clauses, ", ");
}

double EmptyShare(const db::AnswerCounts& counts) {
  return counts.answered_count == 0 ? 0 : static_cast<double>(counts.empty_count) / counts.answered_count;
}

// What a length's outcome rests on: "at 8K baseline answers 55 of 240 with nothing, focal 3 of 240".
std::string LengthAnswersNote(const stats::SuiteComparison& row, const ReportData& data) {
  const std::vector<AnswerSides> sides = SidesOf(row, data.answers, data.tested);
  std::vector<std::string> behind;
  bool has_empty = false;
  for (const AnswersBehind& kind : KindsBehind(row, sides)) {
    has_empty |= (kind.marks & db::kEmptyAnswer) != 0;
    behind.push_back(kind.answers);
  }
  std::vector<const db::AnswerCounts*> ordered = {&sides.front().baseline, &sides.front().candidate};
  if (EmptyShare(*ordered[1]) > EmptyShare(*ordered[0])) std::swap(ordered[0], ordered[1]);
  std::vector<std::string> empty, failed;
  for (const db::AnswerCounts* side : ordered) {
    const std::string total = CountLabel(side->answered_count);
    if (side->empty_count > 0 && (has_empty || EmptyShare(*ordered[0]) >= kEmptyShareMin))
      empty.push_back(Sentence("brief_empty", {{"is_first", empty.empty()},
                                               {"variant", side->variant},
                                               {"count", CountLabel(side->empty_count)},
                                               {"total", total}}));
    if (side->failed_count > 0)
      failed.push_back(Sentence("brief_failed", {{"variant", side->variant},
                                                 {"count", CountLabel(side->failed_count)},
                                                 {"total", CountLabel(side->answered_count + side->failed_count)}}));
  }
  if (behind.empty() && empty.empty() && failed.empty()) return "";
  return Sentence("brief_note", {{"length", data.Length("", row.context_length)},
                                 {"empty", absl::StrJoin(empty, ", ")},
                                 {"failed", absl::StrJoin(failed, ", ")},
                                 {"outcome", stats::OutcomeName(row.outcome)},
                                 {"behind", absl::StrJoin(behind, " and ")}});
}

// "1.2 and 1.5 at 2K", values with the same lengths together.
std::string ValuesAt(const std::map<std::vector<std::string>, std::vector<std::string>>& values) {
  std::vector<std::string> parts;
  for (const auto& [lengths, of_lengths] : values)
    parts.push_back(absl::StrCat(JoinWithAnd(of_lengths), " at ", JoinWithAnd(lengths)));
  return absl::StrJoin(parts, ", ");
}

// "0.7 at 8K (confirmed: better on the other half)" of each chosen value.
std::string ChosenText(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data) {
  std::map<std::pair<double, std::string>, std::vector<std::string>> chosen;  // lengths by value and what came of it
  for (const stats::Choice& choice : choices) {
    const SweepPoint* point = PointOf(choice, sweep, data);
    if (point == nullptr) continue;
    const stats::SuiteComparison& row = choice.confirmation;
    const bool is_tested = !choice.is_baseline && !IsOpen(row) && !row.LacksSpread();
    const std::string status = Sentence("brief_chosen", {{"is_as_trained", point->is_as_trained},
                                                         {"is_baseline", choice.is_baseline},
                                                         {"is_better", row.outcome == stats::Outcome::kBetter},
                                                         {"is_tested", is_tested},
                                                         {"outcome", OutcomeLabel(row)}});
    chosen[{point->value, status}].push_back(data.Length("", row.context_length));
  }
  std::vector<std::string> parts;
  for (const auto& [value, lengths] : chosen)
    parts.push_back(absl::StrCat(value.first, " at ", JoinWithAnd(lengths), value.second));
  return absl::StrJoin(parts, ", ");
}

// "1K and 2K (3 of 5 tasks so far), 4K (1 of 5 tasks so far)".
std::string OpenText(const std::map<std::string, std::vector<std::string>>& lengths_by_note) {
  std::vector<std::string> parts;
  for (const auto& [note, lengths] : lengths_by_note) {
    parts.push_back(absl::StrCat(JoinWithAnd(lengths), " (", note, ")"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

Brief MakeBrief(const CandidateComparison& comparison, const ReportData& data) {
  Brief brief;
  const std::string yet = data.IsEnded() ? "" : " yet";
  if (comparison.report.suite.empty()) {
    std::vector<std::string> outcomes;
    for (const stats::Comparison& row : comparison.report.comparisons) {
      if (row.is_primary_metric) outcomes.push_back(OutcomeLabel(row));
    }
    brief.text = Sentence("brief_cells", {{"count", outcomes.empty() ? Json() : Json(outcomes.size())},
                                          {"is_one", outcomes.size() == 1},
                                          {"outcomes", OutcomeCounts(outcomes)},
                                          {"yet", yet}});
    brief.text = Capitalized(brief.text);
    return brief;
  }
  MeanRows all, within, beyond;
  std::map<std::string, std::vector<std::string>> open;  // lengths by what is missing
  for (const stats::SuiteComparison& row : comparison.report.suite) {
    if (IsOpen(row)) {
      open[DesignNote(row)].push_back(data.Length("", row.context_length));
      continue;
    }
    all.push_back(&row);
    (IsBeyondTraining(row, data) ? beyond : within).push_back(&row);
  }
  brief.text = Capitalized(Sentence("brief", {{"within", Clauses(within, all, data)},
                                              {"beyond", Clauses(beyond, all, data)},
                                              {"has_both", !within.empty() && !beyond.empty()},
                                              {"has_any", !all.empty()},
                                              {"yet", yet},
                                              {"open", OpenText(open)}}));
  brief.note = NothingToTell({&comparison.report}, data.answers, data.epochs.at(data.job.job_id).statistic);
  if (!brief.note.empty()) return brief;
  std::vector<std::string> notes;
  for (const auto* row : all) {
    std::string note = LengthAnswersNote(*row, data);
    if (!note.empty()) notes.push_back(std::move(note));
  }
  if (!notes.empty()) brief.note = absl::StrCat(Capitalized(absl::StrJoin(notes, "; ")), ".");
  return brief;
}

Brief MakeSweepBrief(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data) {
  std::map<stats::Outcome, std::map<std::vector<std::string>, std::vector<std::string>>> decided;
  bool has_open = false, has_other = false, has_row = false, is_alike = true;
  std::set<std::string> behind;
  std::vector<const stats::ComparisonReport*> reports;
  for (const SweepPoint& point : sweep.points) {
    const CandidateComparison* comparison = ComparisonFor(data, data.variants[point.variant_index].name);
    if (comparison == nullptr) continue;
    std::map<stats::Outcome, std::vector<std::string>> lengths;
    reports.push_back(&comparison->report);
    for (const stats::SuiteComparison& row : comparison->report.suite) {
      has_row = true;
      is_alike &= !row.is_unfinished && row.LacksSpread() && row.is_zero_everywhere;
      has_open |= row.is_unfinished;
      has_other |= !row.IsDecided();
      if (row.IsDecided()) lengths[row.outcome].push_back(data.Length("", row.context_length));
      for (const AnswersBehind& kind : KindsBehind(row, SidesOf(row, data.answers, data.tested)))
        behind.insert(absl::StrCat(SymbolOf(*sweep.setting), " = ", point.value, " at ",
                                   data.Length("", row.context_length), " (", kind.answers, ")"));
    }
    for (auto& [outcome, at] : lengths) decided[outcome][std::move(at)].push_back(absl::StrCat(point.value));
  }
  Brief brief;
  brief.text = Capitalized(
      Sentence("sweep_brief",
               {{"symbol", SymbolOf(*sweep.setting)},
                {"best", ChosenText(choices, sweep, data)},
                {"better", ValuesAt(decided[stats::Outcome::kBetter])},
                {"worse", ValuesAt(decided[stats::Outcome::kWorse])},
                {"has_other", has_other},
                {"has_row", has_row},
                {"is_alike", is_alike},
                {"is_decided", decided[stats::Outcome::kBetter].size() + decided[stats::Outcome::kWorse].size() > 0},
                {"has_open", has_open},
                {"yet", data.IsEnded() ? "" : " yet"}}));
  if (is_alike) {
    brief.note = NothingToTell(reports, data.answers, data.epochs.at(data.job.job_id).statistic,
                               absl::StrCat("all ", sweep.setting->plural));
  } else if (!behind.empty()) {
    brief.note = Sentence("sweep_brief_note", {{"list", JoinWithAnd({behind.begin(), behind.end()})}});
  }
  return brief;
}

std::string NothingToTell(const std::vector<const stats::ComparisonReport*>& reports, const AnswerTable& answers,
                          const db::EpochStatistic& statistic, const std::string& candidates) {
  if (statistic.kind != db::EpochStatistic::Kind::kMean) return "";  // answers are not all as their questions' values
  bool is_all_wrong = true, is_all_right = true, has_gold = false;
  std::string baseline, candidate = candidates;
  std::map<std::pair<std::string, int64_t>, db::AnswerCounts> counts;  // by variant and length
  for (const stats::ComparisonReport* report : reports) {
    has_gold |= HasGoldRows(*report);
    for (const stats::SuiteComparison& row : report->suite) {
      if (row.is_unfinished) return "";  // what is left may differ
      if (row.sample_count == 0) continue;
      is_all_wrong = is_all_wrong && row.baseline_mean <= 0 && row.candidate_mean <= 0;
      is_all_right = is_all_right && row.baseline_mean >= 1 && row.candidate_mean >= 1;
      if (!is_all_wrong && !is_all_right) return "";
      baseline = row.baseline;
      if (candidates.empty()) candidate = row.candidate;
      for (const std::string& variant : {row.baseline, row.candidate})
        counts[{variant, row.context_length}] = answers.Of(variant, "", row.context_length);
    }
  }
  int64_t total = 0, cut = 0, empty = 0;
  for (const auto& [cell, of_cell] : counts) {
    total += of_cell.answered_count;
    cut += of_cell.cut_count;
    empty += of_cell.empty_count;
  }
  if (total == 0) return "";
  const auto percent = [&](int64_t count) { return count == 0 ? "" : absl::StrCat((100 * count + total / 2) / total); };
  return Sentence(is_all_right ? "everything_right" : "nothing_right", {{"baseline", baseline},
                                                                        {"candidate", candidate},
                                                                        {"has_gold", has_gold},
                                                                        {"count", CountLabel(total)},
                                                                        {"cut", percent(cut)},
                                                                        {"empty", percent(empty)}});
}

std::string ContextsText(const ReportData& data) {
  std::set<int64_t> counts;
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const stats::SuiteComparison& row : comparison.report.suite) counts.insert(row.cluster_count);
  }
  if (counts.empty()) return "";
  return Sentence("contexts_at", {{"least", CountLabel(*counts.begin())},
                                  {"most", counts.size() == 1 ? "" : CountLabel(*counts.rbegin())},
                                  {"is_one", *counts.rbegin() == 1}});
}

std::string ColourOutcomes(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const char* outcome : {"better", "worse", "equivalent", "undecided"}) {
    for (const std::string& word : {std::string(outcome), Capitalized(outcome)})
      words.emplace_back(word, absl::StrCat("<b class=\"", outcome, "\">", word, "</b>"));
  }
  return absl::StrReplaceAll(EscapeHtml(text), words);
}

}  // namespace varifocal::report

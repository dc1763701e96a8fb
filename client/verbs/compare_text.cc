// The text that `varifocal compare` prints: a table, its notes, and templates/compare_notes.txt.
#include "client/verbs/compare_text.h"

#include <ostream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/plural.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/epochs_note.h"
#include "client/report/data/group_table.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/text_format.h"
#include "client/report/data/thinking_table.h"
#include "client/report/page/brief.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "client/rows.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

namespace varifocal::client {
namespace {

std::string Mean(double value) { return absl::StrFormat("%.3f", report::ForRounding(value)); }
std::string Signed(double value) { return absl::StrFormat("%+.3f", report::ForRounding(value)); }
std::string Bounds(double low, double high) { return absl::StrCat("[", Signed(low), ", ", Signed(high), "]"); }
// "+12.3 % [+1.0, +25.1]"; the range only where the difference has one.
template <typename Row>
std::string Relative(const Row& row) {
  if (!row.relative.has_value()) return "";
  const auto percent = [](double share) { return absl::StrFormat("%+.1f", report::ForRounding(100 * share)); };
  return absl::StrCat(
      percent(row.relative.gain), " %",
      row.HasInterval() ? absl::StrCat(" [", percent(row.relative.low), ", ", percent(row.relative.high), "]") : "");
}

// Labels that the text of a row has in another form: the name of the metric, the number of truncated prompts.
bool IsSaidOtherwise(const std::string& label) {
  return label == stats::kSecondaryLabel || label == stats::kTruncatedLabel;
}

// The notes at the end of a text row.
std::string Marks(std::vector<std::string> labels, int64_t failed_count, const std::string& counts,
                  const std::string& note) {
  std::erase_if(labels, IsSaidOtherwise);
  if (failed_count > 0) labels.push_back(absl::StrCat(failed_count, " failed"));
  if (!counts.empty()) labels.push_back(counts);
  if (!note.empty()) labels.push_back(note);
  return absl::StrJoin(labels, ", ");
}

// The adjusted interval.
std::string Bounds(const stats::Inference& row) {
  return row.HasInterval() ? Bounds(row.adjusted_low, row.adjusted_high) : "";
}

std::string Detectable(const stats::Inference& row) {
  if (!row.HasInterval()) return "";
  return row.detectable_difference.has_value() ? Mean(*row.detectable_difference) : "none";
}

// Why a row has no verdict, a weak one or no interval.
template <typename Row>
std::string Note(const Row& row) {
  const std::string design = report::DesignNote(row);
  return design.empty() && row.is_zero_everywhere ? report::UntestedNote(row) : design;
}

// Of the two jobs, or of the one.
Json EpochNotes(const report::ResultContext& context) {
  const bool is_one_job = context.baseline_job == context.candidate_job;
  Json notes = Json::array();
  const auto add = [&](int64_t job, const db::JobEpochs& epochs) {
    Json note = report::EpochsNote(epochs, is_one_job ? "" : absl::StrCat("Job ", job, ": "));
    if (!note.is_null()) notes.push_back(std::move(note));
  };
  add(context.baseline_job, context.baseline_epochs);
  if (!is_one_job) add(context.candidate_job, context.candidate_epochs);
  return notes;
}

// Advice on missing samples.
std::string Resume(const ComparedSides& sides) {
  std::vector<std::string> commands;
  for (int i = 0; i < 2; ++i) {
    const std::string command = absl::StrCat("`varifocal resume jobs/", sides.keys[i].job_id, "`");
    if (!db::IsImported(sides.variants[i]) && (commands.empty() || commands[0] != command)) commands.push_back(command);
  }
  std::string remedy;
  if (!commands.empty()) {
    remedy =
        absl::StrCat("; ", absl::StrJoin(commands, " and "), commands.size() > 1 ? " ask" : " asks", " them again");
  }
  if (!sides.Imported().empty()) remedy += "; a prompt that has no imported answer stays failed";
  return remedy;
}

// The origin of the answers, for templates/compare_notes.txt.
void AddPairing(const stats::ComparisonReport& report, const ComparedSides& sides, Json& notes) {
  for (int i = 0; i < 2; ++i) {
    if (!db::IsImported(sides.variants[i])) continue;
    notes["imported"].push_back({{"variant", absl::StrCat(sides.keys[i].name, " (jobs/", sides.keys[i].job_id, ")")},
                                 {"sha256", report::ShortHash(sides.variants[i].model.weights_sha256)}});
  }
  if (!report.is_across_jobs) return;
  notes["across_jobs"] = {{"paired_count", WithThousands(report.paired_count)},
                          {"is_one", report.paired_count == 1},
                          {"baseline_left_out_count", WithThousands(report.baseline_left_out_count)},
                          {"candidate_left_out_count", WithThousands(report.candidate_left_out_count)},
                          {"baseline_job", sides.keys[0].job_id},
                          {"candidate_job", sides.keys[1].job_id},
                          {"other_settings", absl::StrJoin(report.tasks_with_other_settings, ", ")}};
}

// How the difference of the means over tasks depends on the length.
Json Contrasts(const stats::ComparisonReport& report, const report::ResultContext& context) {
  Json contrasts = Json::array();
  for (const stats::LengthContrast& contrast : report.contrasts) {
    if (!contrast.task.empty() || !contrast.HasInterval()) continue;
    std::vector<std::string> between;
    for (const auto& [length, row] : report::UnsteadyRows(report, contrast)) {
      between.push_back(absl::StrCat("at ", report::ExactLengthLabel(*context.tested, "", length),
                                     " the difference is ", Signed(row->difference), " (", report::OutcomeLabel(*row),
                                     ")"));
    }
    contrasts.push_back(
        {{"is_slope", contrast.kind == stats::LengthContrast::Kind::kSlope},
         {"short", report::ExactLengthLabel(*context.tested, "", contrast.short_length)},
         {"long", report::ExactLengthLabel(*context.tested, "", contrast.long_length)},
         {"difference", Signed(contrast.difference)},
         {"bounds", Bounds(contrast.adjusted_low, contrast.adjusted_high)},
         {"p_value", PText(contrast.p_value)},
         {"p_adjusted", PText(contrast.p_adjusted)},
         {"test_count", contrast.test_count},
         {"is_one", contrast.test_count == 1},
         {"between", absl::StrJoin(between, ", ")},
         {"rests", report::RestsNote(contrast, report::SidesOf(contrast, *context.answers, *context.tested), 1, 3)}});
  }
  return contrasts;
}

void PrintGroups(const report::GroupTable& groups, const std::vector<std::string>& variants, Console& console) {
  const std::vector<std::vector<std::string>> rows = groups.Rows(variants);
  if (rows.empty()) return;
  std::vector<std::string> titles = report::GroupTable::Titles();
  for (std::string& title : titles) absl::AsciiStrToLower(&title);
  console.out << "\nToken groups:\n\n"
              << AlignedTable(console, titles, {false, false, true, false, false, true, true, true, true}, rows);
}

void PrintThinking(const report::ThinkingTable& thinking, const std::vector<std::string>& variants, Console& console) {
  const std::vector<std::vector<std::string>> rows = thinking.Rows(variants);
  if (rows.empty()) return;
  std::vector<std::string> titles = report::ThinkingTable::Titles();
  for (std::string& title : titles) absl::AsciiStrToLower(&title);
  console.out << "\nThinking:\n\n" << AlignedTable(console, titles, {false, true, true, true, true, true}, rows);
}

}  // namespace

void PrintComparison(const stats::ComparisonReport& report, const ComparedSides& sides,
                     const report::ResultContext& context, const ComparisonText& text, Console& console) {
  const std::vector<stats::Comparison>& rows = report.comparisons;
  console.out << Styled(console, Style::kBold, absl::StrCat(rows.front().candidate, " against ", rows.front().baseline))
              << (text.metric.empty() ? "" : absl::StrCat(" by ", text.metric)) << " (" << sides.Jobs()
              << "); differences are candidate minus baseline, intervals 95 %\n\n";
  if (report::IsSameFunction(sides.variants[0], sides.variants[1])) {
    console.out << report::Sentence("same_model",
                                    {{"baseline", rows.front().baseline}, {"candidate", rows.front().candidate}})
                << "\n\n";
  }
  std::vector<std::vector<std::string>> cells;
  bool has_several_metrics = false, is_near_zero = false, has_no_detectable = false;
  bool is_small = false;
  bool has_worst_value = false, has_none = false;  // a metric with a margin has both ends
  std::set<std::string> labels_seen;
  db::AnswerCounts seen;
  for (const stats::Comparison& row : rows) (row.margin.has_value() ? has_worst_value : has_none) = true;
  for (const stats::Comparison& row : rows)
    has_several_metrics |= !row.is_primary_metric && (text.all_metrics || !report::IsLogLikelihood(row.metric));
  const auto add = [&](const std::string& name, const auto& row, const std::string& task) {
    std::vector<std::string> counts;
    for (const std::string& variant : {row.baseline, row.candidate}) {
      const db::AnswerCounts answers = context.answers->Of(variant, task, row.context_length);
      for (const db::AnswerKind& kind : db::kAnswerKinds) seen.*kind.count += answers.*kind.count;
      const std::string note = report::CountsNote(answers, /*with_failed=*/false);
      if (!note.empty()) counts.push_back(absl::StrCat(variant, " ", note));
    }
    const std::vector<std::string> labels = report::RowLabels(row, context);
    labels_seen.insert(labels.begin(), labels.end());
    has_no_detectable |= Detectable(row) == "none";
    is_small |= row.IsWithinMargin();
    is_near_zero |= row.relative.problem == stats::RelativeGainProblem::kBaselineNearZero;
    cells.push_back({name, report::ExactLengthLabel(*context.tested, task, row.context_length), Mean(row.baseline_mean),
                     Mean(row.candidate_mean), Signed(row.difference), Bounds(row), Relative(row),
                     row.can_infer ? PText(row.p_value) : "", row.can_infer ? PText(row.p_adjusted) : "",
                     report::OutcomeLabel(row), Detectable(row), absl::StrCat(row.sample_count, "/", row.cluster_count),
                     Marks(labels, row.failed_count, absl::StrJoin(counts, ", "), Note(row))});
  };
  for (const stats::Comparison& row : rows) {
    if (report::IsLogLikelihood(row.metric)) {  // text output shows a perplexity, and the ratio of two
      const report::PerplexityRow perplexity = report::PerplexityOf(row);
      const std::vector<std::string> labels = report::RowLabels(row, context);
      labels_seen.insert(labels.begin(), labels.end());
      cells.push_back({absl::StrCat(row.task, " perplexity"),
                       report::ExactLengthLabel(*context.tested, row.task, row.context_length), perplexity.baseline,
                       perplexity.candidate, perplexity.ratio,
                       row.can_infer ? absl::StrCat("[", perplexity.low, ", ", perplexity.high, "]") : "", "",
                       row.can_infer ? PText(row.p_value) : "", row.can_infer ? PText(row.p_adjusted) : "",
                       report::OutcomeLabel(row), "", absl::StrCat(row.sample_count, "/", row.cluster_count),
                       Marks(labels, row.failed_count, "", report::DesignNote(row))});
      if (!text.all_metrics && text.metric.empty()) continue;
    }
    add(has_several_metrics ? absl::StrCat(row.task, " ", row.metric) : row.task, row, row.task);
  }
  for (const stats::SuiteComparison& row : report.suite) add("all tasks", row, "");
  const std::string nothing_to_tell =
      report::NothingToTell({&report}, *context.answers, context.baseline_epochs.statistic);
  if (!nothing_to_tell.empty()) console.out << nothing_to_tell << "\n\n";
  console.out << AlignedTable(console,
                              {"task", "length", "baseline", "candidate", "difference", "interval", "relative gain",
                               "p", "p adjusted", "outcome", "detectable", "n/clusters", ""},
                              {false, true, true, true, true, true, true, true, true, false, true, true, false}, cells);
  PrintGroups(*context.groups, {rows.front().baseline, rows.front().candidate}, console);
  PrintThinking(*context.thinking, {rows.front().baseline, rows.front().candidate}, console);
  const bool is_max_t = !report.suite.empty() && report.suite.front().is_max_t;
  const auto counted = [](int64_t count, const char* one, const char* several) {
    return absl::StrCat(count, Plural(count, one, several));
  };
  Json notes = {
      {"epochs", EpochNotes(context)},
      {"prompt_lengths", report::LengthNotes(*context.tested)},
      {"contrasts", Contrasts(report, context)},
      {"is_max_t", is_max_t},
      {"cells", rows.front().is_primary_metric ? counted(rows.front().test_count, " cell", " cells")
                                               : counted(rows.front().test_count, " other cell", " other cells")},
      {"has_margin", has_worst_value},
      {"margin", absl::StrCat(NumberText(text.margin), text.margin == 1 ? " point" : " points")},
      {"is_small", is_small},
      {"is_waiting_for_max_t", text.is_max_t_asked && !is_max_t && !report.suite.empty()},
      {"is_near_zero", is_near_zero},
      {"baseline", rows.front().baseline},
      {"candidate", rows.front().candidate},
      {"tokenizers_differ", report.tokenizers_differ},
      {"has_no_detectable", has_no_detectable},
      {"complete", OrNull(sides.complete_job)}};
  AddPairing(report, sides, notes);
  for (const stats::SuiteComparison& row : report.suite) {
    const std::string enough = report::EnoughNote(row, 1, 3, 0.95);
    if (!enough.empty())
      notes["enough"].push_back(
          {{"length", report::ExactLengthLabel(*context.tested, "", row.context_length)}, {"text", enough}});
    if (row.by_seed.size() < 2) continue;
    notes["seeds"].push_back({{"length", report::ExactLengthLabel(*context.tested, "", row.context_length)},
                              {"seed_count", row.by_seed.size()},
                              {"spread", report::SeedSpread(row.by_seed, 1, 3)}});
  }
  if (!report.suite.empty()) notes["means"] = counted(report.suite.front().test_count, " mean", " means");
  if (report.is_incomplete) {
    notes["incomplete"] = true;
    notes["has_worst_value"] = has_worst_value;
    notes["lacks_worst_value"] = has_none;
    notes["remedy"] = Resume(sides);
  }
  for (const stats::Label& label : stats::LabelTable()) {
    if (labels_seen.contains(label.word) && !IsSaidOtherwise(label.word))
      notes["labels"].push_back({{"word", label.word}, {"sentence", label.sentence}});
  }
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if (seen.*kind.count > 0) notes["kinds"].push_back({{"name", kind.name}, {"meaning", kind.meaning}});
  }
  console.out << "\n" << report::FillTemplate("compare_notes.txt", notes);
}

}  // namespace varifocal::client

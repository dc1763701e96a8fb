#include "client/report/page/score_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/columns.h"
#include "client/report/data/group_table.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/text_format.h"
#include "client/report/page/caveats.h"
#include "client/report/page/group_section.h"
#include "client/report/page/plain_table.h"
#include "client/report/page/template.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

namespace varifocal::report {
namespace {

struct ScoreRow {
  const ReportData* data;
  const stats::Estimate* estimate;
};

std::vector<ScoreRow> ScoreRows(const ReportData& data) {
  std::vector<ScoreRow> rows;
  for (const stats::Estimate& estimate : data.estimates) rows.push_back({&data, &estimate});
  return rows;
}

bool IsPrimary(const ScoreRow& row) {
  return row.data->metric(row.estimate->task, row.estimate->metric).metric_index == 0;
}

db::AnswerCounts Answers(const ScoreRow& row) {
  return row.data->answers.Of(row.estimate->variant, row.estimate->task, row.estimate->context_length);
}

stats::TestedLength TestedOf(const ScoreRow& row) {
  return row.data->tested.At(row.estimate->task, row.estimate->context_length);
}

std::vector<std::string> Labels(const ScoreRow& row) {
  const db::VariantRecord& variant = row.data->variant(row.estimate->variant);
  stats::LabelledRow labelled;
  labelled.is_secondary = !IsPrimary(row);
  labelled.is_incomplete = row.estimate->is_incomplete;
  labelled.is_imported = db::IsImported(variant);
  labelled.is_endpoint = db::IsEndpoint(variant);
  labelled.sides = {Answers(row)};
  return stats::LabelsOf(labelled);
}

std::optional<GroupShares> Groups(const ScoreRow& row) {
  return row.data->groups.Of(row.estimate->variant, row.estimate->task, row.estimate->context_length);
}

std::optional<db::ThinkingCostRow> Thinking(const ScoreRow& row) {
  return row.data->thinking.Of(row.estimate->variant, row.estimate->task, row.estimate->context_length);
}

std::optional<stats::Interval> IntervalOf(const ScoreRow& row) { return row.estimate->interval; }

// A number that not every row has.
template <auto Find, auto Number>
Json FieldOrNull(const ScoreRow& row) {
  const auto found = Find(row);
  return found ? OrNull(std::optional<double>((*found).*Number)) : Json();
}

// The place of a count that programs know: RowsWithCounts has its value.
Json CountedBelow(const ScoreRow&) { return Json(); }

constexpr Column<ScoreRow> kScoreColumns[] = {
    {"job_id", [](const ScoreRow& row) -> Json { return row.data->job.job_id; }},
    {"task", [](const ScoreRow& row) -> Json { return row.estimate->task; }},
    {"metric", [](const ScoreRow& row) -> Json { return row.estimate->metric; }},
    {"is_primary_metric", [](const ScoreRow& row) -> Json { return IsPrimary(row); }},
    {"context_length", [](const ScoreRow& row) -> Json { return TestedOf(row).Tokens(); }},
    {"variant", [](const ScoreRow& row) -> Json { return row.estimate->variant; }},
    {"planned_count", [](const ScoreRow& row) -> Json { return row.estimate->planned_count; }},
    {"answered_count", [](const ScoreRow& row) -> Json { return row.estimate->answered_count; }},
    {"failed_count", [](const ScoreRow& row) -> Json { return row.estimate->failed_count; }},
    {"empty_count", &CountedBelow},
    {"refused_count", &CountedBelow},
    {"cut_count", &CountedBelow},
    {"truncated_count", &CountedBelow},
    {"cluster_count", [](const ScoreRow& row) -> Json { return row.estimate->cluster_count; }},
    {"mean", [](const ScoreRow& row) -> Json { return OrNull(row.estimate->mean); }},
    {"low", &FieldOrNull<&IntervalOf, &stats::Interval::low>},
    {"high", &FieldOrNull<&IntervalOf, &stats::Interval::high>},
    {"mean_answered", [](const ScoreRow& row) -> Json { return OrNull(row.estimate->mean_answered); }},
    {"labels", [](const ScoreRow& row) -> Json { return absl::StrJoin(Labels(row), " "); }},
    {"focus_attention",
     [](const ScoreRow& row) -> Json {
       const Json setting = row.data->groups.Setting(row.estimate->variant);
       return setting.is_null() ? Json() : Json(setting.dump());
     }},
    {"pairs_visible", &FieldOrNull<&Groups, &GroupShares::pairs_visible>},
    {"largest_group", &FieldOrNull<&Groups, &GroupShares::largest_group>},
    {"prompt_tokens_min",
     [](const ScoreRow& row) -> Json {
       return TestedOf(row).tokens_max > 0 ? Json(TestedOf(row).tokens_min) : Json();
     }},
    {"prompt_tokens_max",
     [](const ScoreRow& row) -> Json {
       return TestedOf(row).tokens_max > 0 ? Json(TestedOf(row).tokens_max) : Json();
     }},
    {"nominal_lengths", [](const ScoreRow& row) -> Json { return absl::StrJoin(TestedOf(row).nominal, " "); }},
    {"unfinished_count", &CountedBelow},
    {"thinking_count", &CountedBelow},
    {"thinking_tokens", &FieldOrNull<&Thinking, &db::ThinkingCostRow::thinking_tokens>},
    {"answer_tokens", &FieldOrNull<&Thinking, &db::ThinkingCostRow::answer_tokens>},
    {"tokens_per_right", &FieldOrNull<&Thinking, &db::ThinkingCostRow::tokens_per_right>},
    {"epochs", [](const ScoreRow& row) -> Json { return row.data->epochs.at(row.data->job.job_id).count; }},
    {"epochs_statistic",
     [](const ScoreRow& row) -> Json {
       const db::JobEpochs& epochs = row.data->epochs.at(row.data->job.job_id);
       return epochs.count > 1 ? Json(epochs.statistic.Name()) : Json();
     }},
    {"unextracted_count", &CountedBelow},
};

std::vector<std::string> ScoreKeys() {
  std::vector<std::string> keys;
  for (const Column<ScoreRow>& column : kScoreColumns) keys.push_back(column.name);
  AddCountKeys("", keys);
  return keys;
}

std::vector<Json> RowsWithCounts(const ReportData& data) {
  const std::vector<ScoreRow> rows = ScoreRows(data);
  std::vector<Json> objects = RowsAsJson(kScoreColumns, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const db::AnswerKind& kind : db::kAnswerKinds)
      objects[i][absl::StrCat(kind.name, "_count")] = Answers(rows[i]).*kind.count;
  }
  return objects;
}

// Those that any row has: columns of the Markdown table.
std::vector<const db::AnswerKind*> KindsThere(const ReportData& data) {
  std::vector<const db::AnswerKind*> kinds;
  const std::vector<ScoreRow> rows = ScoreRows(data);
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if (std::any_of(rows.begin(), rows.end(), [&](const ScoreRow& row) { return Answers(row).*kind.count > 0; }))
      kinds.push_back(&kind);
  }
  return kinds;
}

// The formatted fields of a row.
struct ScoreCells {
  std::string metric, length, counted, answered, clusters, failed, kinds;
  std::optional<db::AnswerCounts> counts;  // none below the row that they are of
  std::string mean = kNoValue, range = kNoValue, labels;
};

ScoreCells MakeScoreCells(const ScoreRow& row) {
  const stats::Estimate& estimate = *row.estimate;
  const bool is_share = IsShare(row.data->metric(estimate.task, estimate.metric));
  const double scale = is_share ? 100 : 1;
  const int decimals = is_share ? 1 : 3;
  ScoreCells cells;
  cells.metric = absl::StrCat(estimate.metric, is_share ? ", %" : "");
  cells.length = row.data->Length(estimate.task, estimate.context_length);
  cells.counted = CountLabel(estimate.answered_count + estimate.failed_count);
  cells.answered = CountLabel(estimate.answered_count);
  cells.clusters = CountLabel(estimate.cluster_count);
  cells.failed = CountLabel(estimate.failed_count);
  cells.counts = Answers(row);
  cells.kinds = CountsNote(*cells.counts);
  if (estimate.mean.has_value()) cells.mean = Unsigned(*estimate.mean * scale, decimals);
  if (estimate.interval.has_value()) {
    cells.range = absl::StrCat(Unsigned(estimate.interval->low * scale, decimals), " to ",
                               Unsigned(estimate.interval->high * scale, decimals));
  }
  cells.labels = absl::StrJoin(Labels(row), ", ");
  return cells;
}

// The row below one of log-likelihoods, with the equivalent perplexity.
std::optional<ScoreCells> PerplexityCells(const ScoreRow& row) {
  const stats::Estimate& estimate = *row.estimate;
  if (!IsLogLikelihood(estimate.metric) || !estimate.mean.has_value() || !estimate.interval.has_value())
    return std::nullopt;
  ScoreCells cells;
  cells.metric = "perplexity";
  cells.length = row.data->Length(estimate.task, estimate.context_length);
  const stats::Interval interval = PerplexityInterval(*estimate.interval);
  cells.mean = PerplexityLabel(Perplexity(*estimate.mean));
  cells.range = absl::StrCat(PerplexityLabel(interval.low), " to ", PerplexityLabel(interval.high));
  cells.labels = "exp(\u2212mean of the row above)";
  return cells;
}

// Every row, and the perplexity below those that have one.
template <typename Use>
void ForEachScoreRow(const ReportData& data, Use use) {
  for (const ScoreRow& row : ScoreRows(data)) {
    use(row, MakeScoreCells(row));
    if (const std::optional<ScoreCells> perplexity = PerplexityCells(row)) use(row, *perplexity);
  }
}

std::string ScoreNote(const ReportData& data) {
  Json sources = Json::array();
  for (const Label& label : SourceLabels(data)) sources.push_back(label.explanation);
  const std::string note = Sentence("score_note", {{"has_worst_value", data.HasWorstValue()},
                                                   {"lacks_worst_value", data.LacksWorstValue()},
                                                   {"sources", std::move(sources)}});
  return note + LengthNote(data.tested);
}

}  // namespace

std::string ScoreTableCsv(const ReportData& data) { return RowsAsCsv(ScoreKeys(), RowsWithCounts(data)); }
std::vector<Json> ScoreTableJson(const ReportData& data) { return RowsWithCounts(data); }

std::string ScoreTableHtml(const ReportData& data) {
  std::string out =
      absl::StrCat(ScrollBegin("Every score"),
                   "<table class=\"data\"><thead><tr><th>Task, metric</th><th>Length</th>"
                   "<th class=\"n\">Answered<small>kinds of answers</small></th><th class=\"n\">Clusters</th><th "
                   "class=\"n\">Mean<small>",
                   ConfidenceLabel(data.confidence), " interval</small></th><th>Notes</th></tr></thead><tbody>\n");
  ForEachScoreRow(data, [&](const ScoreRow& row, const ScoreCells& cells) {
    absl::StrAppend(&out, "<tr><td>", EscapeHtml(row.estimate->task), "<small>", EscapeHtml(cells.metric),
                    "</small></td><td>", cells.length, "</td><td class=\"n\">", cells.answered, "<small>", cells.kinds,
                    "</small></td><td class=\"n\">", cells.clusters, "</td><td class=\"n\">", cells.mean, "<small>",
                    cells.range, "</small></td><td>", cells.labels, "</td></tr>\n");
  });
  return absl::StrCat(out, "</tbody></table></div>\n<p class=\"note\">", EscapeHtml(ScoreNote(data)), "</p>\n");
}

std::string ScoreTableMarkdown(const ReportData& data) {
  const std::vector<const db::AnswerKind*> kinds = KindsThere(data);
  std::string out = "| Task | Metric | Length | Variant | n | Clusters | Failed |";
  for (const db::AnswerKind* kind : kinds) absl::StrAppend(&out, " ", Capitalized(kind->name), " |");
  absl::StrAppend(&out, " Mean | ", ConfidenceLabel(data.confidence),
                  " interval | Notes |\n| --- | --- | ---: | --- | ---: | ---: | ---: |");
  for (size_t i = 0; i < kinds.size(); ++i) out += " ---: |";
  out += " ---: | --- | --- |\n";
  ForEachScoreRow(data, [&](const ScoreRow& row, const ScoreCells& cells) {
    absl::StrAppend(&out, "| ", EscapeMarkdownCell(row.estimate->task), " | ", EscapeMarkdownCell(cells.metric), " | ",
                    cells.length, " | ", EscapeMarkdownCell(row.estimate->variant), " | ", cells.counted, " | ",
                    cells.clusters, " | ", cells.failed, " |");
    for (const db::AnswerKind* kind : kinds)
      absl::StrAppend(&out, " ", cells.counts ? CountLabel((*cells.counts).*kind->count) : "", " |");
    absl::StrAppend(&out, " ", cells.mean, " | ", cells.range, " | ", cells.labels, " |\n");
  });
  return absl::StrCat(out, "\n", ScoreNote(data), "\n", GroupTableMarkdown(data.groups, data.VariantNames()),
                      PlainTableMarkdown(ThinkingCosts(data)), PlainTableMarkdown(ScoreAgreement(data)));
}

std::string ScoreTableLatex(const ReportData& data) {
  std::string out =
      "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\\small\n\\begin{tabular}{lrrrrl}\n\\toprule\n"
      "Task & Length & $n$ & failed & mean & interval \\\\\n\\midrule\n";
  ForEachScoreRow(data, [&](const ScoreRow& row, const ScoreCells& cells) {
    if (!IsPrimary(row)) return;
    absl::StrAppend(&out, EscapeLatex(row.estimate->task), " & ", cells.length, " & ", cells.counted, " & ",
                    cells.failed, " & ", EscapeLatex(cells.mean), " & ",
                    cells.range == kNoValue ? kNoValueLatex : EscapeLatex(cells.range), " \\\\\n");
  });
  const std::string caption = Sentence(
      "scores_table_caption",
      {{"baseline", data.baseline}, {"confidence", ConfidenceLabel(data.confidence)}, {"note", ScoreNote(data)}});
  return absl::StrCat(out, "\\bottomrule\n\\end{tabular}\n\\caption{", EscapeLatex(caption), "}\n\\end{table}\n");
}

}  // namespace varifocal::report

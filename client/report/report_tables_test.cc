// The tables of the report in CSV, JSON, Markdown and LaTeX, of one job and of two.

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/report/data/report_data.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/inference_cells.h"
#include "db/answer_kinds.h"
#include "db/fakes/fake_results.h"
#include "db/stats/family.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

// Candidate / baseline - 1: at 8K sharp has three times the baseline's mean.
TEST_F(ReportTest, RelativeGainBesideTheDifference) {
  MakePlain();
  int decided = 0;
  const Json rows = ComparisonRows();
  for (const Json& row : rows) {
    if (row["kind"] == "contrast" || row["kind"] == "slope") {
      EXPECT_EQ(row["relative_gain"], nullptr);
      continue;
    }
    EXPECT_EQ(row["relative_problem"], nullptr) << row.dump();
    const double baseline = row["baseline_mean"].get<double>(), difference = row["difference"].get<double>();
    EXPECT_NEAR(row["relative_gain"].get<double>(), difference / baseline, 1e-12);
    const bool leaves_out_zero = row["low"].get<double>() > 0 || row["high"].get<double>() < 0;
    EXPECT_EQ(row["relative_low"].get<double>() > 0 || row["relative_high"].get<double>() < 0, leaves_out_zero);
    decided += leaves_out_zero;
  }
  EXPECT_GT(decided, 3);
  EXPECT_THAT(Render(ReportFormat::kMarkdown),
              testing::ContainsRegex("\\| 8K \\| sharp \\| .*\\+[0-9.]+ % \\(\\+[0-9.]+ to "));
  EXPECT_THAT(Render(), HasSubstr("<th class=\"n minor\">Relative gain<small>95 % interval</small></th>"));
}

// The same adjustment as `compare --adjust=max-t`, named in every format.
TEST_F(ReportTest, MaxTAdjustsTheMeansOverTasks) {
  MakePlain();
  const Json holm = ComparisonRows();
  with_max_t_ = true;
  const Json rows = ComparisonRows();
  ASSIGN_OR_FAIL(auto reader, db::Reader::Open(path_));
  stats::CompareOptions options;
  options.with_max_t = true;
  ASSIGN_OR_FAIL(const auto family, stats::CompareFamily(*reader, {1, "baseline"}, {{1, "sharp"}}, options));
  size_t means = 0, lower = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["adjustment"], rows[i]["kind"] == "suite_mean" ? "max_t" : "holm");
    if (rows[i]["kind"] != "suite_mean") continue;
    lower += rows[i]["p_adjusted"].get<double>() < holm[i]["p_adjusted"].get<double>();
    if (rows[i]["candidate"] != "sharp") continue;
    EXPECT_EQ(rows[i]["p_adjusted"].get<double>(), family[0].report.suite[means++].p_adjusted);
  }
  EXPECT_EQ(means, 4u);
  EXPECT_GT(lower, 0u);
  EXPECT_THAT(Render(ReportFormat::kMarkdown), MessageIn("max-t", "Holm"));
  EXPECT_THAT(Render(ReportFormat::kLatex), MessageIn("max-t", "8 tests"));
  EXPECT_THAT(Render(), MessageIn("max-t", "Holm", "outcome"));
}

TEST_F(ReportTest, MaxTWaitsForTheLastAnswer) {
  Make({.question_count = 8, .answered_of_last_length = 4});
  with_max_t_ = true;
  EXPECT_THAT(Render(ReportFormat::kMarkdown), MessageIn("Holm", "max-t"));
  const Json rows = ComparisonRows();
  for (const Json& row : rows) EXPECT_EQ(row["adjustment"], "holm");
}

// The baseline has 100 % at 1K, 79 % at 2K, 40 % at 4K and 21 % at 8K; sharp is above it from 4K on.
TEST_F(ReportTest, EffectiveContextLength) {
  MakePlain();
  const auto mean = [&](const std::string& variant) {
    for (const Json& row : RowsOf("effective_length", Render(ReportFormat::kJson))) {
      if (row["variant"] == variant && row["task"].is_null()) return row;
    }
    return Json();
  };
  EXPECT_EQ(mean("baseline")["context_length"], 1024);
  EXPECT_EQ(mean("baseline")["threshold_share"], 0.85);
  EXPECT_EQ(mean("baseline")["tested_lengths"], Json({1024, 2048, 4096, 8192}));
  EXPECT_THAT(Render(), HasSubstr("<h2>Effective context length</h2>"));
  effective_score_ = 0.58;
  const Json baseline = mean("baseline"), sharp = mean("sharp");
  EXPECT_EQ(baseline["context_length"], 2048);
  EXPECT_EQ(baseline["threshold"], 0.58);
  EXPECT_EQ(baseline["threshold_share"], nullptr);
  EXPECT_EQ(sharp["context_length"], 8192);
  EXPECT_EQ(sharp["label"], "at least 8K");
  EXPECT_EQ(sharp["low"], 4096);
  EXPECT_EQ(sharp["interval"], "4K to at least 8K");
  EXPECT_THAT(Render(ReportFormat::kMarkdown),
              MessageIn("| sharp | ", " tasks | 100.0 | 58.0 | at least 8K | 4K to at least 8K |"));
  EXPECT_THAT(Render(), MessageIn("58.0 %"));
}

TEST_F(ReportTest, RulersPublishedLengthStandsBesideOurs) {
  Make({.metric = "ruler/string_match_all"});
  const auto of_rule = [&] {
    std::vector<Json> found = RowsOf("effective_length", Render(ReportFormat::kJson));
    std::erase_if(found, [](const Json& row) { return !row.contains("rule"); });
    return found;
  };
  const std::vector<Json> rows = of_rule();
  ASSERT_EQ(rows.size(), 3u) << "one a variant";
  EXPECT_EQ(rows[0]["rule"], "ruler");
  EXPECT_EQ(rows[0]["threshold"], 0.856);
  EXPECT_EQ(rows[0]["threshold_share"], nullptr);
  EXPECT_EQ(rows[0]["context_length"], 1024);
  EXPECT_THAT(Render(ReportFormat::kMarkdown), MessageIn("| baseline | ", ", RULER's rule | 100.0 | 85.6 |"));
  EXPECT_THAT(Render(), MessageIn("85.6 %", "13 tasks", "2 of them"));
  effective_score_ = 0.5;
  EXPECT_TRUE(of_rule().empty()) << "which is a threshold of the reader's own";
}

TEST_F(ReportTest, NoEffectiveLengthBeforeTheLastAnswer) {
  Make({.question_count = 8, .answered_of_last_length = 4});
  EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr("| baseline | recall_kv | \u2014 | \u2014 | unfinished |  |"));
}

// Answers without a word, answers that the limit on new tokens ended, and failures, on either side.
TEST_F(ReportTest, AnswersAreCountedByWhatWentWrong) {
  Make({.question_count = 8, .has_failures = true, .answer = " ", .tasks = {"recall_kv"}, .cut_count = 2});
  const Json rows = ComparisonRows();
  const Json& cell = rows[3];
  ASSERT_EQ(cell["context_length"], 8192);
  EXPECT_EQ(cell["baseline_failed_count"], 0);
  EXPECT_EQ(cell["candidate_failed_count"], 1);
  EXPECT_EQ(cell["baseline_cut_count"], 2);
  EXPECT_EQ(cell["baseline_empty_count"], 7) << "the baseline is right about question 4 alone";
  EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr("baseline 7 empty, 2 cut, sharp 1 failed, "));
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">7 empty, 2 cut</small>"));
  EXPECT_THAT(page, MessageIn("cut answers", "sharp 2 of 7 at 8K", "baseline 2 of 8 at 1K"));
}

// Failed answers are wrong answers in every mean, and decide nothing by themselves.
TEST_F(ReportTest, FailuresAloneAreNoVerdict) {
  Make({.question_count = 24, .variants = {"baseline", "sharp"}, .failing_variant = "sharp"});
  for (const bool is_baseline : {false, true}) {
    const std::string baseline = is_baseline ? "sharp" : "baseline", candidate = is_baseline ? "baseline" : "sharp";
    int count = 0;
    for (const Json& row : ComparisonRows(baseline, {candidate})) {
      if (row["kind"] != "suite_mean" || row["context_length"] != 1024) continue;
      ++count;
      EXPECT_EQ(row["difference"], is_baseline ? 1.0 : -1.0);
      EXPECT_LT(row["p_adjusted"], 0.001);
      EXPECT_EQ(row["outcome"], "undecided");
      EXPECT_EQ(row["outcome_without_failures"], nullptr) << "no question is left";
      EXPECT_EQ(row["labels"], "incomplete failures few_differ");
    }
    EXPECT_EQ(count, 1);
    const std::string markdown = Render(ReportFormat::kMarkdown, baseline, {candidate});
    EXPECT_THAT(markdown, MessageIn("Undecided", candidate, baseline, "1K", "48 of 48"));
    EXPECT_THAT(markdown, HasSubstr(" | failures decide | "));
    EXPECT_THAT(markdown, Not(HasSubstr(" | better | ")));
    EXPECT_THAT(markdown, Not(HasSubstr(" | worse | ")));
    EXPECT_THAT(Render(ReportFormat::kLatex, baseline, {candidate}), HasSubstr("$^{\\times}$"));
    EXPECT_THAT(Render(ReportFormat::kLatex, baseline, {candidate}), HasSubstr("undecided: failed answers"));
  }
}

// A prompt that was cut is not an answer that was cut.
TEST_F(ReportTest, TruncatedPromptsAreCounted) {
  Make({.question_count = 8, .tasks = {"recall_kv"}, .cut_count = 2, .truncated_count = 3});
  const Json rows = ComparisonRows();
  EXPECT_EQ(rows[0]["baseline_truncated_count"], 3);
  EXPECT_EQ(rows[0]["baseline_cut_count"], 2);
  EXPECT_THAT(rows[0]["labels"].get<std::string>(), HasSubstr("truncated"));
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">2 cut, 3 truncated</small>"));
  EXPECT_THAT(page, MessageIn("truncated prompts", "baseline 3 of 8 at 1K"));
  EXPECT_THAT(page, MessageIn("3,259", "1,008"));
  EXPECT_THAT(page, HasSubstr("<option value=\"truncated\">"));
  EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr("baseline 2 cut, 3 truncated"));
  EXPECT_THAT(Render(ReportFormat::kCsv), HasSubstr("baseline_truncated_count"));
}

// One task's mean is a mean over 1 task; an unfinished paper table has the numbers of tasks.
TEST_F(ReportTest, TasksAreCountedInWords) {
  Make({.question_count = 8, .tasks = {"recall_kv"}});
  EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr("| mean over 1 task | "));
  path_ = directory_.File("unfinished.db");
  Make({.question_count = 8, .unanswered = {{"rag_facts", 2048}}});
  EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr("| mean over 1 of 2 tasks | "));
  EXPECT_THAT(Render(ReportFormat::kLatex), MessageIn("unfinished", "no verdict", "1 of 2 tasks at 2K"));
}

TEST(DesignNoteTest, EqualValuesAreNoSingleContext) {
  stats::Comparison row;
  row.cluster_count = 4;
  row.sample_count = row.planned_count = 16;
  EXPECT_THAT(report::DesignNote(row), Message());
  row.has_single_cluster = true;
  row.cluster_count = 1;
  EXPECT_THAT(report::DesignNote(row), Message("1"));
}

// Shares alternate by question around 1/2 in one task and 1/4 in the other.
TEST_F(ReportTest, LearnedGroupsStandBesideTheNumbers) {
  Make({.question_count = 8, .has_groups = true});
  const Json rows = ComparisonRows();
  const auto row = [&](const std::string& kind, const std::string& candidate, const Json& task) {
    for (const Json& found : rows) {
      if (found["kind"] == kind && found["candidate"] == candidate && found["task"] == task &&
          found["context_length"] == 8192) {
        return found;
      }
    }
    return Json();
  };
  const Json cell = row("cell", "sharp", "recall_kv"), other = row("cell", "sharp", "rag_facts"),
             mean = row("suite_mean", "sharp", nullptr);
  EXPECT_EQ(cell["candidate_pairs_visible"], 0.5);
  EXPECT_EQ(other["candidate_pairs_visible"], 0.25);
  EXPECT_EQ(mean["candidate_pairs_visible"], 0.375);
  EXPECT_EQ(mean["candidate_largest_group"], 0.75);
  EXPECT_EQ(*ParseJson(cell["candidate_focus_attention"].get<std::string>()),
            (*ParseJson(kFocusConfig))["focus_attention"]);
  EXPECT_EQ(cell["baseline_focus_attention"], nullptr);
  EXPECT_EQ(cell["baseline_pairs_visible"], nullptr);
  const Json overridden = row("cell", "sharp@focus-top-k=1", "recall_kv");
  EXPECT_EQ((*ParseJson(overridden["candidate_focus_attention"].get<std::string>()))["top_k"], 1);
  EXPECT_EQ(row("cell", "soft", "recall_kv")["candidate_focus_attention"], nullptr);

  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr("| sharp | 2 of 8 | 32 | calibrated | frozen | 512 | 4K | 37.5 % | 37.5 % |"));
  EXPECT_THAT(markdown, HasSubstr("| sharp | 2 of 8 | 32 | calibrated | frozen | 512 | 8K | 37.5 % | 75.0 % |"));
  EXPECT_THAT(markdown, HasSubstr("| sharp@focus-top-k=1 | 1 of 8 (trained: 2) | 32 | calibrated |"));
  for (const bool is_long : {false, true}) {
    is_long_ = is_long;
    EXPECT_THAT(Render(ReportFormat::kLatex),
                HasSubstr("sharp & 2 of 8 & 32 & calibrated & frozen & 512 & 4K & 37.5 \\% & 37.5 \\% \\\\"));
  }
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<h2>Token groups</h2>"));
  EXPECT_THAT(page,
              HasSubstr("<tr class=\"first\"><td>sharp</td><td>2 of 8</td><td class=\"n\">32</td><td>calibrated</td>"
                        "<td>frozen</td><td class=\"n\">512</td><td class=\"n\">1K</td>"
                        "<td class=\"n\">37.5 %</td><td class=\"n\">37.5 %</td></tr>"));
  const std::string alone = Render(ReportFormat::kCsv, "1/sharp", {});
  EXPECT_THAT(alone, HasSubstr("baseline_focus_attention"));
}

TEST_F(ReportTest, WithoutLearnedGroupsThereIsNoTableOfThem) {
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("Token groups")));
  EXPECT_THAT(Render(ReportFormat::kMarkdown), Not(HasSubstr("Pairs visible")));
  EXPECT_EQ(ComparisonRows()[0]["candidate_pairs_visible"], nullptr);
}

// One variant: eight questions in two contexts; IsRight determines which are right.
TEST_F(ReportTest, AVariantAloneIsATableOfItsScores) {
  Make({.question_count = 8, .has_failures = true, .tasks = {"recall_kv"}, .variants = {"sharp"}, .is_imported = true});
  const std::vector<std::string> csv = absl::StrSplit(Render(ReportFormat::kCsv), '\n', absl::SkipEmpty());
  ASSERT_EQ(csv.size(), 1u + 4);
  EXPECT_EQ(csv[0],
            "job_id,task,metric,is_primary_metric,context_length,variant,planned_count,answered_count,failed_count,"
            "empty_count,refused_count,cut_count,truncated_count,cluster_count,mean,low,high,mean_answered,labels,"
            "focus_attention,"
            "pairs_visible,"
            "largest_group,prompt_tokens_min,prompt_tokens_max,nominal_lengths,"
            "unfinished_count,thinking_count,thinking_tokens,answer_tokens,tokens_per_right,epochs,epochs_statistic,"
            "unextracted_count");
  // At 1K every answer is right; at 2K those are wrong whose (7 index + index / 4) mod 10 is 0 or 1: 0, 3 and 7.
  EXPECT_THAT(csv[1], testing::StartsWith("1,recall_kv,exact_match,1,1024,sharp,8,8,0,0,0,0,0,2,1.0,"));
  EXPECT_THAT(csv[2], testing::StartsWith("1,recall_kv,exact_match,1,2048,sharp,8,8,0,0,0,0,0,2,0.625,"));
  EXPECT_THAT(csv[4], HasSubstr(",8,7,1,0,0,0,0,2,"));
  EXPECT_THAT(csv[4], testing::EndsWith(",incomplete extrapolated imported,,,,8176,8176,8192,0,0,,,,1,,0"));
  const Json json = ComparisonRows();
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[1]["mean"], 0.625);
  EXPECT_LT(json[1]["low"], 0.625);
  EXPECT_GT(json[1]["high"], 0.625);
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr(" | Failed | Mean | "));
  EXPECT_THAT(markdown, HasSubstr("| recall_kv | exact_match, % | 2K | sharp | 8 | 2 | 0 | 62.5 |"));
  EXPECT_THAT(markdown, MessageIn("sharp", "ssssssssssss"));
  EXPECT_THAT(Render(ReportFormat::kLatex), HasSubstr("recall\\_kv & 100.0 & 62.5 & "));
  is_long_ = true;
  EXPECT_THAT(Render(ReportFormat::kLatex), HasSubstr("recall\\_kv & 2K & 8 & 0 & 62.5 & "));
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("sharp alone"));
  EXPECT_THAT(page, HasSubstr("<h2>Every score</h2>"));
  EXPECT_THAT(page, HasSubstr("<b>imported</b>"));
  EXPECT_THAT(page, Not(HasSubstr("is resumed")));
}

// A row of the table of kinds is a column of every format and a choice of the sample browser, where there are such answers.
TEST_F(ReportTest, EveryKindOfAnswersHasItsColumns) {
  Make({.question_count = 8,
        .tasks = {"recall_kv"},
        .variants = {"sharp"},
        .truncated_count = 1,
        .thinking_state = "unfinished",
        .thinking_raw = "<think>Is it stone-02?"});
  const std::string csv = Render(ReportFormat::kCsv), markdown = Render(ReportFormat::kMarkdown), page = Render();
  const std::vector<std::string> columns = absl::StrSplit(csv.substr(0, csv.find('\n')), ',');
  const Json row = ComparisonRows()[1];
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    const std::string key = absl::StrCat(kind.name, "_count");
    EXPECT_THAT(columns, testing::Contains(key));
    EXPECT_THAT(report::ResultKeys(), testing::Contains("baseline_" + key));
    EXPECT_THAT(report::ResultKeys(), testing::Contains("candidate_" + key));
    const bool is_there = kind.mark == db::kUnfinishedThinking || kind.mark == db::kTruncatedPrompt;
    EXPECT_EQ(row[key], kind.mark == db::kUnfinishedThinking ? 3 : is_there ? 1 : 0) << key;
    const std::string column = absl::StrCat(" | ", report::Capitalized(kind.name), " | ");
    EXPECT_EQ(absl::StrContains(markdown, column), is_there) << column;
    const std::string option = absl::StrCat("<option value=\"", kind.name, "\">", kind.answers, "</option>");
    EXPECT_EQ(absl::StrContains(page, option), is_there) << option;
  }
  EXPECT_THAT(markdown, HasSubstr("| 8 | 2 | 0 | 1 | 3 | 62.5 |"));
  EXPECT_THAT(page, HasSubstr("<small>1 truncated, 3 unfinished</small>"));
}

// +1, then -6.7 and worse, then +16.3: two ends do not tell the curve.
TEST(SteadyNote, NamesDecidedDifferencesBetweenTheEnds) {
  report::ReportData data;
  report::CandidateComparison comparison;
  comparison.report.suite.resize(3);
  const int64_t lengths[] = {1024, 4096, 8192};
  const double differences[] = {0.01, -0.067, 0.163};
  const stats::Outcome outcomes[] = {stats::Outcome::kUndecided, stats::Outcome::kWorse, stats::Outcome::kBetter};
  for (size_t i = 0; i < 3; ++i) {
    stats::SuiteComparison& row = comparison.report.suite[i];
    row.context_length = lengths[i];
    row.difference = differences[i];
    row.outcome = outcomes[i];
    row.can_infer = true;
  }
  stats::LengthContrast change;
  change.short_length = 1024;
  change.long_length = 8192;
  change.short_difference = 0.01;
  change.long_difference = 0.163;
  EXPECT_EQ(report::SteadyNote(data, comparison, change), "not steadily: at 4K the difference is \u22126.7 (worse)");
  comparison.report.suite[1].outcome = stats::Outcome::kUndecided;
  EXPECT_EQ(report::SteadyNote(data, comparison, change), "");
  comparison.report.suite[1].outcome = stats::Outcome::kBetter;
  comparison.report.suite[1].difference = 0.1;
  EXPECT_EQ(report::SteadyNote(data, comparison, change), "") << "between the two";
}

// The interval and p of a sentence are the adjusted ones.
TEST(IntervalAndP, AreAdjusted) {
  stats::Inference row;
  row.can_infer = true;
  row.low = 0.089;
  row.high = 0.744;
  row.adjusted_low = -0.05;
  row.adjusted_high = 0.883;
  row.p_value = 0.017;
  row.p_adjusted = 0.086;
  row.test_count = 5;
  const auto plain = [](std::string text) { return absl::StrReplaceAll(text, {{"\u00A0", " "}}); };
  EXPECT_EQ(plain(report::IntervalAndP(row, 100, 1, 0.95)),
            "95 % interval \u22125.0 to +88.3, p = 0.086, adjusted for 5 tests");
  row.test_count = 1;
  EXPECT_EQ(plain(report::IntervalAndP(row, 100, 1, 0.95)), "95 % interval \u22125.0 to +88.3, p = 0.086");
}

}  // namespace
}  // namespace varifocal

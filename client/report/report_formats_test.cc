// The report's tables in LaTeX, in the forms of other harnesses, and across jobs.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "client/report/data/report_data.h"
#include "client/report/page/inference_cells.h"
#include "db/fakes/fake_results.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(ReportTest, TablesForPapers) {
  MakePlain();
  const std::vector<std::string> csv = absl::StrSplit(Render(ReportFormat::kCsv), '\n', absl::SkipEmpty());
  // For each of two candidates: two tasks at four lengths, four means over tasks, contrasts and slopes of the tasks and
  // the mean.
  ASSERT_EQ(csv.size(), 1u + 2 * (2 * 4 + 4 + 2 * 3));
  const std::vector<std::string> header = absl::StrSplit(csv[0], ',');
  for (const std::string& line : csv)
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(line, ',')).size(), header.size());
  EXPECT_THAT(csv[1],
              testing::StartsWith(
                  "cell,recall_kv,exact_match,1,1024,,baseline,sharp,1,1,,,48,48,0,12,0,0,0,0,0,0,0,0,0,0,1.0,"));
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr("| recall_kv | exact_match, % | 8K | sharp | 48 | 12 | 0 |"));
  EXPECT_THAT(markdown, HasSubstr("| mean over 2 tasks | points | 8K | sharp | 96 | 24 | 0 |"));
  EXPECT_THAT(markdown, MessageIn("tasks | 1K \u2192 8K | sharp |"));
  EXPECT_THAT(markdown, MessageIn("tasks | 1K \u2192 8K, per doubling | sharp |"));
  EXPECT_THAT(markdown, HasSubstr("Holm"));
  is_long_ = true;
  const std::string latex = Render(ReportFormat::kLatex);
  EXPECT_THAT(latex, HasSubstr("recall\\_kv & sharp & 8K & 48 &"));
  EXPECT_THAT(latex, HasSubstr("mean over 2 tasks & sharp & 8K & 96 &"));
  EXPECT_THAT(latex, HasSubstr("\\toprule"));
}

// The table of a paper: at 8K the baseline has 20 %, sharp 60 %, and at 1K nothing differs.
TEST_F(ReportTest, ModelsByLengthsInLatex) {
  MakePlain();
  const std::string latex = Render(ReportFormat::kLatex);
  EXPECT_THAT(
      latex,
      HasSubstr("\\begin{tabular}{lrrrr}\n\\toprule\nModel & 1K & 2K & 4K & 8K \\\\\n\\midrule\nbaseline & 100.0 &"));
  EXPECT_THAT(latex, testing::ContainsRegex("\nsharp & 100\\.0[^&]* & [^&]* & [^&]*\\$\\^\\{.uparrow\\}\\$ & "));
  EXPECT_THAT(latex, HasSubstr("{\\footnotesize $+39.6$ [$+"));
  EXPECT_THAT(latex, HasSubstr("$\\uparrow$ better"));
  EXPECT_THAT(latex, MessageIn("Holm", "8 tests", "3.0 points"));
  EXPECT_THAT(latex, Not(HasSubstr("\\downarrow")));
  EXPECT_THAT(latex, Not(HasSubstr("\u2212")));
}

// What docs/measuring.md states about every row, on jobs with random scores, failures and missing answers.
TEST_F(ReportTest, RowsForProgramsKeepTheirContract) {
  std::map<std::string, int> seen;
  int inferred_count = 0, excluded_count = 0;
  for (int number = 0; number < 12; ++number) {
    SetUp();
    Random random(absl::StrCat("contract ", number));
    const db::NewJob job = db::FakeJob({.variants = {"baseline", "a", "b"},
                                        .tasks = {"icl", "recall"},
                                        .lengths = {1024, 2048, 8192},
                                        .planned_count = 4 * (1 + static_cast<int64_t>(random.Below(8)))});
    auto writer = *db::Writer::Open(path_);
    const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
    const std::vector<db::CellRow> cells = *writer->Cells(writer->AddJob(job)->job_id);
    std::vector<db::Outcome> outcomes;
    const double miss = number % 3 == 0 ? 0.05 : 0;
    for (const db::CellRow& cell : cells) {
      // From no answer right to all of them, and of "a" often the baseline's own.
      const double rate = random.Below(5) / 4.0;
      for (int64_t i = 0; i < cell.cell.planned_count; ++i) {
        if (random.Uniform() < miss) continue;
        const bool fails = random.Uniform() < miss;
        db::Outcome outcome = (fails ? db::FakeFailure : db::FakeOutcome)(cell, job, execution_id, i);
        const double graded = random.Uniform();
        if (!fails) outcome.scores = {{"exact_match", random.Uniform() < rate ? 1.0 : 0.0}, {"token_f1", graded}};
        outcomes.push_back(std::move(outcome));
      }
    }
    ASSERT_TRUE(writer->RecordSamples(outcomes).ok());
    writer.reset();
    const Json rows = ComparisonRows();
    ASSERT_GT(rows.size(), 20u);
    for (const Json& row : rows) {
      ++seen[row["outcome"].get<std::string>()];
      if (row["unfinished"].get<bool>()) {
        EXPECT_EQ(row["outcome"], "undecided") << row.dump();
      }
      if (row["p_value"].is_null()) {
        EXPECT_EQ(row["outcome"], "undecided") << row.dump();
        for (const char* key : {"low", "high", "p_adjusted", "p_sign_flip", "detectable_difference"})
          EXPECT_TRUE(row[key].is_null()) << key << " of " << row.dump();
        continue;
      }
      ++inferred_count;
      const double p = row["p_value"], adjusted = row["p_adjusted"], low = row["low"], high = row["high"];
      const bool excludes_zero = low > 0 || high < 0;
      excluded_count += excludes_zero;
      EXPECT_EQ(p < 0.05, excludes_zero) << row.dump();
      EXPECT_LE(low, row["difference"].get<double>());
      EXPECT_GE(high, row["difference"].get<double>());
      EXPECT_GE(adjusted, p);
      EXPECT_EQ(row["fragile"].get<bool>(), excludes_zero != (row["p_sign_flip"].get<double>() < 0.05)) << row.dump();
      const bool is_decided = row["outcome"] == "better" || row["outcome"] == "worse";
      const std::set<std::string> labels = absl::StrSplit(row["labels"].get<std::string>(), ' ');
      const bool is_unknown = labels.contains("few_differ") && labels.contains("fragile");
      EXPECT_EQ(is_decided, adjusted < 0.05 && !row["unfinished"].get<bool>() && !is_unknown) << row.dump();
      EXPECT_LE(is_decided, excludes_zero) << row.dump();
      if (!row["relative_gain"].is_null()) {
        EXPECT_EQ(row["relative_low"].get<double>() > 0 || row["relative_high"].get<double>() < 0, excludes_zero)
            << row.dump();
      }
    }
  }
  EXPECT_GT(inferred_count, 300);
  EXPECT_GT(excluded_count, 60);
  EXPECT_GT(inferred_count - excluded_count, 60);
  for (const char* outcome : {"better", "worse", "undecided"}) EXPECT_GT(seen[outcome], 5) << outcome;
}

TEST_F(ReportTest, ScoresInTheFormOfTheHarness) {
  Make({.question_count = 8, .tasks = {"recall_kv"}, .variants = {"baseline", "sharp"}});
  const Json file = ParseJson(Render(ReportFormat::kLmEval, "sharp")).value();
  EXPECT_EQ(file["model_name"], "sharp");
  ASSERT_TRUE(file["results"].contains("recall_kv_2048"));
  const Json& row = file["results"]["recall_kv_2048"];
  EXPECT_EQ(row["exact_match,none"], 0.625) << "as in the table of a variant alone";
  EXPECT_EQ(row["exact_match_stderr,none"], "N/A");
  EXPECT_EQ(row["varifocal"]["exact_match"]["cluster_count"], 2);
  EXPECT_EQ(file["n-samples"]["recall_kv_2048"], (Json{{"original", 8}, {"effective", 8}}));
  EXPECT_EQ(file["higher_is_better"]["recall_kv_2048"]["exact_match"], true);
  EXPECT_EQ(file["n-shot"]["recall_kv_2048"], 0);
  EXPECT_EQ(file["date"], kTimeUs * 1e-6);
  for (const char* part : {"configs", "versions", "group_subtasks"}) {
    EXPECT_EQ(file[part].size(), file["results"].size()) << part;
  }
}

TEST_F(ReportTest, ScoresInTheFormOfOlmoEval) {
  Make({.question_count = 8, .tasks = {"recall_kv"}, .variants = {"baseline", "sharp"}});
  const Json file = ParseJson(Render(ReportFormat::kOlmoEval, "sharp")).value();
  EXPECT_EQ(file["config"]["model"], "sharp");
  const auto found = std::find_if(file["tasks"].begin(), file["tasks"].end(),
                                  [](const Json& task) { return task["task"] == "recall_kv_2048"; });
  ASSERT_NE(found, file["tasks"].end());
  EXPECT_EQ((*found)["metrics"]["exact_match"]["varifocal"], 0.625);
  EXPECT_EQ((*found)["primary_metric"], "exact_match:varifocal");
  EXPECT_EQ((*found)["num_instances"], 8);
  EXPECT_EQ((*found)["config"]["context_length"], 2048);
  EXPECT_EQ((*found)["config"]["intervals"]["exact_match"]["cluster_count"], 2);
  EXPECT_EQ(file["summary"]["recall_kv_2048"], (Json{{"metric", "exact_match:varifocal"}, {"score", 0.625}}));
  EXPECT_EQ(file["summary"].size(), file["tasks"].size());
}

// The same answers as job 1's "sharp" in a job of their own: the same numbers, under the name of that job.
TEST_F(ReportTest, AVariantOfAnotherJobStandsBesideTheBaseline) {
  Make({.question_count = 16});
  Make({.question_count = 16, .variants = {"sharp"}, .is_imported = true});
  const auto rows = [&](const std::string& baseline, const std::vector<std::string>& candidates) {
    return ComparisonRows(baseline, candidates);
  };
  const Json within = rows("1/baseline", {"sharp"}), across = rows("1/baseline", {"2/sharp"});
  ASSERT_EQ(within.size(), 8u + 4 + 6);
  ASSERT_EQ(across.size(), within.size());
  for (size_t i = 0; i < across.size(); ++i) {
    Json expected = within[i], found = across[i];
    // What is compared counts beside job 1's own two candidates.
    if (expected["kind"] != "contrast" && expected["kind"] != "slope") {
      EXPECT_EQ(2 * found["test_count"].get<int>(), 3 * expected["test_count"].get<int>());
    }
    for (const char* key : {"test_count", "p_adjusted", "adjusted_low", "adjusted_high", "p_equivalence_adjusted",
                            "detectable_difference", "outcome", "within_margin"}) {
      expected.erase(key);
      found.erase(key);
    }
    expected["candidate"] = "jobs/2/sharp";
    expected["candidate_job"] = 2;
    expected["imported"] = "candidate";
    expected["labels"] = expected["labels"].get<std::string>().empty()
                             ? "imported"
                             : expected["labels"].get<std::string>() + " imported";
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(rows("baseline", {"1/sharp", "1/soft", "2/sharp"}).size(), 3u * 18);
  const std::string page = Render(ReportFormat::kHtml, "1/baseline", {"soft", "jobs/2/sharp"});
  EXPECT_THAT(page, MessageIn("jobs/2/sharp", "better", "baseline", "4K and 8K", "2 tasks"));
  EXPECT_THAT(page, MessageIn("imported", "jobs/2/sharp", "ssssssssssss"));
  EXPECT_THAT(page, MessageIn("jobs/2/sharp", 128, "0 of job 1", "0 of job 2"));
  EXPECT_THAT(page, MessageIn("Holm", 12, 24));
  EXPECT_THAT(page, HasSubstr("jobs/2/sharp, answers SHA-256"));
  EXPECT_THAT(page, HasSubstr("--job=1 --baseline=baseline --candidate=jobs/2/sharp"));
  EXPECT_THAT(page, HasSubstr("--candidates=soft,jobs/2/sharp --out=report.html"));
}

TEST_F(ReportTest, WhatAnotherJobAskedOtherwiseIsLeftOut) {
  Made made{.question_count = 8, .tasks = {"recall_kv"}, .variants = {"baseline"}};
  Make(made);
  made.variants = {"sharp"};
  made.other_prompt_count = 4;
  Make(made);
  made.other_prompt_count = 8;
  Make(made);
  const std::string page = Render(ReportFormat::kHtml, "1/baseline", {"2/sharp"});
  EXPECT_THAT(page, MessageIn(16, "16 of job 1", "16 of job 2"));
  EXPECT_THAT(page, MessageIn("left out: "));
  EXPECT_THAT(page, HasSubstr("<option value=\"left-out\">left out</option>"));
  const Json rows = ComparisonRows("1/baseline", {"2/sharp"});
  ASSERT_EQ(rows.size(), 4u + 4 + 2) << "cells, means over the one task, the contrast and the slope";
  for (const Json& row : rows) {
    EXPECT_EQ(row["sample_count"], 4);
    EXPECT_EQ(row["cluster_count"], 1) << "nothing can be inferred from one context";
    for (const char* key : {"low", "high", "p_value", "p_adjusted", "detectable_difference"})
      EXPECT_EQ(row[key], Json());
    EXPECT_EQ(row["outcome"], "undecided");
    if (row["kind"] != "cell") continue;
    EXPECT_EQ(row["baseline_left_out_count"], 4);
    EXPECT_EQ(row["candidate_left_out_count"], 4);
  }
  ReportOptions options{.database_path = path_, .baseline = "1/baseline", .candidates = {"3/sharp"}};
  EXPECT_THAT(RenderReport(options).status(), IsError(absl::StatusCode::kNotFound, Message(32)));
  options.candidates = {"sharp"};
  EXPECT_TRUE(RenderReport(options).ok()) << "the newest job with a question in common";
  options.candidates = {"2/soft"};
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace varifocal

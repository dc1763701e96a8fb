// The report of a made-up job: what stands in it, that it is the same every time, and that nothing in an answer can
// act.
//
// Method: a database written through db::Writer with known answers, so that every sentence and number can be checked by
// hand; drawings of small figures against golden files (tests/testdata/goldens/report, VARIFOCAL_UPDATE_GOLDENS=1
// rewrites them).
#include "client/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/json.h"
#include "client/report/perplexity.h"
#include "client/report/report_data.h"
#include "client/report/sample_browser.h"
#include "client/report/svg_chart.h"
#include "client/report/text_format.h"
#include "db/writer.h"

namespace varifocal {
namespace {

using report::Figure;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kTimeUs = 1'795'271'400'000'000;  // 2026-11-21 14:30 UTC

std::string Hash(char c) { return std::string(64, c); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

struct Made {
  int question_count = 48;           // four to a context
  int answered_of_last_length = 48;  // fewer: the job is interrupted
  bool has_failures = false;
  bool has_short_samples = false;  // none is longer than the models' training
  std::string answer;              // what wrong answers say
  std::vector<std::string> tasks = {"recall_kv", "rag_facts"};
  std::vector<std::string> variants = {"baseline", "sharp", "soft"};
  bool is_imported = false;
  int other_prompt_count = 0;  // of the first questions, which are asked in other words
};

// Two candidates at 1K to 8K. "sharp" is right wherever the baseline is and, from 4K on, on every second question that
// the baseline misses; "soft" is the baseline's equal but for one question in either direction.
class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        testing::TempDir() + "/report_test_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".db";
    for (const char* end : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(path_ + end);
  }

  static bool IsRight(const std::string& variant, int64_t length, int index) {
    const int hard = length >= 8192 ? 4 : length >= 4096 ? 3 : length >= 2048 ? 1 : 0;
    const bool baseline = (index * 7 + index / 4) % 10 >= hard * 2;
    if (variant == "sharp" && length >= 4096) return baseline || index % 2 == 0;
    if (variant == "soft" && index == 5) return !baseline;
    return baseline;
  }

  // The plain job is written once and copied: every row written is one fsync.
  void MakePlain() {
    static const std::string* const plain = [this] {
      Make({});
      auto* path = new std::string(testing::TempDir() + "/report_test_plain.db");
      std::filesystem::copy_file(path_, *path, std::filesystem::copy_options::overwrite_existing);
      return path;
    }();
    std::filesystem::copy_file(*plain, path_, std::filesystem::copy_options::overwrite_existing);
  }

  void Make(const Made& made) {
    FakeClock clock(kTimeUs);
    auto writer = db::Writer::Open(path_, clock);
    ASSERT_TRUE(writer.ok()) << writer.status();
    db::NewJob job;
    job.suite = "quick";
    job.spec_json = R"({"seed":7,"suite":"quick"})";
    job.data_seed = 7;
    db::ModelRecord model;
    model.architecture = "llama";
    model.tokenizer_sha256 = Hash('7');
    model.dtype = "f32";
    model.context_length_max = 65536;
    model.trained_context_length = 4096;
    const std::pair<const char*, const char*> models[] = {
        {"baseline", "{}"},
        {"sharp", R"({"focal_attention":{"mode":"constant","temperature":0.4}})"},
        {"soft", R"({"focal_attention":{"mode":"learned","tau_max":8.0,"tau_mean":"causal","tau_min":3.5}})"}};
    if (made.is_imported) model.architecture = "imported";
    for (const auto& [name, attention] : models) {
      if (std::find(made.variants.begin(), made.variants.end(), name) == made.variants.end()) continue;
      model.name = name;
      model.attention_json = attention;
      model.weights_sha256 = Hash(name[0]);
      job.variants.push_back({name, model, std::nullopt});
      if (job.variants.size() == 3) job.variants.back().focal_temperature_json = "0.7";
    }
    const std::vector<int64_t> lengths = {1024, 2048, 4096, 8192};
    for (const std::string& task : made.tasks) job.metrics.push_back({task, "exact_match", 0, true, 0.0, 1.0});
    for (const auto& variant : job.variants) {
      for (const std::string& task : made.tasks) {
        for (int64_t length : lengths) job.cells.push_back({variant.name, task, length, made.question_count});
      }
    }
    const auto execution = (*writer)->AddExecution(
        {"0.1.0+test", "cpu", "avx2", "A processor", "a-host", 2, "varifocal run quick --model=models/baseline"});
    const auto added = (*writer)->AddJob(job);
    ASSERT_TRUE(added.ok()) << added.status();
    const auto cells = (*writer)->Cells(added->job_id);
    for (const db::CellRow& cell : *cells) {
      const bool is_last = cell.cell.context_length == 8192;
      for (int index = 0; index < (is_last ? made.answered_of_last_length : made.question_count); ++index) {
        db::Outcome outcome;
        outcome.cell_id = cell.cell_id;
        outcome.execution_id = *execution;
        db::SampleRecord& sample = outcome.sample;
        sample.task = cell.cell.task;
        sample.context_length = cell.cell.context_length;
        sample.sample_index = index;
        sample.tokenizer_sha256 = Hash('7');
        sample.question_id = absl::StrCat("q", index);
        sample.cluster = absl::StrCat(cell.cell.task, "/", index / 4);
        sample.token_ids_sha256 = Hash(index < made.other_prompt_count ? 'b' : 'a');
        sample.prompt_token_count = cell.cell.context_length - 16;
        sample.new_token_count_max = 8;
        sample.gold_json = R"(["amber-17"])";
        sample.excerpt =
            "... \"harbor\":\"amber-17\", \"kettle\":\"stone-02\" <b>& more</b> ...\nThe value of harbor is";
        const bool right = IsRight(cell.cell.variant, cell.cell.context_length, index);
        outcome.generation.finish_reason = "stop";
        outcome.generation.answer = outcome.generation.answer_raw = right                 ? "amber-17"
                                                                    : made.answer.empty() ? "stone-02"
                                                                                          : made.answer;
        outcome.generation.is_extrapolated = cell.cell.context_length > 4096 && !made.has_short_samples;
        outcome.scores = {{"exact_match", right ? 1.0 : 0.0}};
        if (made.has_failures && index == 3 && is_last && cell.cell.variant == "sharp") {
          outcome.generation = {};
          outcome.generation.error_code = "RESOURCE_EXHAUSTED";
          outcome.generation.error_message = "8192 tokens need 12 pages, 3 are free";
          outcome.scores.clear();
        }
        const auto recorded = (*writer)->RecordSample(outcome);
        ASSERT_TRUE(recorded.ok()) << recorded.status();
      }
    }
  }

  std::string Render(ReportFormat format = ReportFormat::kHtml, const std::string& baseline = "",
                     const std::vector<std::string>& candidates = {}) {
    ReportOptions options;
    options.database_path = path_;
    options.baseline = baseline;
    options.candidates = candidates;
    options.format = format;
    auto bytes = RenderReport(options);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    // The path differs from run to run; nothing else may.
    return bytes.ok() ? absl::StrReplaceAll(*bytes, {{path_, "results.db"}}) : "";
  }

  std::string path_;
};

TEST_F(ReportTest, SaysWhoWinsWhereAndHowSure) {
  MakePlain();
  const std::string page = Render();
  // At 8K the baseline misses 8 in 10 and sharp answers every second of those.
  EXPECT_THAT(
      page,
      HasSubstr(
          "sharp is better than baseline at 4K and 8K, averaged over 2 tasks (+39.6 points at 8K, 95 % interval "));
  EXPECT_THAT(page, HasSubstr("adjusted for 8 tests)."));
  EXPECT_THAT(page, HasSubstr("Undecided at 1K (0.0,"));
  EXPECT_THAT(page,
              HasSubstr("Undecided whether soft differs from baseline at 1K, 2K, 4K and 8K, averaged over 2 tasks: the "
                        "largest difference is "));
  EXPECT_THAT(page, HasSubstr("trained with focal attention (constant, temperature 0.4)"));
  EXPECT_THAT(
      page,
      HasSubstr("run with t = 0.7, trained with focal attention (learned, tau_max 8.0, tau_mean causal, tau_min 3.5)"));
  EXPECT_THAT(page, HasSubstr("<b>extrapolated</b>"));
  EXPECT_THAT(page, Not(HasSubstr("<b>incomplete</b>")));
  EXPECT_THAT(page,
              HasSubstr("p adjusted (Holm): over the 8 means over tasks, over the 16 cells of primary metrics, of all "
                        "candidates and lengths of the job, shown or not."));
  EXPECT_THAT(page, Not(HasSubstr("No difference")));
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">better<small>"));
  EXPECT_THAT(page, HasSubstr(Hash('s')));  // weights
  EXPECT_THAT(page, HasSubstr("varifocal run quick --model=models/baseline"));
  EXPECT_THAT(page, HasSubstr("&quot;seed&quot;: 7"));
}

TEST_F(ReportTest, NeedsNoNetworkAndIsTheSameEveryTime) {
  MakePlain();
  const std::string page = Render();
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_EQ(page, Render());
  if (std::getenv("VARIFOCAL_KEEP_REPORT") != nullptr) std::ofstream(std::getenv("VARIFOCAL_KEEP_REPORT")) << page;
}

TEST_F(ReportTest, NothingInAnAnswerActs) {
  Made made;
  made.question_count = made.answered_of_last_length = 8;
  made.answer = "</td><script>alert('x')</script><img onerror=\"y\">\x01 & <b>";
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(
      page,
      HasSubstr(
          "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&lt;img onerror=&quot;y&quot;&gt;\uFFFD &amp; &lt;b&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("<mark>amber-17</mark>"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&amp; more&lt;/b&gt;"));
}

TEST_F(ReportTest, FailuresAndMissingAnswersAreSaid) {
  Made made;
  made.has_failures = true;
  made.question_count = 16;
  made.answered_of_last_length = 12;
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<b>incomplete</b> 358 of 384 answers are there, 2 failed;"));
  EXPECT_THAT(page, HasSubstr("RESOURCE_EXHAUSTED: 8192 tokens need 12 pages, 3 are free"));
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">incomplete</small>"));
  EXPECT_THAT(page, HasSubstr("<option value=\"failed\">failed</option>"));
}

// The last length of a job under way: some tasks have answers and none of them all.
TEST_F(ReportTest, NoVerdictWhereTasksAreUnfinished) {
  Made made;
  made.question_count = 16;
  made.answered_of_last_length = 12;
  Make(made);
  EXPECT_THAT(Render(), HasSubstr("No verdict at 8K (0 of 2 tasks so far)."));
  const Json rows = ParseJson(Render(ReportFormat::kJson)).value();
  int unfinished_count = 0;
  for (const Json& row : rows) {
    if (row["kind"] != "contrast" && row["context_length"] != 8192) continue;
    EXPECT_EQ(row["unfinished"], true) << row;
    EXPECT_EQ(row["outcome"], "undecided") << row;
    ++unfinished_count;
  }
  EXPECT_EQ(unfinished_count, 2 * (2 + 1 + 3));
}

TEST_F(ReportTest, EmptyAnswersAreCounted) {
  Made made;
  made.question_count = made.answered_of_last_length = 8;
  made.answer = " \n";
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<b>empty answers</b> Answers of nothing but white space: baseline gave "));
  const Json rows = ParseJson(Render(ReportFormat::kJson)).value();
  ASSERT_EQ(rows[1]["context_length"], 2048);
  EXPECT_EQ(rows[1]["baseline_empty_count"], 3) << "each wrong answer: 0, 3 and 7";
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">3 empty</small>"));
}

// Rows of a file may be shorter than the length they are asked at.
TEST_F(ReportTest, OnlyLongSamplesAreExtrapolated) {
  Made made;
  made.question_count = made.answered_of_last_length = 8;
  made.has_short_samples = true;
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, Not(HasSubstr("extrapolated</small>")));
  EXPECT_THAT(page, Not(HasSubstr("<b>extrapolated</b>")));
  EXPECT_THAT(page, Not(HasSubstr("beyond training")));
  EXPECT_THAT(Render(ReportFormat::kCsv), Not(HasSubstr("extrapolated")));
}

TEST_F(ReportTest, OneTaskNeedsNoMeanOverTasks) {
  Made made;
  made.tasks = {"recall_kv"};
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("sharp is better than baseline on recall_kv at "));
  EXPECT_THAT(page, Not(HasSubstr("Over all tasks")));
}

TEST_F(ReportTest, TablesForPapers) {
  MakePlain();
  const std::vector<std::string> csv = absl::StrSplit(Render(ReportFormat::kCsv), '\n', absl::SkipEmpty());
  // For each of two candidates: two tasks at four lengths, four means over tasks, contrasts of the tasks and the mean.
  ASSERT_EQ(csv.size(), 1u + 2 * (2 * 4 + 4 + 3));
  const std::vector<std::string> header = absl::StrSplit(csv[0], ',');
  for (const std::string& line : csv)
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(line, ',')).size(), header.size());
  EXPECT_THAT(csv[1],
              testing::StartsWith("cell,rag_facts,exact_match,1,1024,,baseline,sharp,1,1,,,48,48,0,12,0,0,1.0,"));
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr("| recall_kv | exact_match, % | 8K | sharp | 48 | 12 | 0 |"));
  EXPECT_THAT(markdown, HasSubstr("| mean over 2 tasks | points | 8K | sharp | 96 | 24 | 0 |"));
  EXPECT_THAT(markdown, HasSubstr("| mean over tasks | 1K \u2192 8K | sharp |"));
  EXPECT_THAT(markdown, HasSubstr("Holm"));
  const std::string latex = Render(ReportFormat::kLatex);
  EXPECT_THAT(latex, HasSubstr("recall\\_kv & sharp & 8K & 48 &"));
  EXPECT_THAT(latex, HasSubstr("mean over 2 tasks & sharp & 8K & 96 &"));
  EXPECT_THAT(latex, HasSubstr("\\toprule"));
}

// One variant: eight questions in two contexts, of which IsRight says how many are right.
TEST_F(ReportTest, AVariantAloneIsATableOfItsScores) {
  Made made;
  made.question_count = made.answered_of_last_length = 8;
  made.tasks = {"recall_kv"};
  made.variants = {"sharp"};
  made.has_failures = made.is_imported = true;
  Make(made);
  const std::vector<std::string> csv = absl::StrSplit(Render(ReportFormat::kCsv), '\n', absl::SkipEmpty());
  ASSERT_EQ(csv.size(), 1u + 4);
  EXPECT_EQ(csv[0],
            "job_id,task,metric,is_primary_metric,context_length,variant,planned_count,answered_count,failed_count,"
            "empty_count,cluster_count,mean,low,high,mean_answered,labels");
  // At 1K every answer is right; at 2K those are wrong whose (7 index + index / 4) mod 10 is 0 or 1: 0, 3 and 7.
  EXPECT_THAT(csv[1], testing::StartsWith("1,recall_kv,exact_match,1,1024,sharp,8,8,0,0,2,1.0,"));
  EXPECT_THAT(csv[2], testing::StartsWith("1,recall_kv,exact_match,1,2048,sharp,8,8,0,0,2,0.625,"));
  EXPECT_THAT(csv[4], HasSubstr(",8,7,1,0,2,"));
  EXPECT_THAT(csv[4], testing::EndsWith(",incomplete extrapolated imported"));
  const Json json = ParseJson(Render(ReportFormat::kJson)).value();
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[1]["mean"], 0.625);
  EXPECT_LT(json[1]["low"], 0.625);
  EXPECT_GT(json[1]["high"], 0.625);
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr("| recall_kv | exact_match, % | 2K | sharp | 8 | 2 | 0 | 62.5 |"));
  EXPECT_THAT(markdown,
              HasSubstr("The answers of sharp came from another engine, in a file with SHA-256 ssssssssssss"));
  EXPECT_THAT(Render(ReportFormat::kLatex), HasSubstr("recall\\_kv & 2K & 8 & 0 & 62.5 & "));
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("sharp alone"));
  EXPECT_THAT(page, HasSubstr("<h2>Every score</h2>"));
  EXPECT_THAT(page, HasSubstr("<b>imported</b>"));
  EXPECT_THAT(page, Not(HasSubstr("until it is resumed")));
}

// The same answers as job 1's "sharp" in a job of their own: the same numbers, under the name of that job.
TEST_F(ReportTest, AVariantOfAnotherJobStandsBesideTheBaseline) {
  Made made;
  made.question_count = made.answered_of_last_length = 16;
  Make(made);
  made.variants = {"sharp"};
  made.is_imported = true;
  Make(made);
  const auto rows = [&](const std::string& baseline, const std::vector<std::string>& candidates) {
    return ParseJson(Render(ReportFormat::kJson, baseline, candidates)).value();
  };
  const Json within = rows("1/baseline", {"sharp"}), across = rows("1/baseline", {"2/sharp"});
  ASSERT_EQ(within.size(), 8u + 4 + 3);
  ASSERT_EQ(across.size(), within.size());
  for (size_t i = 0; i < across.size(); ++i) {
    Json expected = within[i], found = across[i];
    // What is compared counts beside job 1's own two candidates.
    if (expected["kind"] != "contrast") {
      EXPECT_EQ(2 * found["test_count"].get<int>(), 3 * expected["test_count"].get<int>());
    }
    for (const char* key : {"test_count", "p_adjusted", "p_equivalence_adjusted", "detectable_difference", "outcome"}) {
      expected.erase(key);
      found.erase(key);
    }
    expected["candidate"] = "jobs/2/sharp";
    expected["candidate_job"] = 2;
    expected["imported"] = "candidate";
    expected["labels"] = expected["labels"] == "" ? "imported" : expected["labels"].get<std::string>() + " imported";
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(rows("baseline", {"1/sharp", "1/soft", "2/sharp"}).size(), 3u * 15);
  const std::string page = Render(ReportFormat::kHtml, "1/baseline", {"soft", "jobs/2/sharp"});
  EXPECT_THAT(page, HasSubstr("jobs/2/sharp is better than baseline at 4K and 8K, averaged over 2 tasks"));
  EXPECT_THAT(page, HasSubstr("<b>imported</b> The answers of jobs/2/sharp came from another engine"));
  EXPECT_THAT(page, HasSubstr("128 of its questions were asked in job 1 with the same prompt and are paired, left out "
                              "are 0 of job 1 and 0 of job 2."));
  EXPECT_THAT(page, HasSubstr("over the 12 means over tasks, over the 24 cells of primary metrics"));
  EXPECT_THAT(page, HasSubstr("jobs/2/sharp, answers SHA-256"));
  EXPECT_THAT(page, HasSubstr("--job=1 --baseline=baseline --candidate=jobs/2/sharp"));
  EXPECT_THAT(page, HasSubstr("--candidates=soft,jobs/2/sharp --out=report.html"));
}

TEST_F(ReportTest, WhatAnotherJobAskedOtherwiseIsLeftOut) {
  Made made;
  made.question_count = made.answered_of_last_length = 8;
  made.tasks = {"recall_kv"};
  made.variants = {"baseline"};
  Make(made);
  made.variants = {"sharp"};
  made.other_prompt_count = 4;
  Make(made);
  made.other_prompt_count = 8;
  Make(made);
  const std::string page = Render(ReportFormat::kHtml, "1/baseline", {"2/sharp"});
  EXPECT_THAT(page, HasSubstr("16 of its questions were asked in job 1 with the same prompt and are paired, left out "
                              "are 16 of job 1 and 16 of job 2."));
  EXPECT_THAT(page, HasSubstr("left out: its job did not ask this with the same prompt"));
  EXPECT_THAT(page, HasSubstr("<option value=\"left-out\">left out</option>"));
  const Json rows = ParseJson(Render(ReportFormat::kJson, "1/baseline", {"2/sharp"})).value();
  ASSERT_EQ(rows.size(), 4u + 4 + 1) << "cells, means over the one task, the contrast";
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
  ReportOptions options;
  options.database_path = path_;
  options.baseline = "1/baseline";
  options.candidates = {"3/sharp"};
  const absl::Status nothing = RenderReport(options).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(nothing.message()), HasSubstr("were asked 32 and 32 questions, and not one is the same"));
  options.candidates = {"sharp"};
  EXPECT_TRUE(RenderReport(options).ok()) << "the newest job with a question in common";
  options.candidates = {"2/soft"};
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ReportTest, WritesWholeOrNotAtAll) {
  MakePlain();
  ReportOptions options;
  options.database_path = path_;
  options.output_path = testing::TempDir() + "/report_test_out.html";
  ASSERT_TRUE(WriteReport(options).ok());
  const std::string before = ReadFile(options.output_path);
  EXPECT_THAT(before, HasSubstr("<!doctype html>"));
  options.candidates = {"nobody"};
  const absl::Status unknown = WriteReport(options);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no variant \"nobody\", only baseline, sharp, soft"));
  EXPECT_EQ(ReadFile(options.output_path), before);
  options.candidates.clear();
  options.output_path = testing::TempDir() + "/no-such-directory/report.html";
  EXPECT_EQ(WriteReport(options).code(), absl::StatusCode::kNotFound);
  options.confidence = 1.5;
  EXPECT_THAT(std::string(WriteReport(options).message()), HasSubstr("the confidence is 1.5"));
}

TEST_F(ReportTest, EmptyAndMissingDatabasesAreErrors) {
  ReportOptions options;
  options.database_path = path_;
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path_).close();
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::remove(path_);
  { ASSERT_TRUE(db::Writer::Open(path_).ok()); }
  const auto without_jobs = RenderReport(options);
  EXPECT_EQ(without_jobs.status().code(), absl::StatusCode::kNotFound) << without_jobs.status();
}

TEST_F(ReportTest, AJobWithoutAnswersIsAPageThatSaysSo) {
  Made made;
  made.question_count = 0;
  made.answered_of_last_length = 0;
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("sharp cannot be compared with baseline yet"));
  EXPECT_THAT(page, HasSubstr("No sample has been answered yet."));
}

TEST(TextFormatTest, NumbersAsPeopleReadThem) {
  EXPECT_EQ(report::LengthLabel(1024), "1K");
  EXPECT_EQ(report::LengthLabel(131072), "128K");
  EXPECT_EQ(report::LengthLabel(1000), "1,000");
  EXPECT_EQ(report::CountLabel(-1234567), "\u22121,234,567");
  EXPECT_EQ(report::Signed(12.46, 1), "+12.5");
  EXPECT_EQ(report::Signed(-0.04, 1), "0.0");
  EXPECT_EQ(report::Signed(-3, 0), "\u22123");
  EXPECT_EQ(report::PEquals(0.0004), "p\u00A0<\u00A00.001");
  EXPECT_EQ(report::PEquals(0.0123), "p\u00A0=\u00A00.012");
  EXPECT_EQ(report::PValue(1), "1.00");
  EXPECT_EQ(report::JoinWithAnd({"1K", "2K", "4K"}), "1K, 2K and 4K");
  EXPECT_EQ(report::Shorten("a\u00E9b", 2), "a\u2026");
  EXPECT_EQ(report::CsvField("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(report::EscapeLatex("a_b 5 %"), "a\\_b 5 \\%");
  EXPECT_EQ(report::EscapeMarkdownCell("a|b\n<c"), "a\\|b &lt;c");
  EXPECT_EQ(report::TimeLabel(kTimeUs), "2026-11-21 14:30 UTC");
}

TEST(PerplexityTest, IsTheExponentialOfWhatIsEstimated) {
  stats::Comparison row;
  row.baseline_mean = -std::log(20.0);
  row.baseline_interval = {-std::log(25.0), -std::log(16.0)};
  row.candidate_mean = -std::log(10.0);
  row.candidate_interval = {-std::log(12.5), -std::log(8.0)};
  row.difference = std::log(2.0);  // the candidate finds every word twice as likely
  row.low = std::log(0.8);
  row.high = std::log(5.0);
  const report::PerplexityRow read = report::PerplexityOf(row);
  EXPECT_EQ(read.baseline, "20");
  EXPECT_EQ(read.baseline_range, "16 to 25");
  EXPECT_EQ(read.candidate, "10");
  EXPECT_EQ(read.candidate_range, "8 to 12.5");
  EXPECT_EQ(read.ratio, "×0.5");
  EXPECT_EQ(read.low, "×0.2");
  EXPECT_EQ(read.high, "×1.25");
  EXPECT_EQ(report::PerplexityLabel(report::Perplexity(-24.698646306991577)), "5.327e+10");
  EXPECT_FALSE(report::IsLogLikelihood("helmet/rerank/NDCG@10"));
}

TEST(MarkGoldTest, ShortensAroundTheGold) {
  const std::string filler(2000, 'x');
  const std::string text = filler + "<gold>" + filler;
  const std::string marked = report::MarkGold(text, {"<gold>", ""}, 100);
  EXPECT_THAT(marked, HasSubstr("<mark>&lt;gold&gt;</mark>"));
  EXPECT_LT(marked.size(), 160u);
  EXPECT_THAT(marked, testing::StartsWith("\u2026x"));
  EXPECT_THAT(marked, testing::EndsWith("x\u2026"));
  EXPECT_EQ(report::MarkGold("ab", {"z"}, 100), "ab");
  EXPECT_EQ(report::MarkGold("no nose, no", {"no"}, 100), "<mark>no</mark> nose, <mark>no</mark>");
}

TEST(ExcerptTest, KeepsInstructionEvidenceAndQuestion) {
  const std::string evidence = std::string(800, 'x') + " amber-17 " + std::string(800, 'y');
  const std::string html = report::ExcerptHtml(
      "Find the value.\n[... 900 bytes ...]\n" + evidence + "\n[... 70 bytes ...]\nThe value of harbor is",
      {"amber-17"});
  EXPECT_THAT(html, testing::StartsWith("Find the value."));
  EXPECT_THAT(html, HasSubstr("<mark>amber-17</mark>"));
  EXPECT_THAT(html, testing::EndsWith("The value of harbor is"));
  EXPECT_LT(html.size(), 800u);
  EXPECT_EQ(report::ExcerptHtml("a short one", {"short"}), "a <mark>short</mark> one");
  EXPECT_THAT(report::ExcerptHtml(std::string(3000, 'x') + " the end", {}), testing::EndsWith(" the end"));
}

Figure SmallFigure(Figure::Kind kind) {
  Figure figure;
  figure.kind = kind;
  figure.title = "recall_kv <&>";
  figure.y_label = "exact_match, %";
  figure.x_ticks = {1024, 4096, 8192};
  figure.trained_x = 4096;
  figure.series = {{"baseline", 0, {{1024, 95, 90, 98}, {4096, 60, 50, 70}, {8192, 10, 5, 20, true, true}}},
                   {"focal", 1, {{1024, 96, 91, 99}, {4096, 80, 70, 88}, {8192, 12, 6, 22, true}}}};
  if (kind == Figure::Kind::kLinesWithBands) {
    figure.y_high = 100;
    figure.y_step = 25;
  } else {
    figure.has_zero_line = true;
    figure.series = {{"focal", 1, {{1024, 1, -3, 5}, {4096, 20, 10, 30}, {8192, -2, -12, 8}}}};
    figure.y_low = -20;
    figure.y_high = 40;
    figure.y_step = 20;
  }
  return figure;
}

TEST(SvgChartTest, EqualsItsGoldenDrawing) {
  const std::string folder = "tests/testdata/goldens/report/";
  const std::pair<const char*, Figure::Kind> cases[] = {{"lines.svg", Figure::Kind::kLinesWithBands},
                                                        {"points.svg", Figure::Kind::kPointsWithBars}};
  for (const auto& [name, kind] : cases) {
    const std::string drawn = report::DrawChart(SmallFigure(kind), "golden");
    if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) {
      std::filesystem::create_directories(folder);
      std::ofstream(folder + name) << drawn;
    }
    EXPECT_EQ(drawn, ReadFile(folder + name)) << name;
    EXPECT_THAT(drawn, HasSubstr("recall_kv &lt;&amp;&gt;"));
  }
}

TEST(SvgChartTest, PointsStandWhereTheyShould) {
  Figure figure = SmallFigure(Figure::Kind::kLinesWithBands);
  figure.series = {{"one", 0, {{1024, 0, 0, 0}, {8192, 100, 100, 100}}}};
  // Left end of the plot is 46 + 10, right end 460 - (24 + 25) - 10: "one" is (687 + 712 + 678) / 1000 * 11.5 = 23.9
  // wide, rounded up; from y = 242 (bottom) to 46 (top).
  EXPECT_THAT(report::DrawChart(figure, "x"), HasSubstr("<polyline points=\"56,242 402,46\"/>"));
  // A name of a sweep is drawn whole, and its width is that of the widest font.
  figure.series[0].label = "baseline@t=0.85";
  EXPECT_THAT(report::DrawChart(figure, "x"), HasSubstr(">baseline@t=0.85</text>"));
  figure.series.clear();
  EXPECT_EQ(report::DrawChart(figure, "x"), "");
}

}  // namespace
}  // namespace varifocal

// The page of a synthetic job: its content, its reproducibility, and that markup and scripts in answers are inert.
#include "client/report/report.h"
#include "tests/fakes/report_fixture.h"

#include <cstdlib>

#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(ReportTest, SaysWhoWinsWhereAndHowSure) {
  MakePlain();
  const std::string page = Render();
  // At 8K the baseline misses 8 in 10 and sharp answers every second of those.
  EXPECT_THAT(page, MessageIn("sharp", "better", "baseline", "4K and 8K", "2 tasks", "+39.6", "8 tests"));
  EXPECT_THAT(page, MessageIn("Undecided", "1K (0.0;"));
  EXPECT_THAT(page, MessageIn("Undecided", "soft", "baseline", "1K, 2K, 4K and 8K", "2 tasks"));
  EXPECT_THAT(page, MessageIn("constant", 0.4));
  EXPECT_THAT(page, MessageIn("t = 0.7", "learned", "tau_max 8", "causal", "tau_min 3.5"));
  EXPECT_THAT(page, HasSubstr("<li><b>extrapolated</b>"));
  EXPECT_THAT(page, Not(HasSubstr("<li><b>incomplete</b>")));
  EXPECT_THAT(page, MessageIn("Holm", 8, 16));
  EXPECT_THAT(page, Not(HasSubstr("No difference")));
  EXPECT_THAT(page, HasSubstr("<td class=\"n\"><b class=\"better\">better</b><small>"));
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
  if (const char* kept = std::getenv("VARIFOCAL_KEEP_REPORT"); kept != nullptr) testing_support::WriteFile(kept, page);
}

TEST_F(ReportTest, NothingInAnAnswerActs) {
  Make({.question_count = 8, .answer = "</td><script>alert('x')</script><img onerror=\"y\">\x01 & <b>"});
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
  Make({.question_count = 16, .answered_of_last_length = 12, .has_failures = true});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("incomplete", "358 of 384"));
  EXPECT_THAT(page, MessageIn("failed", "2 of 384"));
  EXPECT_THAT(page, MessageIn("failed", "RESOURCE_EXHAUSTED", 2, "8192 tokens need 12 pages, 3 are free"));
  EXPECT_THAT(page, HasSubstr("RESOURCE_EXHAUSTED: 8192 tokens need 12 pages, 3 are free"));
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">incomplete</small>"));
  EXPECT_THAT(page, HasSubstr("<option value=\"failed\">failed</option>"));
}

// Everything that decides the answers is in the line that makes the job again.
TEST_F(ReportTest, TheSubmitLineHasEverySetting) {
  Make({.question_count = 4,
        .command_line = "varifocald --db=results.db --model=baseline=models/baseline",
        .spec_json = R"({"suite":{"epochs":2,"form":"chat","lengths":[1024,2048],"seeds":3,)"
                     R"("tasks":[{"name":"recall_kv","metrics":["exact_match","gold/is_greedy"]}]},)"
                     R"("variants":["baseline","sharp@t=0.5"],"limit":8,"inspect":true,"keep_prompts":false,)"
                     R"("decode":{"min_p":0.05,"sampling_temperature":0.7,"top_k":20,"top_p":0.9}})"});
  EXPECT_THAT(Render(), HasSubstr("varifocal submit quick --models=baseline,sharp@t=0.5 --seed=7 --seeds=3 "
                                  "--epochs=2 --form=chat --lengths=1024,2048 "
                                  "--tasks=recall_kv --limit=8 --score-gold --inspect --sampling-temperature=0.7 "
                                  "--top-k=20 --top-p=0.9 --min-p=0.05\n"));
}

// The line reaches the daemon above it, which runs in the background.
TEST_F(ReportTest, TheSubmitLineNamesItsDaemon) {
  Make({.question_count = 4,
        .command_line = "build/release/bin/varifocald --db=results.db --listen=127.0.0.1:50251",
        .spec_json = R"({"suite":{"lengths":[1024]},"variants":["baseline"]})"});
  EXPECT_THAT(Render(), HasSubstr("--listen=127.0.0.1:50251 &amp;\nvarifocal submit quick --models=baseline --seed=7 "
                                  "--lengths=1024 --daemon=127.0.0.1:50251\n"));
}

// `run` asks the questions itself.
TEST_F(ReportTest, ARunNeedsNoSubmitLine) {
  Make({.question_count = 4, .spec_json = R"({"suite":{"lengths":[1024]},"variants":["baseline"]})"});
  const std::string page = Render();
  EXPECT_THAT(page,
              HasSubstr("<pre class=\"commands\">varifocal run quick --model=models/baseline\nvarifocal compare "));
  EXPECT_THAT(page, Not(HasSubstr("varifocal submit")));
}

// Without inference there is no interval to draw or to print: not one of the whole range.
TEST_F(ReportTest, OneContextHasNoInterval) {
  Make({.question_count = 4, .tasks = {"recall_kv"}});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("sharp", "8K", "+50.0", "no interval"));
  EXPECT_THAT(page, Not(HasSubstr("\u2014 to \u2014")));
  EXPECT_THAT(page, Not(HasSubstr("\u2212100.0 to +100.0")));
  EXPECT_THAT(Render(ReportFormat::kMarkdown),
              HasSubstr("| +50.0 | \u2014 | \u2014 | \u2014 | \u2014 | no verdict | \u2014 |"));
}

// With many candidates the tables of single tasks are folded, each under its outcomes.
TEST_F(ReportTest, ManyCandidatesAreFolded) {
  Make({.question_count = 8, .temperatures = {"0.5", "0.7", "1.2"}});
  const std::string page = Render();
  EXPECT_THAT(page,
              HasSubstr("<details><summary>baseline@t=0.5 against baseline <span class=\"outcome-word\">8 undecided"));
  EXPECT_THAT(page, HasSubstr("<details><summary>Change of each"));
  EXPECT_THAT(page, HasSubstr("<details><summary>Each task</summary>"));
  MakePlain();
  const std::string few = Render();
  EXPECT_THAT(few, HasSubstr("<tr class=\"group\"><th colspan=\"11\">sharp against"));
  EXPECT_THAT(few, Not(HasSubstr("<details><summary>sharp against")));
  EXPECT_THAT(few, Not(HasSubstr("<details><summary>Change of each")));
  EXPECT_THAT(few, HasSubstr("<details><summary>Slope "));
}

// What is on the page is there for programs too.
TEST_F(ReportTest, VerdictsWorkAndDepthsAreRows) {
  Make({.question_count = 16, .has_evidence = true});
  const std::string report = Render(ReportFormat::kJson);
  const std::vector<Json> verdicts = RowsOf("verdict", report), works = RowsOf("work", report);
  EXPECT_EQ(verdicts.size(), 2u);
  for (const Json& row : verdicts) {
    EXPECT_THAT(Render(), HasSubstr(row["headline"].get<std::string>()));
    EXPECT_THAT(Render(ReportFormat::kMarkdown), HasSubstr(row["headline"].get<std::string>()));
  }
  EXPECT_EQ(works.size(), 3u);
  for (const Json& row : works) EXPECT_EQ(row["answer_count"], 2 * 4 * 16);
  const std::vector<Json> depths = RowsOf("depth", report);
  EXPECT_EQ(depths.size(), 3u * 3 * 4 * 4) << "variants, two tasks and their mean, lengths, quarters";
  double deep = 0;
  for (const Json& row : depths) {
    if (row["variant"] == "baseline" && row["task"] == "recall_kv" && row["context_length"] == 8192 &&
        row["depth_low"] == 0.0) {
      deep = row["mean"].get<double>();
      EXPECT_EQ(row["sample_count"], 4);
    }
  }
  EXPECT_EQ(deep, 0.5) << "of questions 0, 4, 8 and 12 the baseline knows 4 and 8";
}

// The last length of an unfinished job: some tasks have answers, and none is complete.
TEST_F(ReportTest, NoVerdictWhereTasksAreUnfinished) {
  Make({.question_count = 16, .answered_of_last_length = 12});
  EXPECT_THAT(Render(), MessageIn("8K", "0 of 2 tasks"));
  const Json rows = ComparisonRows();
  int unfinished_count = 0;
  for (const Json& row : rows) {
    if (row["kind"] != "contrast" && row["context_length"] != 8192) continue;
    EXPECT_EQ(row["unfinished"], true) << row;
    EXPECT_EQ(row["outcome"], "undecided") << row;
    ++unfinished_count;
  }
  EXPECT_EQ(unfinished_count, 2 * (2 + 1 + 6));
}

TEST_F(ReportTest, EmptyAnswersAreCounted) {
  Make({.question_count = 8, .answer = " \n"});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("empty answers", "baseline"));
  const Json rows = ComparisonRows();
  ASSERT_EQ(rows[1]["context_length"], 2048);
  EXPECT_EQ(rows[1]["baseline_empty_count"], 3) << "each wrong answer: 0, 3 and 7";
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">3 empty</small>"));
}

// What was written is shown beside what was taken out of it.
TEST_F(ReportTest, ExtractedAnswersAreShownBesideTheirTexts) {
  Make({.question_count = 8,
        .spec_json = R"({"suite":{"form":"chat","tasks":[{"name":"recall_kv","filters":[{"filter":"last_line"}]}]}})",
        .has_filters = true});
  const std::string page = Render();
  EXPECT_THAT(page, AllOf(HasSubstr("<p>amber-17</p><p class=\"meta\">from: It is"),
                          HasSubstr("harbor.\nAnswer: amber-17</p>")));
  EXPECT_THAT(page, HasSubstr("(unextracted)</p><p class=\"meta\">from: It is stone-02, I think.</p>"));
  EXPECT_THAT(page, HasSubstr(" \u00B7 scored: last_line</p>"));
  EXPECT_THAT(page, HasSubstr("<option value=\"unextracted\">"));
  EXPECT_THAT(page, HasSubstr("varifocal samples quick --form=chat "));
  EXPECT_THAT(page, HasSubstr("<small class=\"flag\">3 unextracted</small>"));
  for (const Json& row : ComparisonRows()) {
    if (row["kind"] != "cell" || row["context_length"] != 2048) continue;
    const bool has_filters = row["task"] == "recall_kv";
    EXPECT_EQ(row["baseline_unextracted_count"], has_filters ? 3 : 0) << row;
    EXPECT_EQ(row["baseline_empty_count"], has_filters ? 0 : 3) << row;
  }
}

// The browser marks answers as they are counted: one that thinks to the limit is no empty one, one of a block alone is, with
// filters too.
TEST_F(ReportTest, TheBrowserMarksThinkingAsItIsCounted) {
  const struct {
    std::string state, raw, name, other;
  } cases[] = {{"unfinished", "<think>Is it stone-02?", "unfinished", "empty"},
               {"closed", "<think>It is stone-02.</think>\n", "empty", "unextracted"}};
  for (const auto& of : cases) {
    SCOPED_TRACE(of.state);
    path_ = directory_.File(of.state);
    Make({.question_count = 8,
          .tasks = {"recall_kv"},
          .spec_json = R"({"suite":{"tasks":[{"name":"recall_kv","filters":[{"filter":"last_line"}]}]},)"
                       R"("thinking_markers":{"baseline":"[\"<think>\",\"</think>\"]",)"
                       R"("sharp":"[\"<think>\",\"</think>\"]","soft":"[\"<think>\",\"</think>\"]"}})",
          .thinking_state = of.state,
          .thinking_raw = of.raw});
    const std::string page = Render();
    EXPECT_THAT(page, HasSubstr(absl::StrCat("<p class=\"error\">(", of.name, ")</p><p class=\"meta\">from: ")));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("<option value=\"", of.name, "\">")));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("data-flags=\"", of.name, "\"")));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("<small class=\"flag\">3 ", of.name, "</small>")));
    EXPECT_THAT(page, Not(HasSubstr(absl::StrCat("<p class=\"error\">(", of.other))));
    EXPECT_THAT(page, Not(HasSubstr(absl::StrCat("<option value=\"", of.other, "\">"))));
  }
}

// Rows of a file may be shorter than their context length.
TEST_F(ReportTest, OnlyLongSamplesAreExtrapolated) {
  Make({.question_count = 8, .has_short_samples = true});
  const std::string page = Render();
  EXPECT_THAT(page, Not(HasSubstr("extrapolated</small>")));
  EXPECT_THAT(page, Not(HasSubstr("<li><b>extrapolated</b>")));
  EXPECT_THAT(page, Not(HasSubstr("beyond training")));
  EXPECT_THAT(Render(ReportFormat::kCsv), Not(HasSubstr("extrapolated")));
}

TEST_F(ReportTest, OneTaskNeedsNoMeanOverTasks) {
  Make({.tasks = {"recall_kv"}});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("sharp", "better", "baseline", "recall_kv"));
  EXPECT_THAT(page, Not(HasSubstr("Over all tasks")));
}

TEST_F(ReportTest, WritesWholeOrNotAtAll) {
  MakePlain();
  ReportOptions options{.database_path = path_, .output_path = directory_.File("out.html")};
  ASSERT_TRUE(WriteReport(options).ok());
  const std::string before = ReadFile(options.output_path);
  EXPECT_THAT(before, HasSubstr("<!doctype html>"));
  options.candidates = {"nobody"};
  EXPECT_THAT(WriteReport(options),
              IsError(absl::StatusCode::kInvalidArgument, Message("nobody", "baseline", "sharp", "soft")));
  EXPECT_EQ(ReadFile(options.output_path), before);
  options.candidates.clear();
  options.output_path = directory_.File("no-such-directory/report.html");
  EXPECT_EQ(WriteReport(options).code(), absl::StatusCode::kNotFound);
  options.confidence = 1.5;
  EXPECT_THAT(WriteReport(options).message(), Message(1.5));
}

TEST_F(ReportTest, ADatabaseIsNeverReplaced) {
  MakePlain();
  const std::string link = absl::StrCat(directory_.path(), ".link"), before = ReadFile(path_);
  std::filesystem::create_symlink(path_, link);
  for (const std::string& path : {path_, absl::StrCat(path_, "-wal"), absl::StrCat(path_, "-shm"), link}) {
    const absl::Status refused = WriteReport({.database_path = path_, .output_path = path});
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_EQ(WriteWhole(path, "x"), refused);
  }
  EXPECT_THAT(WriteWhole(link, "x").message(), Message("database"));
  std::filesystem::remove(link);
  EXPECT_EQ(ReadFile(path_), before);
}

TEST_F(ReportTest, EmptyAndMissingDatabasesAreErrors) {
  const ReportOptions options{.database_path = path_};
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kNotFound);
  testing_support::WriteFile(path_, "");
  EXPECT_EQ(RenderReport(options).status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::remove(path_);
  { ASSERT_TRUE(db::Writer::Open(path_).ok()); }
  const auto without_jobs = RenderReport(options);
  EXPECT_EQ(without_jobs.status().code(), absl::StatusCode::kNotFound) << without_jobs.status();
}

TEST_F(ReportTest, AJobWithoutAnswersIsAPageThatSaysSo) {
  Make({.question_count = 0});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("sharp", "baseline"));
  EXPECT_THAT(page, MessageIn("No sample"));
}

// Prompts of 7 and 8 tokens at 1K to 8K are one test, in words, tables, charts and rows.
TEST_F(ReportTest, ALengthThatNoPromptReachesIsNone) {
  Make({.variants = {"baseline", "sharp"}, .prompt_tokens = 7});
  const std::string page = Render(), markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, MessageIn("baseline", "7 to 8", "2 tasks"));
  EXPECT_THAT(markdown, Not(HasSubstr(" at 8K")));
  EXPECT_THAT(markdown, HasSubstr("| mean over 2 tasks | points | 7 to 8 prompt tokens |"));
  EXPECT_THAT(markdown, Not(HasSubstr("At the shortest"))) << "no effective length";
  EXPECT_THAT(page, MessageIn("prompt lengths", "rag_facts", "7 to 8", "2K, 4K and 8K"));
  EXPECT_THAT(page, Not(HasSubstr("at 8K")));
  EXPECT_THAT(Render(ReportFormat::kLatex), HasSubstr("Model & 7 to 8 prompt tokens"));
  const Json rows = ComparisonRows();
  ASSERT_EQ(rows.size(), 3u) << "two tasks and their mean";
  for (const Json& row : rows) {
    EXPECT_EQ(row["context_length"], 8);
    EXPECT_EQ(row["prompt_tokens_min"], 7);
    EXPECT_EQ(row["prompt_tokens_max"], 8);
    EXPECT_EQ(row["nominal_lengths"], "1024 2048 4096 8192");
  }
  EXPECT_EQ(rows[2]["test_count"], 1);
}

// What "sharp" gains at 8K are the questions that the baseline answers with nothing.
TEST_F(ReportTest, TheHeadlineSaysWhatADifferenceRestsOn) {
  Make({.variants = {"baseline", "sharp"}, .has_empty_answers = true});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  const std::string headline = markdown.substr(0, markdown.find('\n'));
  EXPECT_THAT(headline, Message("sharp", "better", "baseline", "4K and 8K", "38 of 96", 58, "0.0 points"));
  EXPECT_THAT(Render(), MessageIn("white space", "baseline 38 of 96 at 8K"));
  for (const Json& row : ComparisonRows()) {
    if (row["kind"] != "suite_mean") continue;
    const bool is_last = row["context_length"] == 8192;
    EXPECT_EQ(row["outcome_without_empty"], is_last ? Json("undecided") : Json());
    EXPECT_EQ(row["difference_without_empty"], is_last ? Json(0.0) : Json());
    EXPECT_EQ(row["labels"].get<std::string>().find("rests_on_empty") != std::string::npos, is_last);
  }
}

// No single kind explains what "sharp" gains, all three do.
TEST_F(ReportTest, ADifferenceMayRestOnSeveralKinds) {
  Make({.variants = {"baseline", "sharp"}, .has_mixed_answers = true});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, MessageIn("8K", "empty answers, refusals or cut answers"));
  for (const Json& row : ComparisonRows()) {
    if (row["kind"] != "suite_mean") continue;
    const bool is_last = row["context_length"] == 8192;
    const std::string labels = row["labels"];
    EXPECT_EQ(labels.find("rests_on_several") != std::string::npos, is_last);
    EXPECT_EQ(labels.find("rests_on_empty"), std::string::npos);
    EXPECT_EQ(row["outcome_without_several"], is_last ? Json("undecided") : Json());
    EXPECT_EQ(row["difference_without_several"], is_last ? Json(0.0) : Json());
  }
  const std::string latex = Render(ReportFormat::kLatex);
  EXPECT_THAT(latex, HasSubstr("\\ddagger}$"));
  EXPECT_THAT(latex, MessageIn("\\ddagger$", "empty answers, refusals or cut answers"));
}

// The change from 1K to 8K is made of empty answers too: sentence and notes say it.
TEST_F(ReportTest, AChangeMayRestOnEmptyAnswers) {
  Make({.variants = {"baseline", "sharp"}, .has_empty_answers = true});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, MessageIn("towards sharp", "baseline 38 of 96 at 8K"));
  const size_t row = markdown.find(" tasks | 1K");
  ASSERT_NE(row, std::string::npos);
  EXPECT_THAT(markdown.substr(row, markdown.find("\n", row) - row), HasSubstr("rests_on_empty"));
}

// Samples without a worst value are left out, not counted; the headline has them.
TEST_F(ReportTest, WithoutBoundsFailuresAreLeftOut) {
  Make({.has_failures = true, .variants = {"baseline", "sharp"}, .has_bounds = false});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(Render(), MessageIn("2 of 768", "no metric"));
  EXPECT_THAT(Render(), MessageIn("A failed answer", "mean"));
  EXPECT_THAT(markdown.substr(0, markdown.find('\n')), Message("sharp", "2 of 384"));
  EXPECT_THAT(markdown, Not(HasSubstr("Equivalent: within")));
}

// A cell of one context in a finished job is no unfinished one.
TEST_F(ReportTest, OneContextIsNotUnfinished) {
  Make({.question_count = 4, .variants = {"baseline", "sharp"}});
  const std::string latex = Render(ReportFormat::kLatex);
  EXPECT_THAT(latex, MessageIn("$\\diamond$"));
  EXPECT_THAT(latex, Not(HasSubstr("unfinished")));
}

TEST_F(ReportTest, TheHeadlineNamesFailuresWhateverTheOutcome) {
  Make({.question_count = 8, .has_failures = true, .variants = {"baseline", "sharp"}});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  const std::string headline = markdown.substr(0, markdown.find('\n'));
  EXPECT_THAT(headline, Message("Undecided", "sharp", "baseline", "2 of 16", "8K"));
}

// A finished job of metrics without bounds is compared by its cells.
TEST_F(ReportTest, WithoutBoundsTheCellsAreTheVerdict) {
  Make({.variants = {"baseline", "sharp"}, .has_bounds = false});
  const std::string markdown = Render(ReportFormat::kMarkdown);
  EXPECT_THAT(markdown, Not(HasSubstr(" yet")));
  EXPECT_THAT(markdown, MessageIn("sharp", "baseline", 8, "4 better", "4 no verdict"));
  EXPECT_THAT(markdown, MessageIn("log_score", "recall_kv", "at 4K", "+0.235"));
  EXPECT_THAT(markdown, MessageIn("differences are equal"));
  EXPECT_THAT(markdown, Not(HasSubstr("however large")));
}

}  // namespace
}  // namespace varifocal

// Attention beside the scores: the section of the page, its rows in JSON, and strips.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/report/charts/attention_strip.h"
#include "client/report/data/attention_heads.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(ReportTest, AttentionIsJoinedWithTheScore) {
  Make({.has_evidence = true, .has_attention = true});
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("Attention to"));
  // A quarter of the heads have one half of their weight there; at 1K every answer is right.
  EXPECT_THAT(page, MessageIn("baseline", "12.5 %", "1K", "128 and 1024"));
  EXPECT_THAT(page, HasSubstr("L1 H1"));
  EXPECT_THAT(page, HasSubstr("chart strip"));
  EXPECT_THAT(page, HasSubstr("baseline, recall_kv at 8K, question 0, score "));

  const std::vector<Json> rows = RowsOf("attention", Render(ReportFormat::kJson));
  EXPECT_EQ(rows.size(), 3u * 4 * (1 + 2 + 1))
      << "three variants, four lengths: all heads, two layers, the strongest head";
  for (const Json& row : rows) {
    if (row["variant"] != "baseline" || !row["layer"].is_null() || row["context_length"] != 8192) continue;
    // At 8K right answers have an eighth of the 1K's mass, wrong ones half of that.
    EXPECT_NEAR(row["evidence_mass_right"].get<double>(), 0.125 / 8, 1e-12);
    EXPECT_NEAR(row["evidence_mass_wrong"].get<double>(), 0.125 / 16, 1e-12);
    EXPECT_NEAR(row["distractor_mass"].get<double>(), 0.25, 1e-12);
    EXPECT_TRUE(row["question_mass"].is_null());
    EXPECT_NEAR(row["effective_keys"].get<double>(), 1024, 1e-9);
    EXPECT_EQ(row["answer_count"], 96);
  }
}

// Means over other questions are not compared: neither in a sentence nor, unmarked, in a chart.
TEST_F(ReportTest, AttentionOverUnequalTasksIsIncomplete) {
  Made made{.question_count = 8,
            .variants = {"baseline", "sharp"},
            .has_evidence = true,
            .has_attention = true,
            .unanswered = {{"rag_facts", 2048}, {"rag_facts", 4096}, {"rag_facts", 8192}}};
  Make(made);
  std::string page = Render();
  EXPECT_THAT(page, MessageIn("baseline", "2K, 4K and 8K"));
  EXPECT_THAT(page, Not(HasSubstr(": over all")));
  EXPECT_THAT(page, HasSubstr("<td class=\"open\" style=\"--v:0\""));
  EXPECT_THAT(page, MessageIn("Dashed cells"));
  const std::string directory = directory_.File("figures");
  ASSERT_TRUE(WriteFigures({.database_path = path_}, directory).ok());
  for (const char* name : {"attention-Over-all-heads", "attention-Head-with-the-most-on-the-evidence"}) {
    const std::string csv = ReadFile(absl::StrCat(directory, "/", name, ".csv"));
    EXPECT_THAT(csv, HasSubstr("baseline,1024.0,")) << name;
    for (absl::string_view line : absl::StrSplit(csv, '\n', absl::SkipEmpty())) {
      if (absl::StrContains(line, ",1024.0,")) {
        EXPECT_TRUE(absl::EndsWith(line, ",,,0,0")) << line << ": no interval, complete";
      } else if (absl::StrContains(line, ".0,")) {
        EXPECT_TRUE(absl::EndsWith(line, ",,,0,1")) << line << ": incomplete";
      }
    }
  }
  const std::string svg = ReadFile(directory + "/attention-Over-all-heads.svg");
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"open\""));
  EXPECT_THAT(svg, Not(HasSubstr("<polyline points"))) << "no two points have the same tasks";
  const auto json = ParseJson(Render(ReportFormat::kJson));
  int incomplete = 0;
  for (const Json& row : *json) {
    if (row["kind"] != "attention" && row["kind"] != "depth") continue;
    if (row["kind"] == "depth" && row["task"] == "recall_kv") {
      EXPECT_EQ(row["incomplete"], false) << "this task is complete by itself";
    } else {
      EXPECT_EQ(row["incomplete"], row["context_length"] != 1024) << row;
      incomplete += row["incomplete"] == true ? 1 : 0;
    }
  }
  EXPECT_GT(incomplete, 0);

  // Of three complete lengths the sentence has the first and the last.
  path_ = directory_.File("three_lengths.db");
  made.unanswered = {{"rag_facts", 8192}};
  Make(made);
  page = Render();
  EXPECT_THAT(page, MessageIn("baseline", "missing", "8K"));
  EXPECT_THAT(page, testing::ContainsRegex("baseline: over all heads [0-9.]+ % of the weight is on the evidence at 1K "
                                           "and [0-9.]+ % at 4K"));
}

TEST_F(ReportTest, WithoutInspectionThereIsNoAttention) {
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("Attention to")));
  EXPECT_THAT(Render(ReportFormat::kJson), Not(HasSubstr("\"attention\"")));
}

TEST(AttentionStripTest, DrawsRunsOfOneShadeAndMarksTheEvidence) {
  ASSIGN_OR_FAIL(const auto row,
                 report::ToStripRow({.layer = 2, .head = 1, .evidence_mass = 0.5, .strip = "ffffef000000"}));
  EXPECT_THAT(row.masses, testing::ElementsAre(1, 1, 0.5, 0, 0, 0));
  const std::string svg = report::DrawStrip("<a & b>", {.token_count = 600, .evidence = {{300, 310}}}, {row}, true);
  EXPECT_THAT(svg, HasSubstr("&lt;a &amp; b&gt;"));
  EXPECT_THAT(svg, HasSubstr("L2 H1"));
  EXPECT_THAT(svg, HasSubstr("50.0 %"));
  EXPECT_THAT(svg, HasSubstr("xmlns"));
  size_t masses = 0, evidence = 0;
  for (size_t at = 0; (at = svg.find("class=\"mass\"", at)) != std::string::npos; ++at) ++masses;
  for (size_t at = 0; (at = svg.find("class=\"evidence\"", at)) != std::string::npos; ++at) ++evidence;
  EXPECT_EQ(masses, 2u) << "two bins of one shade are one rectangle";
  EXPECT_EQ(evidence, 2u) << "above and below";
  EXPECT_EQ(report::ToStripRow({.strip = "xy"}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(AttentionStripTest, AManyHeadedModelShowsTheStrongestHeadOfEachLayer) {
  std::vector<report::StripRow> rows;
  for (int head = 0; head < 6; ++head) rows.push_back({head / 3, head % 3, {0.1}, head == 1 || head == 5 ? 0.4 : 0.1});
  const auto strongest = report::StrongestOfEachLayer(rows);
  ASSERT_EQ(strongest.size(), 2u);
  EXPECT_EQ(strongest[0].head, 1);
  EXPECT_EQ(strongest[1].head, 2);
}

}  // namespace
}  // namespace varifocal

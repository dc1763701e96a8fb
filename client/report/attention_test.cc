// Attention beside the scores: the section of the page, its rows in JSON, and strips.
#include "base/json.h"
#include "client/report/attention_strip.h"
#include "client/report/report_fixture.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(ReportTest, AttentionIsJoinedWithTheScore) {
  Made made;
  made.has_evidence = true;
  made.has_attention = true;
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("Attention to the evidence"));
  // A quarter of the heads have one half of their weight there; at 1K every answer is right.
  EXPECT_THAT(page, HasSubstr("baseline: over all heads 12.5 % of the weight is on the evidence at 1K and "));
  EXPECT_THAT(page, HasSubstr("effective keys: 128 and 1024."));
  EXPECT_THAT(page, HasSubstr("L1 H1"));
  EXPECT_THAT(page, HasSubstr("chart strip"));
  EXPECT_THAT(page, HasSubstr("baseline, recall_kv at 8K, question 0, score "));

  const auto json = ParseJson(Render(ReportFormat::kJson));
  ASSERT_TRUE(json.ok()) << json.status();
  int count = 0;
  for (const Json& row : *json) {
    if (row["kind"] != "attention") continue;
    ++count;
    if (row["variant"] != "baseline" || !row["layer"].is_null() || row["context_length"] != 8192) continue;
    // At 8K right answers have an eighth of the 1K's mass, wrong ones half of that.
    EXPECT_NEAR(row["evidence_mass_right"].get<double>(), 0.125 / 8, 1e-12);
    EXPECT_NEAR(row["evidence_mass_wrong"].get<double>(), 0.125 / 16, 1e-12);
    EXPECT_NEAR(row["distractor_mass"].get<double>(), 0.25, 1e-12);
    EXPECT_TRUE(row["question_mass"].is_null());
    EXPECT_NEAR(row["effective_keys"].get<double>(), 1024, 1e-9);
    EXPECT_EQ(row["answer_count"], 96);
  }
  EXPECT_EQ(count, 3 * 4 * (1 + 2 + 1)) << "three variants, four lengths: all heads, two layers, the strongest head";
}

TEST_F(ReportTest, WithoutInspectionThereIsNoAttention) {
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("Attention to the evidence")));
  EXPECT_THAT(Render(ReportFormat::kJson), Not(HasSubstr("\"attention\"")));
}

TEST(AttentionStripTest, DrawsRunsOfOneShadeAndMarksTheEvidence) {
  const auto row = report::ToStripRow({.layer = 2, .head = 1, .evidence_mass = 0.5, .strip = "ffffef000000"});
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_THAT(row->masses, testing::ElementsAre(1, 1, 0.5, 0, 0, 0));
  const std::string svg = report::DrawStrip("<a & b>", {.token_count = 600, .evidence = {{300, 310}}}, {*row}, true);
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

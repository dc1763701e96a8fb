// A sweep of run-time temperatures, and depth maps: grouping and order of variants, and the texts of the page.
#include "client/report/sweep.h"

#include "client/report/depth_map.h"
#include "client/report/report_fixture.h"

namespace varifocal {
namespace {

using report::RunTemperature;
using testing::HasSubstr;
using testing::Not;

db::VariantRecord Variant(const std::string& name, const std::string& attention, std::optional<std::string> run = {}) {
  db::VariantRecord variant;
  variant.name = name;
  variant.model.attention_json = attention;
  variant.focal_temperature_json = std::move(run);
  return variant;
}

TEST(SweepTest, TheTemperatureOfAVariant) {
  const std::string constant = R"({"focal_attention":{"mode":"constant","temperature":0.4}})";
  EXPECT_EQ(RunTemperature(Variant("a", "{}")), 1.0);
  EXPECT_EQ(RunTemperature(Variant("a@t=0.7", "{}", "0.7")), 0.7);
  EXPECT_EQ(RunTemperature(Variant("b", constant)), 0.4);
  EXPECT_EQ(RunTemperature(Variant("b@t=1", constant, "1")), 1.0);
  EXPECT_EQ(RunTemperature(Variant("b@t=1,2", constant, "[1,2]")), std::nullopt);
  EXPECT_EQ(RunTemperature(Variant("c", R"({"focal_attention":{"mode":"learned","tau_min":3.5}})")), std::nullopt);
  EXPECT_EQ(RunTemperature(Variant("d@log-n=4096", "{}")), std::nullopt);
}

TEST_F(ReportTest, ASweepIsOneHeadlineOneTableAndAPlotALength) {
  Made made;
  made.question_count = made.answered_of_last_length = 16;
  made.temperatures = {"1.2", "0.5", "0.7"};
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<h1>sharp is better than baseline"));
  EXPECT_THAT(page, HasSubstr("baseline at 4 temperatures from 0.5 to 1.2, against baseline at 4 lengths: "));
  EXPECT_THAT(page, Not(HasSubstr("<p class=\"headline\">Undecided whether baseline@t=")));
  EXPECT_THAT(page, HasSubstr("<h2>Temperature sweep</h2>"));
  EXPECT_THAT(page, HasSubstr("<a href=\"#sweep\">Temperature sweep</a>"));
  EXPECT_THAT(page, HasSubstr(">Score by temperature at 8K</text>"));
  EXPECT_THAT(page, HasSubstr("<b>run with a setting it was not trained with</b> soft was trained with focal attention "
                              "(learned, tau_max 8.0, "
                              "tau_mean causal, tau_min 3.5); baseline@t=1.2, baseline@t=0.5 and baseline@t=0.7 were "
                              "trained without focal attention."));
  EXPECT_THAT(page, Not(HasSubstr(">baseline@t=0.5</text>"))) << "a chart of lengths shows what is not swept";
  const std::string table = page.substr(page.find("class=\"data sweep\""));
  EXPECT_LT(table.find("<td class=\"n\">0.5</td>"), table.find("<td class=\"n\">0.7</td>"));
  EXPECT_LT(table.find("<td class=\"n\">0.7</td>"), table.find("<td class=\"n\">1.0<small>as trained</small></td>"));
  EXPECT_LT(table.find("<td class=\"n\">1.0<small>"), table.find("<td class=\"n\">1.2</td>"));
}

TEST_F(ReportTest, NoSweepWithoutTemperatures) {
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("Temperature sweep")));
}

TEST_F(ReportTest, DepthByLength) {
  Made made;
  made.question_count = made.answered_of_last_length = 16;
  made.tasks = {"recall_kv"};
  made.has_evidence = true;
  Make(made);
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<h2>Score by depth of the evidence</h2>"));
  // At 8K the baseline is right about questions 4, 8, 11 and 15 of 16: half of those at the start and at three quarters.
  EXPECT_THAT(page, testing::ContainsRegex("<caption>baseline</caption>"));
  EXPECT_THAT(page, HasSubstr("style=\"--v:50\" title=\"4 questions\">50</td></tr>\n<tr><th>second"));
  EXPECT_THAT(page, HasSubstr("evidence at 50 %"));
}

}  // namespace
}  // namespace varifocal

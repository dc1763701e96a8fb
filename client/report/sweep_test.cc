// A sweep of run-time temperatures, and depth maps: grouping and order of variants, and the texts of the page.
#include "client/report/data/sweep.h"

#include "client/report/charts/sweep_figures.h"
#include "client/report/data/report_data.h"
#include "client/report/page/figure_files.h"
#include "db/trained_temperature.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

db::VariantRecord Variant(const std::string& name, const std::string& attention) {
  db::VariantRecord variant;
  variant.name = name;
  variant.model.attention_json = attention;
  return variant;
}

TEST(SweepTest, TheSettingOfAVariant) {
  const auto run = [](const std::string& name) {
    const std::optional<report::SweptValue> found = report::SweptValueOf(Variant(name, "{}"));
    return found.has_value() ? absl::StrCat(found->setting->name, " ", found->value) : "none";
  };
  EXPECT_EQ(run("a@yarn=4"), "yarn 4");
  EXPECT_EQ(run("a@rope-theta=1000000"), "rope-theta 1e+06");
  EXPECT_EQ(run("a@t=0.7"), "t 0.7");
  EXPECT_EQ(run("a@full-t=1"), "full-t 1");
  EXPECT_EQ(run("a@late-t=1e-1"), "late-t 0.1");
  for (const char* other : {"a", "a@t=1,2", "a@log-n=4096", "a@t=0.7@log-n=4096", "a@early-t=1@late-t=2"})
    EXPECT_EQ(run(other), "none") << other;
}

// A rotation is swept like a temperature; a checkpoint as trained is the point of an unscaled rotation, or of its own base.
TEST(SweepTest, RotationsOfACheckpoint) {
  report::ReportData data;
  const auto add = [&](const std::string& name, const std::string& ropes) {
    db::VariantRecord variant = Variant(name, "{}");
    variant.model.name = "a";
    variant.model.function_json = absl::StrCat(R"({"ropes":")", ropes, R"("})");
    data.variants.push_back(variant);
    data.keys.push_back({1, name});
  };
  data.job.job_id = 1;
  add("a", "default theta=500000; default theta=10000");
  for (const char* run : {"a@yarn=4", "a@yarn=2", "a@rope-theta=1000000", "a@rope-theta=250000"}) add(run, "");
  std::vector<report::Sweep> sweeps = report::FindSweeps(data);
  ASSERT_EQ(sweeps.size(), 2u);
  const auto values = [](const report::Sweep& sweep) {
    std::string text = absl::StrCat(sweep.setting->name, ":");
    for (const report::SweepPoint& point : sweep.points)
      absl::StrAppend(&text, " ", static_cast<int64_t>(point.value), point.is_as_trained ? " as trained" : "");
    return text;
  };
  EXPECT_EQ(values(sweeps[0]), "yarn: 1 as trained 2 4");
  EXPECT_EQ(values(sweeps[1]), "rope-theta: 250000 500000 as trained 1000000");
  EXPECT_EQ(report::SweptNoun(sweeps), "value");
  data.lengths = {1024, 8192};
  EXPECT_EQ(report::SweepFigures(sweeps, data).size(), 4u) << "of each axis a figure a length";
  EXPECT_TRUE(report::FigureFiles(data).empty()) << "none has a point";
  data.variants[0].model.function_json = R"({"ropes":"llama3 theta=500000 factor=8"})";
  sweeps = report::FindSweeps(data);
  ASSERT_EQ(sweeps.size(), 1u) << "two factors and no unscaled rotation are no sweep";
  EXPECT_EQ(values(sweeps[0]), "rope-theta: 250000 500000 as trained 1000000");
}

// Caps and sinks are swept too; a checkpoint without one has no value on their axes.
TEST(SweepTest, CapsAndSinksOfACheckpoint) {
  report::ReportData data;
  data.job.job_id = 1;
  for (const char* name :
       {"a", "a@softcap=50", "a@softcap=20", "a@softcap=30", "a@sink=0", "a@sink=-2.5", "a@sink=3", "a@log-n=4096"}) {
    db::VariantRecord variant = Variant(name, "{}");
    variant.model.name = "a";
    data.variants.push_back(variant);
    data.keys.push_back({1, name});
  }
  const auto values = [](const report::Sweep& sweep) {
    std::string text = absl::StrCat(report::AxisOf(*sweep.setting), ":");
    for (const report::SweepPoint& point : sweep.points)
      absl::StrAppend(&text, " ", point.value, point.is_as_trained ? " as trained" : "");
    return text;
  };
  std::vector<report::Sweep> sweeps = report::FindSweeps(data);
  ASSERT_EQ(sweeps.size(), 2u);
  EXPECT_EQ(values(sweeps[0]), "soft-cap at run time: 20 30 50");
  EXPECT_EQ(values(sweeps[1]), "sink logit at run time: -2.5 0 3");
  data.lengths = {1024};
  const std::vector<report::Figure> figures = report::SweepFigures(sweeps, data);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_FALSE(figures[0].x_is_linear);
  EXPECT_TRUE(figures[1].x_is_linear) << "a logit may be 0";
  EXPECT_EQ(report::TrainedLabel(data.variants[1]), "trained without a soft-cap of scores");
  EXPECT_EQ(report::TrainedLabel(data.variants[4]), "trained without a sink");
  EXPECT_EQ(report::TrainedLabel(data.variants[7]), "trained without log-n scaling");

  for (db::VariantRecord& variant : data.variants) {
    variant.model.attention_json = R"({"attention_sink":{"logit":1,"mode":"constant"}})";
    variant.model.function_json = R"({"blocks":{"score_soft_cap":40.0}})";
  }
  sweeps = report::FindSweeps(data);
  EXPECT_EQ(values(sweeps[0]), "soft-cap at run time: 20 30 40 as trained 50") << "Gemma 2's own";
  EXPECT_EQ(values(sweeps[1]), "sink logit at run time: -2.5 0 1 as trained 3");
}

TEST(SweepTest, TheTemperatureOfACheckpoint) {
  EXPECT_EQ(db::TrainedTemperature("{}"), 1.0);
  EXPECT_EQ(db::TrainedTemperature(R"({"focal_attention":{"mode":"constant","temperature":0.4}})"), 0.4);
  EXPECT_EQ(db::TrainedTemperature(R"({"focal_attention":{"mode":"constant","temperature":[1,2]}})"), std::nullopt);
  EXPECT_EQ(db::TrainedTemperature(R"({"focal_attention":{"mode":"full_layers_only","temperature":1}})"), std::nullopt);
  EXPECT_EQ(db::TrainedTemperature(R"({"focal_attention":{"mode":"learned","tau_min":3.5}})"), std::nullopt);
  EXPECT_EQ(db::TrainedTemperature("damaged"), std::nullopt);
}

TEST_F(ReportTest, ASweepWithoutAFinishedMeanHasNoVerdictYet) {
  Make({.question_count = 8,
        .temperatures = {"1.2", "0.5"},
        .unanswered = {{"rag_facts", 1024}, {"rag_facts", 2048}, {"rag_facts", 4096}, {"rag_facts", 8192}}});
  EXPECT_THAT(Render(), MessageIn("2 temperatures", "0.5 to 1.2", "baseline", "4 lengths", "no verdict"));
}

TEST_F(ReportTest, ASweepIsOneHeadlineOneTableAndAPlotALength) {
  Make({.question_count = 16, .temperatures = {"1.2", "0.5", "0.7"}});
  const std::string page = Render();
  EXPECT_THAT(page, MessageIn("sharp", "better", "baseline"));
  EXPECT_THAT(page, MessageIn("3 temperatures", "0.5 to 1.2", "baseline", "4 lengths"));
  EXPECT_THAT(page, Not(HasSubstr("<p class=\"headline\">Undecided whether baseline@t=")));
  EXPECT_THAT(page, HasSubstr("<h2>Temperature sweep</h2>"));
  EXPECT_THAT(page, HasSubstr("<a href=\"#sweep\">Temperature sweep</a>"));
  EXPECT_THAT(page, HasSubstr("temperature at 8K</text>"));
  EXPECT_THAT(page, MessageIn("soft", "learned", "tau_max 8", "causal", "tau_min 3.5",
                              "baseline@t=1.2, baseline@t=0.5 and baseline@t=0.7"));
  EXPECT_THAT(page, Not(HasSubstr(">baseline@t=0.5</text>"))) << "a chart of lengths shows what is not swept";
  // All are equal, so it stays as it was trained.
  EXPECT_THAT(page, MessageIn("1K, 2K, 4K and 8K", "baseline", "higher"));
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">1<small>as trained</small></td><td class=\"n minor\">0.0"));
  EXPECT_THAT(page, MessageIn("as trained", "higher", "tested"));
  EXPECT_THAT(page, HasSubstr("<h3>Chosen on"));
  int chosen_count = 0;
  for (size_t at = page.find("class=\"chosen\""); at != std::string::npos; at = page.find("class=\"chosen\"", at + 1))
    ++chosen_count;
  EXPECT_EQ(chosen_count, 4) << "one at each length";
  const std::string table = page.substr(page.find("class=\"data sweep\""));
  EXPECT_LT(table.find("<td class=\"n\">0.5</td>"), table.find("<td class=\"n\">0.7</td>"));
  EXPECT_LT(table.find("<td class=\"n\">0.7</td>"), table.find("<td class=\"n\">1<small>as trained</small></td>"));
  EXPECT_LT(table.find("<td class=\"n\">1<small>"), table.find("<td class=\"n\">1.2</td>"));
}

// A choice is a row for programs too: the number of tests is that of lengths.
TEST_F(ReportTest, ChoicesAreRows) {
  Make({.question_count = 16, .temperatures = {"0.5", "0.7"}});
  int choice_count = 0;
  const Json rows = ComparisonRows();
  for (const Json& row : rows) {
    EXPECT_EQ(row["choice_difference"].is_null(), row["kind"] != "choice");
    if (row["kind"] != "choice") continue;
    ++choice_count;
    EXPECT_EQ(row["candidate"], "baseline") << "the others are its equals";
    EXPECT_TRUE(row["difference"].is_null());
    EXPECT_TRUE(row["p_adjusted"].is_null());
  }
  EXPECT_EQ(choice_count, 4);
}

// Against another model the temperatures compete among themselves: of equal ones the nearest to the trained one.
TEST_F(ReportTest, TheNearestOfEqualTemperaturesIsChosen) {
  Make({.question_count = 16, .temperatures = {"0.3", "1.2", "0.7"}});
  const std::vector<Json> choices =
      RowsOf("choice", Render(ReportFormat::kJson, "sharp", {"baseline@t=0.3", "baseline@t=1.2", "baseline@t=0.7"}));
  EXPECT_EQ(choices.size(), 4u);
  for (const Json& row : choices) {
    EXPECT_EQ(row["candidate"], "baseline@t=1.2") << "ln 1.2 is nearer to 0 than ln 0.7";
    EXPECT_EQ(row["test_count"], 4);
    EXPECT_EQ(row["sample_count"], 16) << "half of two tasks' 16 questions";
    EXPECT_TRUE(row["baseline_failed_count"].is_null());
  }
}

// Two sweeps of one model: each has its own colour and marker, and every task is drawn at the longest length.
TEST_F(ReportTest, SweepsOfOneModelDifferInColour) {
  Make({.question_count = 16, .temperatures = {"0.5", "0.7"}, .late_temperatures = {"0.5", "0.7"}});
  const std::string page = Render();
  const size_t begin = page.find("temperature at 8K</text>");
  const std::string chart = page.substr(begin, page.find("</svg>", begin) - begin);
  EXPECT_THAT(chart, testing::ContainsRegex("<g class=\"series c0\">.*>baseline</text>"));
  EXPECT_THAT(chart, testing::ContainsRegex("<g class=\"series c3\">.*>baseline, late layers</text>"));
  EXPECT_THAT(page, HasSubstr(">recall_kv at 8K</text>"));
}

TEST_F(ReportTest, NoSweepWithoutTemperatures) {
  MakePlain();
  EXPECT_THAT(Render(), Not(HasSubstr("Temperature sweep")));
}

TEST_F(ReportTest, DepthByLength) {
  Make({.question_count = 16, .tasks = {"recall_kv"}, .has_evidence = true});
  const std::string page = Render();
  EXPECT_THAT(page, HasSubstr("<h2>Score by depth"));
  // At 8K the baseline is right about questions 4, 8, 11 and 15 of 16: half of those at the start and at three quarters.
  EXPECT_THAT(page, testing::ContainsRegex("<caption>baseline</caption>"));
  EXPECT_THAT(page, HasSubstr("style=\"--v:50\" title=\"4 questions\">50</td></tr>\n<tr><th>second"));
  EXPECT_THAT(page, HasSubstr("evidence at 50 %"));
}

}  // namespace
}  // namespace varifocal

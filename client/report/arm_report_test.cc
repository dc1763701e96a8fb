// Arms and axes of a report. Method: a job whose values are known (db/fakes/fake_arms.h), and numbers verified by hand, in
// every output format; jobs without arms, and with one run an arm, as controls.
#include "client/report/data/arm_report.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "client/report/data/arm_labels.h"
#include "client/report/data/arm_rows.h"
#include "client/report/data/text_format.h"
#include "db/fakes/fake_arms.h"
#include "db/sqlite/database.h"
#include "db/stats/labels.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Words of the table that rows of cells read, so that its legend explains them.
TEST(ArmLabels, WordsAreThoseOfTheTable) {
  stats::ArmComparison comparison;
  comparison.baseline.runs.resize(2);
  comparison.candidate.runs.resize(2);
  stats::ArmRow row;
  row.can_infer = row.failures_decide = row.is_fragile = true;
  const std::vector<std::string> labels = report::ArmLabels(comparison, row);
  ASSERT_EQ(labels.size(), 2u);
  for (const std::string& word : labels) EXPECT_EQ(stats::LabelOf(word).word, word);
}

class ArmReportTest : public ReportTest {
 protected:
  std::string Report(ReportFormat format, const std::string& axis = "") {
    options_.format = format;
    options_.axis = axis;
    auto bytes = RenderReport(options_);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  }
  // The JSON rows of a kind.
  std::vector<Json> RowsOf(const std::string& kind, const std::string& axis = "") {
    return ReportTest::RowsOf(kind, Report(ReportFormat::kJson, axis));
  }
  ReportOptions options_{.database_path = path_};
};

TEST_F(ArmReportTest, ArmsAreComparedOverSeedsAtEveryPoint) {
  db::WriteFakeArms(path_);
  const std::vector<Json> means = RowsOf("arm_mean");
  ASSERT_EQ(means.size(), 3u) << "one for each number of tokens";
  EXPECT_EQ(means[0]["baseline"], "plain");
  EXPECT_EQ(means[0]["candidate"], "focal");
  EXPECT_EQ(means[0]["training_tokens"], 1000);
  EXPECT_EQ(means[2]["training_tokens"], 4000);
  EXPECT_NEAR(means[0]["difference"].get<double>(), 0.25, 1e-12);  // 3, 6 and 9 of 24
  EXPECT_EQ(means[0]["candidate_seeds"], "1, 2, 3");
  EXPECT_EQ(means[0]["paired_by_seed"], true);
  EXPECT_EQ(means[0]["test_count"], 3);
  EXPECT_EQ(means[0]["p_sign_flip"], 0.25);
  for (const Json& row : RowsOf("arm_cell")) {
    EXPECT_EQ(row["p_value"].get<double>() < 0.05, row["low"].get<double>() > 0 || row["high"].get<double>() < 0);
    EXPECT_EQ(row.size(), report::ArmResultKeys().size()) << "every row has every key";
  }
  const std::string page = Report(ReportFormat::kHtml);
  EXPECT_THAT(page, MessageIn("focal", "plain", "3 comparisons", "3 undecided"));
  EXPECT_THAT(page, MessageIn("1K tokens", "at 1K", "+25.0 points"));
  EXPECT_THAT(page, HasSubstr("<h2>Over training seeds</h2>"));
  EXPECT_THAT(page, HasSubstr("3 seeds, paired<small>6 contexts</small>"));
  EXPECT_THAT(page, MessageIn("plain-s1-1000,"));
  EXPECT_THAT(Report(ReportFormat::kMarkdown),
              MessageIn("| focal | 1K tokens | ", " | 1K | 3 seeds, paired | 50.0 | 75.0 | +25.0 |"));
}

TEST_F(ArmReportTest, TheEqualLossRatioIsThatOfTheWrittenValues) {
  db::WriteFakeArms(path_);
  std::vector<Json> ratios;
  for (const Json& row : RowsOf("equal_loss_ratio")) {
    if (row["metric"] == "gold/log_likelihood") ratios.push_back(row);
  }
  ASSERT_EQ(ratios.size(), 3u);
  // Logarithms to base 2 of the seeds' ratios: 0.4, 0.5, 0.6.
  EXPECT_NEAR(ratios[0]["ratio"].get<double>(), std::exp2(0.5), 1e-9);
  const double half = 4.302652730 * 0.1 / std::sqrt(3.0);  // t of two degrees of freedom
  EXPECT_NEAR(std::log2(ratios[0]["ratio_low"].get<double>()), 0.5 - half, 1e-8);
  EXPECT_NEAR(std::log2(ratios[0]["ratio_high"].get<double>()), 0.5 + half, 1e-8);
  EXPECT_EQ(ratios[0]["axis"], "tokens");
  EXPECT_EQ(ratios[0]["axis_value"], 1000);
  // At the most tokens the plain arm never reaches focal's value.
  EXPECT_EQ(ratios[2]["ratio"], nullptr);
  EXPECT_EQ(ratios[2]["ratio_problem"], "censored");
  EXPECT_EQ(ratios[2]["above_count"], 3);
  EXPECT_NEAR(ratios[2]["ratio_at_least"].get<double>(), 1, 1e-12);
  const std::string page = Report(ReportFormat::kHtml);
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>By training tokens</h2>"), HasSubstr("<h3>Equal-loss ratio</h3>"),
                          HasSubstr("×1.41 (1.19 to 1.68)"), MessageIn("3 of 3 seeds", "×1")));
  EXPECT_THAT(Report(ReportFormat::kMarkdown), HasSubstr("×1.41 (1.19 to 1.68)"));
}

// The second would have replaced the first: their titles are one.
TEST_F(ArmReportTest, LossesOfTwoMetricsAreTwoFiles) {
  db::WriteFakeArms(path_);
  ASSERT_TRUE((*sqlite::Database::Open(path_, {}))
                  ->Execute("INSERT INTO task_metrics SELECT job_id, task, 'next/log_likelihood', metric_index + 10, "
                            "is_binary, worst_value, best_value FROM task_metrics WHERE metric = 'gold/log_likelihood';"
                            "INSERT INTO scores SELECT generation_id, 'next/log_likelihood', value - 1 FROM scores "
                            "WHERE metric = 'gold/log_likelihood'")
                  .ok());
  options_.axis = "tokens";
  ASSIGN_OR_FAIL(const std::vector<std::string> files, WriteFigures(options_, directory_.File("figures")));
  EXPECT_EQ(std::set<std::string>(files.begin(), files.end()).size(), files.size());
  EXPECT_EQ(std::count_if(files.begin(), files.end(),
                          [](const std::string& name) { return name.find("tokens-Loss-at-1K") == 0; }),
            4)
      << absl::StrJoin(files, " ");
}

TEST_F(ArmReportTest, AnAxisIsDrawnAndWrittenInEveryFormat) {
  db::WriteFakeArms(path_);
  const std::vector<Json> points = RowsOf("axis_point", "tokens");
  const auto loss = std::find_if(points.begin(), points.end(), [](const Json& row) {
    return row["arm"] == "focal" && row["metric"] == "gold/log_likelihood" && row["axis_value"] == 2000;
  });
  ASSERT_NE(loss, points.end());
  EXPECT_NEAR((*loss)["mean"].get<double>(), 1 - 4 + 0.2 + 0.5, 1e-12);
  EXPECT_EQ((*loss)["is_over_seeds"], true);
  EXPECT_LT((*loss)["low"].get<double>(), (*loss)["mean"].get<double>());
  const std::string page = Report(ReportFormat::kHtml, "tokens");
  EXPECT_THAT(page, HasSubstr(">Loss at 1K</text>"));
  EXPECT_THAT(page, HasSubstr("focal at 2K: 2.300 ("));
  EXPECT_THAT(page, HasSubstr(">training tokens</text>"));
  EXPECT_THAT(page, Not(HasSubstr("By parameters"))) << "one size";
  const std::string csv = Report(ReportFormat::kCsv, "tokens");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + std::ssize(points));
  EXPECT_THAT(csv, HasSubstr("arm,"));
  EXPECT_THAT(Report(ReportFormat::kLatex, "tokens"),
              AllOf(MessageIn("focal & ", " & 1K & 2K & 75.0 & "), HasSubstr("& 1K & $\\times$1.41 (1.19 to 1.68)")));
  options_.axis = "parameters";
  EXPECT_THAT(RenderReport(options_).status().message(),
              Message("parameters", "plain", "100000 parameters", "1000 tokens", "3 seeds"));
  options_.axis = "size";
  EXPECT_THAT(RenderReport(options_).status().message(),
              Message("\"size\"", "tokens", "parameters", "trained-length", "temperature", "layer"));
  options_.axis = "";
  options_.baseline_arm = "sharp";
  EXPECT_THAT(RenderReport(options_).status().message(), Message("\"sharp\"", "plain", "focal"));
  options_.baseline_arm = "focal";
  EXPECT_NEAR(RowsOf("arm_mean")[0]["difference"].get<double>(), -0.25, 1e-12);
}

TEST_F(ArmReportTest, OneRunAnArmIsLabelledAndNotDecided) {
  db::WriteFakeArms(path_, {.seed_count = 1, .tokens = {1000, 4000}});
  const std::vector<Json> means = RowsOf("arm_mean");
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0]["labels"], report::kOneRunEach);
  EXPECT_EQ(means[0]["low"], nullptr);
  EXPECT_EQ(means[0]["outcome"], "undecided");
  const std::string page = Report(ReportFormat::kHtml);
  EXPECT_THAT(page, MessageIn("one training run each", "arms"));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Over training seeds</h2>")));
  EXPECT_THAT(page, HasSubstr("<h2>By training tokens</h2>")) << "drawn, with intervals over contexts";
  EXPECT_THAT(page, HasSubstr("1 training run"));
  EXPECT_THAT(page, MessageIn("one seed", "no interval"));
}

TEST_F(ArmReportTest, AJobWithoutTrainingHasNeitherArmsNorAxes) {
  MakePlain();
  const std::string page = Report(ReportFormat::kHtml);
  EXPECT_THAT(page, Not(HasSubstr("training seeds")));
  EXPECT_THAT(page, Not(HasSubstr("training run")));
  EXPECT_THAT(RowsOf("arm_mean"), testing::IsEmpty());
  options_.axis = "tokens";
  EXPECT_THAT(RenderReport(options_).status().message(), Message());
}

db::VariantRecord AtTemperatures(const char* temperatures) {
  db::VariantRecord variant;
  variant.model.attention_json = "{}";
  if (temperatures != nullptr) variant.focal_temperature_json = temperatures;
  return variant;
}

TEST(Axes, PlacesOfAVariant) {
  const report::Axis& layer = **report::FindAxis("layer");
  EXPECT_EQ(layer.value(AtTemperatures("[1.0,1.0,0.4]")), 2.0);
  EXPECT_EQ(layer.value(AtTemperatures("[0.4,1.0,1.0]")), 0.0);
  EXPECT_EQ(layer.value(AtTemperatures("[1.0,0.4,1.0,1.0]")), 1.0);
  EXPECT_EQ(layer.value(AtTemperatures("[1.0,0.4,0.4]")), 0.0);
  EXPECT_EQ(layer.value(AtTemperatures("[1.0,0.4,0.7]")), std::nullopt);
  EXPECT_EQ(layer.value(AtTemperatures("0.4")), std::nullopt);
  const report::Axis& temperature = **report::FindAxis("temperature");
  EXPECT_EQ(temperature.value(AtTemperatures("0.4")), 0.4);
  EXPECT_EQ(temperature.value(AtTemperatures(nullptr)), 1.0);
  EXPECT_EQ((*report::FindAxis("tokens"))->value(AtTemperatures(nullptr)), std::nullopt);
}

TEST(Axes, Quantities) {
  EXPECT_EQ(report::QuantityLabel(0.4), "0.4");
  EXPECT_EQ(report::QuantityLabel(999), "999");
  EXPECT_EQ(report::QuantityLabel(65536), "65.5K");
  EXPECT_EQ(report::QuantityLabel(999'999), "1M");
  EXPECT_EQ(report::QuantityLabel(1.05e9), "1.05G");
}

}  // namespace
}  // namespace varifocal

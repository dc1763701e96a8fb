// Upstream's cleaning and scorers on invented answers (recipes/goldens/make_ruler.py).
#include "eval_tasks/ruler/score.h"

#include "base/files.h"
#include "base/json.h"
#include "gtest/gtest.h"

namespace varifocal::ruler {
namespace {

TEST(RulerScoreTest, EqualsUpstreams) {
  const Json golden = ParseJson(ReadFile("eval_tasks/ruler/testdata/scores.json", kDataFile).value()).value();
  double all = 0, part = 0;
  for (const Json& row : golden["rows"]) {
    MetricInput input;
    input.prediction = row["answer"].get<std::string>();
    input.gold = row["references"].get<std::vector<std::string>>();
    EXPECT_EQ(CleanAnswer(input.prediction), row["clean"].get<std::string>());
    const double own_all = FindMetric("ruler/string_match_all")->Score(input).value();
    const double own_part = FindMetric("ruler/string_match_part")->Score(input).value();
    EXPECT_NEAR(own_all * 100, row["all"].get<double>(), 0.005) << row.dump();
    EXPECT_EQ(own_part * 100, row["part"].get<double>()) << row.dump();
    all += own_all;
    part += own_part;
  }
  ASSERT_EQ(golden["rows"].size(), 150u);
  EXPECT_NEAR(all / 1.5, golden["means"]["all"].get<double>(), 0.005);
  EXPECT_NEAR(part / 1.5, golden["means"]["part"].get<double>(), 0.005);
}

TEST(RulerScoreTest, CleansTheAnswerAndNotTheReference) {
  EXPECT_EQ(CleanAnswer("\x1c"
                        "12\x1d"),
            "12");
  EXPECT_EQ(CleanAnswer("a\x07"
                        "b"),
            "a\nb");
  MetricInput input;
  input.prediction =
      "a\x07"
      "b";
  input.gold = {
      "a\x07"
      "b"};
  EXPECT_EQ(ScoreRulerMatchPart(input).value(), 0);
  EXPECT_FALSE(ScoreRulerMatchAll({}).ok());
}

}  // namespace
}  // namespace varifocal::ruler

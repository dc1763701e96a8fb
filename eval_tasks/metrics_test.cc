// Metrics: text metrics against the Python reference on adversarial pairs (recipes/make_metric_goldens.py), the published
// examples, choices and errors by literals.
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/match.h"
#include "base/json.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/choice_metrics.h"
#include "eval_tasks/metrics/normalize.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

double Score(absl::string_view metric, MetricInput input) { return FindMetric(metric)->Score(input).value(); }

TEST(TextMetricsTest, EqualTheReferenceOnAdversarialPairs) {
  std::ifstream file("eval_tasks/testdata/text_metrics.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json rows = ParseJson(text.str()).value();
  ASSERT_GT(rows.size(), 600u);
  for (const Json& row : rows) {
    MetricInput input;
    input.prediction = row["prediction"];
    for (const Json& gold : row["gold"]) input.gold.push_back(gold);
    EXPECT_EQ(NormalizeAnswer(input.prediction), row["normalized"].get<std::string>()) << row.dump();
    for (const char* metric : {"exact_match", "substring_exact_match", "token_f1"}) {
      // The same operations in the same order on both sides: equal to the bit.
      EXPECT_EQ(Score(metric, input), row[metric].get<double>()) << metric << " " << row.dump();
    }
  }
}

TEST(TextMetricsTest, PublishedExamples) {
  EXPECT_EQ(NormalizeAnswer("A. The whale"), "whale");
  EXPECT_EQ(NormalizeAnswer("U.S.A."), "usa");
  EXPECT_EQ(NormalizeAnswer("A"), "") << "HELMET's normalisation deletes the answer A";
  EXPECT_DOUBLE_EQ(Score("token_f1", {"Don Shula was the coach", {"Don Shula"}, {}, {}, -1}), 2.0 / 3);
  EXPECT_EQ(Score("token_f1", {"yes it is", {"yes"}, {}, {}, -1}), 0);
  EXPECT_EQ(Score("substring_exact_match", {"yes it is", {"yes"}, {}, {}, -1}), 1);
  EXPECT_DOUBLE_EQ(Score("token_f1", {"foo bar foo", {"foo foo"}, {}, {}, -1}), 0.8);
  EXPECT_EQ(Score("exact_match", {"b", {"a c", "B."}, {}, {}, -1}), 1) << "any gold answer is right";
}

TEST(TextMetricsTest, InvalidUtf8IsReplaced) {
  EXPECT_EQ(NormalizeAnswer("\xff\xfe x"), "\xEF\xBF\xBD\xEF\xBF\xBD x");
  EXPECT_EQ(NormalizeAnswer("\xe4\xb8"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ChoiceMetricsTest, TheHighestLogLikelihoodIsTheAnswer) {
  MetricInput input;
  input.continuations = {" attic", " a very long place", " bank"};
  input.continuation_scores = {{-4, 1, false}, {-9, 4, false}, {-4, 1, true}};
  input.gold_continuation_index = 0;
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 1) << "ties go to the first";
  EXPECT_EQ(ChosenContinuation(input), 0);
  // Per character: -4/5, -9/17, -4/4.
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 0);
  input.gold_continuation_index = 1;
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 0);
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 1);
}

TEST(ChoiceMetricsTest, OneLeadingSpaceIsNotCounted) {
  MetricInput input;
  // Per character: -3/3 (its second space counts), -3.1/3.
  input.continuations = {"  ab", " abc"};
  input.continuation_scores = {{-3, 1, false}, {-3.1, 1, false}};
  input.gold_continuation_index = 0;
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 1);
  input.continuations[0] = " ";
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 0) << "an empty choice is never selected";
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 1);
}

TEST(ChoiceMetricsTest, InvalidInputIsAnErrorNotAZero) {
  const Metric& metric = *FindMetric("multiple_choice_accuracy");
  MetricInput input;
  input.continuations = {"a", "b"};
  input.gold_continuation_index = 0;
  EXPECT_FALSE(metric.Score(input).ok());
  input.continuation_scores = {{-1, 1, false}, {std::numeric_limits<double>::quiet_NaN(), 1, false}};
  EXPECT_FALSE(metric.Score(input).ok());
  input.continuation_scores[1].log_likelihood = -2;
  input.gold_continuation_index = 2;
  EXPECT_EQ(metric.Score(input).status().message(), "the gold continuation has index 2; there are 2 continuations");
  EXPECT_FALSE(FindMetric("exact_match")->Score({"x", {}, {}, {}, -1}).ok());
}

TEST(MetricsTableTest, NamesAreUniqueAndWorstValueIsAttained) {
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(FindMetric(metric.name), &metric);
    EXPECT_FALSE(metric.summary.empty());
    if (IsGoldMetric(metric.name) || absl::StrContains(metric.name, "context_")) {
      EXPECT_FALSE(metric.Score({}).ok()) << metric.name;
      continue;
    }
    if (metric.is_unbounded) {
      EXPECT_EQ(metric.Score({"", {}, {{-2.5, 1, false}}, {"a"}, 0}).value(), -2.5);
      continue;
    }
    MetricInput wrong = {"x", {"y"}, {{-1, 1, false}, {-2, 1, false}}, {"a", "b"}, 1};
    wrong.output = "x";
    wrong.reference_json = absl::StrContains(metric.name, "rerank")   ? R"({"y": 1})"
                           : absl::StrContains(metric.name, "choice") ? R"(["y", "q"])"
                                                                      : R"([["y"]])";
    EXPECT_EQ(metric.Score(wrong).value(), metric.worst_value) << metric.name;
    wrong.prediction = wrong.output = "y";
    wrong.gold_continuation_index = 0;
    wrong.continuation_scores[0].is_greedy = true;
    EXPECT_EQ(metric.Score(wrong).value(), 1.0) << metric.name;
  }
  EXPECT_EQ(FindMetric("exact_mach"), nullptr);
}

TEST(GoldMetricsTest, AreOfTheScoreOfTheGoldAnswer) {
  MetricInput input;
  input.gold_score = {-6, 4, true};
  EXPECT_EQ(Score("gold/log_likelihood", input), -6);
  EXPECT_EQ(Score("gold/log_likelihood_per_token", input), -1.5);
  EXPECT_EQ(Score("gold/token_count", input), 4);
  EXPECT_EQ(Score("gold/is_greedy", input), 1);
  input.gold_score->is_greedy = false;
  EXPECT_EQ(Score("gold/is_greedy", input), 0);
  input.gold_score->log_likelihood = -std::numeric_limits<double>::infinity();
  EXPECT_FALSE(FindMetric("gold/log_likelihood")->Score(input).ok());
}

TEST(ContextGainMetricsTest, AreByTokenOfTheSameTokens) {
  MetricInput input;
  input.continuations = {"text", "text"};
  input.continuation_scores = {{-8, 4, false}, {-14, 4, false}};
  input.gold_continuation_index = 0;
  EXPECT_EQ(Score("context_gain", input), 1.5);
  EXPECT_EQ(Score("long_context_log_likelihood", input), -2);
  EXPECT_EQ(Score("short_context_log_likelihood", input), -3.5);
  input.continuation_scores[1].token_count = 5;
  EXPECT_FALSE(FindMetric("context_gain")->Score(input).ok());
}

TEST(AnswerTest, EndsBeforeTheEarliestStopString) {
  EXPECT_EQ(ProcessAnswer(" attic. Then", {"\n", "."}), "attic");
  EXPECT_EQ(ProcessAnswer(" attic\n.", {".", "\n"}), "attic");
  EXPECT_EQ(ProcessAnswer("  attic \t", {}), "attic");
  EXPECT_EQ(ProcessAnswer(".attic", {"."}), "");
  EXPECT_EQ(ProcessAnswer("attic", {""}), "attic");
}

}  // namespace
}  // namespace varifocal

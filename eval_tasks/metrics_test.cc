// Metrics: text metrics against the Python reference on adversarial pairs (recipes/make_metric_goldens.py), the published
// examples, choices and errors by literals.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "base/json.h"
#include "base/random.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/choice_metrics.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/text_metrics.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/read_json.h"

namespace varifocal {
namespace {

double Score(absl::string_view metric, MetricInput input) { return FindMetric(metric)->Score(input).value(); }

TEST(TextMetricsTest, EqualTheReferenceOnAdversarialPairs) {
  const Json rows = testing_support::ReadJson("eval_tasks/testdata/text_metrics.json");
  ASSERT_GT(rows.size(), 600u);
  int with_words_count = 0;
  for (const Json& row : rows) {
    MetricInput input;
    input.prediction = row["prediction"];
    for (const Json& gold : row["gold"]) input.gold.push_back(gold);
    EXPECT_EQ(NormalizeAnswer(input.prediction), row["normalized"].get<std::string>()) << row.dump();
    const UpstreamTextMeasures upstream = MeasureAsUpstream(input.prediction, input.gold);
    // The same operations in the same order on both sides: equal to the bit.
    EXPECT_EQ(upstream.exact_match, row["exact_match"].get<double>()) << row.dump();
    EXPECT_EQ(upstream.substring_exact_match, row["substring_exact_match"].get<double>()) << row.dump();
    EXPECT_EQ(upstream.token_f1, row["token_f1"].get<double>()) << row.dump();
    if (std::any_of(input.gold.begin(), input.gold.end(), [](const auto& g) { return NormalizeAnswer(g).empty(); })) {
      continue;
    }
    ++with_words_count;
    for (const char* metric : {"exact_match", "substring_exact_match", "token_f1"}) {
      EXPECT_EQ(Score(metric, input), row[metric].get<double>()) << metric << " " << row.dump();
    }
  }
  EXPECT_GT(with_words_count, 400);
}

// Gold answers of which normalisation leaves nothing.
TEST(TextMetricsTest, WhatNormalisesToNothingIsComparedAsWritten) {
  struct Row {
    const char *prediction, *gold;
    double exact, substring, f1;
  };
  for (const Row& row : std::vector<Row>{
           {"A", "A", 1, 1, 1},
           {"a", "A", 1, 1, 1},
           {"A.", "A", 1, 1, 1},
           {"(A)", "A", 1, 1, 1},
           {"**A**", "A", 1, 1, 1},
           {"A", "(A).", 1, 1, 1},
           {"B", "A", 0, 0, 0},
           {"", "A", 0, 0, 0},
           {"The", "A", 0, 0, 0},
           {"an", "A", 0, 0, 0},
           {"banana", "A", 0, 0, 0},
           {"A+", "A", 0, 0, 0},
           {"A-", "A+", 0, 0, 0},
           {"A-", "A", 1, 1, 1},
           {"A", "A-", 0, 0, 0},
           {"A-", "A-", 1, 1, 1},
           {"<A-.>", "A-", 1, 1, 1},
           {"A#", "A", 0, 0, 0},
           {"A-B", "A-", 0, 0, 0},
           {"not AA, BA or A1", "A", 0, 0, 0},
           {"A+", "A+", 1, 1, 1},
           {"the answer is A", "A", 0, 1, 0.4},
           {"Answer: (A), I think", "A", 0, 1, 0.4},
           {"it is a cat", "A", 0, 0, 0.4},
           {"A/B", "A", 0, 1, 0},
           {"London", "The", 0, 0, 0},
           {"the", "The", 1, 1, 1},
           {"a an", "the", 0, 0, 0},
           {"the a", "the  a", 1, 1, 1},
           {"-", "+", 0, 0, 0},
           {"", "+", 0, 0, 0},
           {"+", "+", 1, 1, 1},
           {"'+'.", "+", 1, 1, 1},
           {"use + here", "+", 0, 1, 0.5},
           {"1+2", "+", 0, 0, 0},
           {"++", "+", 0, 0, 0},
           {"!!!", "???", 0, 0, 0},
           {"???", "???", 1, 1, 1},
           {"why ???", "???", 0, 1, 2.0 / 3},
           {"!!", "!", 0, 0, 0},
           {"( A )", "A", 1, 1, 1},
           {"( .", "( .", 1, 1, 1},
           {"( .", "( ?", 0, 0, 0.5},
           {"wait...", "...", 0, 0, 0},
           {">=", ">", 0, 0, 0},
           {"\xE3\x80\x80+\xC2\xA0", "+", 1, 1, 1},
       }) {
    const MetricInput input = {row.prediction, {row.gold}, {}, {}, {}};
    EXPECT_EQ(Score("exact_match", input), row.exact) << row.prediction << " for " << row.gold;
    EXPECT_EQ(Score("substring_exact_match", input), row.substring) << row.prediction << " for " << row.gold;
    EXPECT_DOUBLE_EQ(Score("token_f1", input), row.f1) << row.prediction << " for " << row.gold;
  }
  // Where "B" counts for the gold answer "B", "A" counts for "A".
  for (const char* frame : {"<$0>",
                            "_$0_",
                            "- $0",
                            ": $0",
                            "$0:",
                            "~$0~",
                            "|$0|",
                            "/$0/",
                            "- $0 -",
                            "@$0",
                            "&$0;",
                            "=$0",
                            "%$0%",
                            "^$0^",
                            "$0$$",
                            "-- <$0>",
                            "($0)-",
                            "***$0***",
                            "Answer: $$\\boxed{$0}$$",
                            "\\text{$0}",
                            "it is option_$0.",
                            "answer=$0",
                            "<b>$0</b>"}) {
    for (const char* metric : {"exact_match", "substring_exact_match"}) {
      const auto score = [&](const char* answer) {
        return Score(metric, {absl::Substitute(frame, answer), {answer}, {}, {}, {}});
      };
      EXPECT_EQ(score("A"), score("B")) << frame << ", " << metric;
    }
    EXPECT_EQ(Score("substring_exact_match", {absl::Substitute(frame, "A"), {"A"}, {}, {}, {}}), 1) << frame;
  }
  EXPECT_EQ(Score("written_match", {"<A>", {"A"}, {}, {}, {}}), 0) << "signs count";
  for (const char* metric : {"exact_match", "substring_exact_match", "token_f1"}) {
    EXPECT_EQ(Score(metric, {"London", {"The", "Paris"}, {}, {}, {}}), 0) << "one unusable answer of two";
    EXPECT_EQ(Score(metric, {"Paris", {"The", "Paris"}, {}, {}, {}}), 1);
    EXPECT_EQ(Score(metric, {"the", {"The", "Paris"}, {}, {}, {}}), 1);
    EXPECT_EQ(Score(metric, {"", {"", " ", "Paris"}, {}, {}, {}}), 0) << "a blank answer is never right";
  }
  EXPECT_EQ(Score("string_match_all", {"x", {"", "x"}, {}, {}, {}}), 0.5);
}

TEST(TextMetricsTest, WrittenMetricsKeepPointsSignsAndWords) {
  struct Row {
    const char *prediction, *gold;
    double match, substring;
  };
  for (const Row& row : std::vector<Row>{
           {"314", "3.14", 0, 0},
           {"3.14", "3.14", 1, 1},
           {"3.14.", "3.14", 1, 1},
           {"It is 3.14.", "3.14", 0, 1},
           {"3.14", "3", 0, 0},
           {"3.14", "14", 0, 0},
           {".5", "5", 0, 0},
           {"5", "-5", 0, 0},
           {"-5", "5", 0, 0},
           {"10", "1.0", 0, 0},
           {"1,000", "1", 0, 0},
           {"(42).", "42", 1, 1},
           {"C", "C++", 0, 0},
           {"C++", "c++", 1, 1},
           {"yesterday", "yes", 0, 0},
           {"Yes, it is", "yes", 0, 1},
           {"the red door", "red door", 0, 1},
           {"Paris", "Paris\n", 1, 1},
           {"\"Paris\"", "Paris", 1, 1},
           {"New  York", "new york", 1, 1},
           {"", "Paris", 0, 0},
       }) {
    EXPECT_EQ(Score("written_match", {row.prediction, {"zebra", row.gold}, {}, {}, {}}), row.match)
        << row.prediction << " for " << row.gold;
    EXPECT_EQ(Score("written_substring", {row.prediction, {"zebra", row.gold}, {}, {}, {}}), row.substring)
        << row.prediction << " for " << row.gold;
  }
}

// Answers are stripped before they are scored, so no answer could end as such a gold answer does.
TEST(TextMetricsTest, WhiteSpaceAtTheEndsOfAGoldAnswerIsIgnored) {
  for (const char* gold : {"Paris\n", " Paris", "\tParis \r\n", "\xC2\xA0Paris"}) {
    for (const char* metric : {"string_match_all", "string_match_part", "exact_match", "substring_exact_match",
                               "token_f1", "written_match", "written_substring"}) {
      EXPECT_EQ(Score(metric, {"Paris", {gold}, {}, {}, {}}), 1) << metric << " " << Json(gold);
      EXPECT_EQ(Score(metric, {"Rome", {gold}, {}, {}, {}}), 0) << metric << " " << Json(gold);
    }
  }
}

// For random texts of articles, punctuation and words: a gold answer is right for itself and no answer for any.
TEST(TextMetricsTest, AnAnswerIsRightForItselfAndNoAnswerNever) {
  const std::vector<std::string> pieces = {"a",  "an", "The", "A", "red", "C",  "3.14",     "-5",  "+", "??",
                                           "\"", "(",  ")",   ".", "*",   "\n", "\xC3\x89", "yes", "_", "\xE2\x80\x9C"};
  Random random("gold answers");
  const char* metrics[] = {"exact_match",       "substring_exact_match", "token_f1",         "string_match_all",
                           "string_match_part", "written_match",         "written_substring"};
  for (int i = 0; i < 20'000; ++i) {
    std::string gold = random.Choose(pieces);
    for (uint64_t more = random.Below(4); more > 0; --more) {
      absl::StrAppend(&gold, random.Below(2) == 0 ? " " : "", random.Choose(pieces));
    }
    if (absl::StripAsciiWhitespace(gold).empty()) continue;
    for (const char* metric : metrics) {
      ASSERT_EQ(Score(metric, {gold, {gold}, {}, {}, {}}), 1) << metric << " " << Json(gold);
      ASSERT_EQ(Score(metric, {"", {gold}, {}, {}, {}}), 0) << metric << " " << Json(gold);
      ASSERT_EQ(Score(metric, {"7", {gold}, {}, {}, {}}), 0) << metric << " " << Json(gold);
    }
  }
}

TEST(TextMetricsTest, PublishedExamples) {
  EXPECT_EQ(NormalizeAnswer("A. The whale"), "whale");
  EXPECT_EQ(NormalizeAnswer("U.S.A."), "usa");
  EXPECT_EQ(NormalizeAnswer("A"), "") << "HELMET's normalisation deletes the answer A";
  EXPECT_DOUBLE_EQ(Score("token_f1", {"Don Shula was the coach", {"Don Shula"}, {}, {}, {}}), 2.0 / 3);
  EXPECT_EQ(Score("token_f1", {"yes it is", {"yes"}, {}, {}, {}}), 0);
  EXPECT_EQ(Score("substring_exact_match", {"yes it is", {"yes"}, {}, {}, {}}), 1);
  EXPECT_DOUBLE_EQ(Score("token_f1", {"foo bar foo", {"foo foo"}, {}, {}, {}}), 0.8);
  EXPECT_EQ(Score("exact_match", {"b", {"a c", "B."}, {}, {}, {}}), 1) << "any gold answer is right";
}

TEST(TextMetricsTest, InvalidUtf8IsReplaced) {
  EXPECT_EQ(NormalizeAnswer("\xff\xfe x"), "\xEF\xBF\xBD\xEF\xBF\xBD x");
  EXPECT_EQ(NormalizeAnswer("\xe4\xb8"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ChoiceMetricsTest, TheHighestLogLikelihoodIsTheAnswer) {
  MetricInput input;
  input.continuations = {" attic", " a very long place", " bank"};
  input.continuation_scores = {{-4, 1, false}, {-9, 4, false}, {-4, 1, true}};
  input.gold_continuation_indices = {0};
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 1) << "ties go to the first";
  EXPECT_EQ(ChosenContinuation(input), 0);
  // Per character: -4/5, -9/17, -4/4.
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 0);
  input.gold_continuation_indices = {1};
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 0);
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 1);
}

TEST(ChoiceMetricsTest, AnyOfTheRightContinuationsCounts) {
  MetricInput input;
  input.continuations = {" red", " blue", " green"};
  input.continuation_scores = {{-5, 1, false}, {-6, 1, false}, {-4, 1, false}};  // normalised: -5/3, -6/4, -4/5
  for (const char* metric : {"multiple_choice_accuracy", "multiple_choice_accuracy_normalized"}) {
    for (const auto& [right, value] :
         std::vector<std::pair<std::vector<int>, double>>{{{0, 1, 2}, 1}, {{0, 2}, 1}, {{2}, 1}, {{0, 1}, 0}}) {
      input.gold_continuation_indices = right;
      EXPECT_EQ(Score(metric, input), value) << metric;
    }
    input.gold_continuation_indices = {};
    EXPECT_THAT(FindMetric(metric)->Score(input).status().message(), Message("\"gold_continuation_index\"", 1));
    input.gold_continuation_indices = {0, 3};
    EXPECT_THAT(FindMetric(metric)->Score(input).status().message(), Message("index 3", "3 continuations"));
  }
  input.gold_continuation_indices = {0};
  input.continuations = {};
  EXPECT_THAT(FindMetric("multiple_choice_accuracy_normalized")->Score(input).status().message(),
              Message("\"continuation_scores\"", 3, "\"continuations\"", 0));
}

TEST(ChoiceMetricsTest, OneLeadingSpaceIsNotCounted) {
  MetricInput input;
  // Per character: -3/3 (its second space counts), -3.1/3.
  input.continuations = {"  ab", " abc"};
  input.continuation_scores = {{-3, 1, false}, {-3.1, 1, false}};
  input.gold_continuation_indices = {0};
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 1);
  input.continuations[0] = " ";
  EXPECT_EQ(Score("multiple_choice_accuracy_normalized", input), 0) << "an empty choice is never selected";
  EXPECT_EQ(Score("multiple_choice_accuracy", input), 1);
}

TEST(ChoiceMetricsTest, InvalidInputIsAnErrorNotAZero) {
  const Metric& metric = *FindMetric("multiple_choice_accuracy");
  MetricInput input;
  input.continuations = {"a", "b"};
  input.gold_continuation_indices = {0};
  EXPECT_FALSE(metric.Score(input).ok());
  input.continuation_scores = {{-1, 1, false}, {std::numeric_limits<double>::quiet_NaN(), 1, false}};
  EXPECT_FALSE(metric.Score(input).ok());
  input.continuation_scores[1].log_likelihood = -2;
  input.gold_continuation_indices = {2};
  EXPECT_THAT(metric.Score(input).status().message(), Message("index 2", "2 continuations"));
  EXPECT_FALSE(FindMetric("exact_match")->Score({"x", {}, {}, {}, {}}).ok());
}

TEST(MetricsTableTest, NamesAreUniqueAndWorstValueIsAttained) {
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(FindMetric(metric.name), &metric);
    EXPECT_FALSE(metric.summary.empty());
    // Those of benchmarks are in benchmark_metrics_test.cc.
    const bool is_of_benchmark = metric.uses_raw_output && !absl::StartsWith(metric.name, "helmet/");
    if (IsGoldMetric(metric.name) || absl::StrContains(metric.name, "context_") || is_of_benchmark) {
      EXPECT_FALSE(metric.Score({}).ok()) << metric.name;
      continue;
    }
    if (metric.is_unbounded) {
      EXPECT_EQ(metric.Score({"", {}, {{-2.5, 1, false}}, {"a"}, {0}}).value(), -2.5);
      continue;
    }
    MetricInput wrong = {"x", {"y"}, {{-1, 1, false}, {-2, 1, false}}, {"a", "b"}, {1}};
    wrong.output = "x";
    wrong.reference_json = absl::StrContains(metric.name, "rerank")   ? R"({"y": 1})"
                           : absl::StrContains(metric.name, "choice") ? R"(["y", "q"])"
                                                                      : R"([["y"]])";
    EXPECT_EQ(metric.Score(wrong).value(), metric.worst_value) << metric.name;
    wrong.prediction = wrong.output = "y";
    wrong.gold_continuation_indices = {0};
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
  input.gold_continuation_indices = {0};
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

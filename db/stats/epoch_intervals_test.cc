// Intervals of questions with several answers, which are nested: answers in questions, questions in contexts. Method: simulated
// jobs whose true difference is known in closed form or by quadrature, and intervals of ComparePairs on the reduced questions;
// the control counts every answer as independent.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "db/epochs.h"
#include "db/fakes/normal.h"
#include "db/stats/compare.h"
#include "gtest/gtest.h"

namespace varifocal::stats {
namespace {

constexpr int kControlCount = 300;

struct NestedDesign {
  int contexts = 30, questions = 4, epochs = 4;
  double context_spread = 0.8, question_spread = 0.6;  // of the latent value of a side, of which half is common to both
  double gain = 0;                                     // of the candidate's latent value
};

struct NestedRates {
  double coverage = 0, as_independent = 0;
};

double Phi(double z) { return std::erfc(-z / std::sqrt(2)) / 2; }

// The expectation of the statistic of one question with latent values of this mean, over questions and answers.
double Truth(const db::EpochStatistic& statistic, const NestedDesign& design, double mean) {
  const double spread = std::hypot(design.context_spread, design.question_spread);
  double sum = 0, weights = 0;
  for (int i = -400; i <= 400; ++i) {
    const double z = i / 50.0, weight = std::exp(-z * z / 2);
    const double p = Phi(mean + spread * z);
    sum += weight * (statistic.kind == db::EpochStatistic::Kind::kMean ? p : 1 - std::pow(1 - p, statistic.k));
    weights += weight;
  }
  return sum / weights;
}

NestedRates Simulate(const NestedDesign& design, const db::EpochStatistic& statistic, int experiment_count) {
  Random random(absl::StrCat("nested ", design.gain, " ", statistic.Name()));
  const double truth = Truth(statistic, design, design.gain) - Truth(statistic, design, 0);
  const double answer_truth = Truth({}, design, design.gain) - Truth({}, design, 0);
  CompareOptions options;
  options.with_sign_flip = false;
  MetricInfo info{.is_binary = true, .is_primary = true, .worst_value = 0, .best_value = 1};
  NestedRates rates;
  for (int experiment = 0; experiment < experiment_count; ++experiment) {
    std::vector<db::PairRow> questions, answers;
    for (int c = 0; c < design.contexts; ++c) {
      const double common = Normal(random), of_context[] = {Normal(random), Normal(random)};
      for (int q = 0; q < design.questions; ++q) {
        const double shared = Normal(random);
        std::vector<db::EpochValue> values[2];
        for (int side = 0; side < 2; ++side) {
          const double p = Phi(side * design.gain + design.context_spread * M_SQRT1_2 * (common + of_context[side]) +
                               design.question_spread * M_SQRT1_2 * (shared + Normal(random)));
          for (int e = 0; e < design.epochs; ++e) values[side].push_back({random.Uniform() < p ? 1.0 : 0.0, false, ""});
        }
        db::PairRow& pair = questions.emplace_back();
        pair.cluster = absl::StrCat(c);
        pair.baseline_value = db::ReduceEpochs(statistic, values[0]);
        pair.candidate_value = db::ReduceEpochs(statistic, values[1]);
        pair.difference = *pair.candidate_value - *pair.baseline_value;
        for (int e = 0; e < design.epochs; ++e) {
          db::PairRow& answer = answers.emplace_back();
          answer.cluster = absl::StrCat(answers.size());
          answer.baseline_value = values[0][e].value;
          answer.candidate_value = values[1][e].value;
          answer.difference = *answer.candidate_value - *answer.baseline_value;
        }
      }
    }
    const auto covers = [&](const std::vector<db::PairRow>& pairs, double value) {
      info.planned_count = std::ssize(pairs);
      const Comparison row = ComparePairs(pairs, info, options).value();
      return row.low <= value && value <= row.high;
    };
    rates.coverage += covers(questions, truth);
    // Fewer of the control, which has many rows and is far off.
    if (experiment < kControlCount) rates.as_independent += covers(answers, answer_truth) / double{kControlCount};
  }
  rates.coverage /= experiment_count;
  return rates;
}

// 2,000 experiments: one standard error of 95 % is 0.49 points.
TEST(EpochIntervals, CoverTheDifferenceOfNestedAnswers) {
  for (const double gain : {0.0, 0.4}) {
    for (const char* name : {"mean", "pass@2", "pass@4"}) {
      const db::EpochStatistic statistic = db::ParseEpochStatistic(name).value();
      const NestedRates rates = Simulate({.gain = gain}, statistic, 2000);
      SCOPED_TRACE(absl::StrCat(name, " ", gain, ": ", rates.coverage, ", control ", rates.as_independent));
      RecordProperty(absl::StrCat("coverage_", name, "_", gain), absl::StrCat(rates.coverage));
      RecordProperty(absl::StrCat("control_", name, "_", gain), absl::StrCat(rates.as_independent));
      EXPECT_GE(rates.coverage, 0.93);
      EXPECT_LE(rates.coverage, 0.97);
      EXPECT_LT(rates.as_independent, 0.90) << "the control";
    }
  }
}

// Most spread is between questions here: 2 contexts would be too few, and 12 are enough for t.
TEST(EpochIntervals, CoverWithFewContexts) {
  const NestedRates rates =
      Simulate({.contexts = 12, .epochs = 8, .context_spread = 0.3, .question_spread = 1.0}, {}, 2000);
  EXPECT_GE(rates.coverage, 0.93);
  EXPECT_LE(rates.coverage, 0.97);
  EXPECT_LT(rates.as_independent, 0.90);
}

}  // namespace
}  // namespace varifocal::stats

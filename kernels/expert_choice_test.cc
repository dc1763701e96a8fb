// Which experts a row has, and their weights: small cases by hand.
#include "kernels/expert_choice.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal::kernels {
namespace {

struct Choice {
  std::vector<int32_t> chosen;
  std::vector<float> weights;
};

Choice Choose(const std::vector<float>& logits, int per_token, ExpertRouting routing, bool renormalised,
              const std::vector<float>& bias = {}) {
  Choice choice{std::vector<int32_t>(per_token), std::vector<float>(per_token)};
  ChooseExperts({.logits = logits.data(),
                 .expert_count = static_cast<int>(logits.size()),
                 .per_token = per_token,
                 .renormalised = renormalised,
                 .chosen = choice.chosen.data(),
                 .weights = choice.weights.data(),
                 .routing = routing,
                 .choice_bias = bias.empty() ? nullptr : bias.data()});
  return choice;
}

using testing::ElementsAre;
using testing::FloatNear;
constexpr float kOf = 1e-6f;

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

TEST(ExpertChoiceTest, ABiasChoosesAndDoesNotWeigh) {
  const ExpertRouting routing{.score = ExpertScore::kSigmoid, .scaling = 2};
  const Choice choice = Choose({0, 1, 2, -1}, 2, routing, false, {0, 0, -2, 3});
  EXPECT_THAT(choice.chosen, ElementsAre(1, 3));
  EXPECT_THAT(choice.weights, ElementsAre(FloatNear(2 * Sigmoid(1), kOf), FloatNear(2 * Sigmoid(-1), kOf)));
  const Choice shares = Choose({0, 1, 2, -1}, 2, routing, true, {0, 0, -2, 3});
  const float sum = Sigmoid(1) + Sigmoid(-1);
  EXPECT_THAT(shares.weights, ElementsAre(FloatNear(2 * Sigmoid(1) / sum, kOf), FloatNear(2 * Sigmoid(-1) / sum, kOf)));
}

TEST(ExpertChoiceTest, GroupsAreKeptByTheirOneOrTwoLargest) {
  // Groups of three: by the largest the first one is best, by two the second.
  const std::vector<float> logits = {3, -3, -3, 2, 2, -3, 1, 1, 1};
  ExpertRouting routing{.score = ExpertScore::kSigmoid, .group_count = 3, .groups_kept = 1};
  EXPECT_THAT(Choose(logits, 2, routing, true).chosen, ElementsAre(0, 1));  // a tie of the two others
  routing.group_score = GroupScore::kTwoLargest;
  EXPECT_THAT(Choose(logits, 2, routing, true).chosen, ElementsAre(3, 4));
  routing.groups_kept = 2;
  EXPECT_THAT(Choose(logits, 3, routing, true).chosen, ElementsAre(3, 4, 6));
}

TEST(ExpertChoiceTest, TiesGoToTheLowerGroupAndExpert) {
  const std::vector<float> equal(8, 0.5f);
  EXPECT_THAT(Choose(equal, 2, {.score = ExpertScore::kSigmoid}, true).chosen, ElementsAre(0, 1));
  const ExpertRouting routing{
      .score = ExpertScore::kSigmoid, .group_count = 4, .groups_kept = 2, .group_score = GroupScore::kTwoLargest};
  EXPECT_THAT(Choose(equal, 3, routing, true).chosen, ElementsAre(0, 1, 2));
  // Sigmoids that round to one are equal, whatever their logits.
  EXPECT_THAT(Choose({40, 50, 60, 0}, 1, {.score = ExpertScore::kSigmoid}, false).chosen, ElementsAre(0));
}

TEST(ExpertChoiceTest, SharesOfASoftmaxWithABias) {
  const Choice choice = Choose({0, 0, std::log(2.0f)}, 1, {}, false, {0, 1, 0});
  EXPECT_THAT(choice.chosen, ElementsAre(1));
  EXPECT_THAT(choice.weights, ElementsAre(FloatNear(0.25f, kOf)));
}

TEST(ExpertChoiceTest, WhatIsNotANumberIsChosenLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Choose({nan, -5, -4}, 2, {.score = ExpertScore::kSigmoid}, true).chosen, ElementsAre(1, 2));
  EXPECT_THAT(Choose({nan, -5, -4}, 2, {}, true).chosen, ElementsAre(1, 2));
}

}  // namespace
}  // namespace varifocal::kernels

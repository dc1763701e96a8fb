// Throughput and remaining time from progress reports. Method: synthetic reports and times, results calculated by hand.
#include "server/jobs/progress_meter.h"

#include <gtest/gtest.h>

namespace varifocal {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

RunProgress Report(int done_short, int done_long, int64_t tokens) {
  RunProgress progress;
  progress.prompt_token_count = tokens;
  progress.cells = {{{"a", "t", 1000}, 10, done_short, 0}, {{"a", "t", 3000}, 10, done_long, 0}};
  return progress;
}

TEST(ProgressMeterTest, NothingIsKnownBeforeTheFirstAnswer) {
  ProgressMeter meter;
  EXPECT_EQ(meter.TokensPerSecond(0), 0);
  EXPECT_LT(meter.RemainingSeconds(0), 0);
  EXPECT_EQ(meter.ElapsedSeconds(kSecondUs), 0);
  meter.Update(Report(0, 0, 0), {}, 5 * kSecondUs);
  EXPECT_LT(meter.RemainingSeconds(6 * kSecondUs), 0);
  EXPECT_DOUBLE_EQ(meter.ElapsedSeconds(7 * kSecondUs), 2);
}

TEST(ProgressMeterTest, RemainingTimeWeighsSamplesByLength) {
  ProgressMeter meter;
  meter.Update(Report(0, 0, 0), {}, 0);
  meter.Update(Report(10, 0, 9000), {}, 10 * kSecondUs);
  // 10 x 1000 of 40000 took 10 s, so 30000 take 30 s more.
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(10 * kSecondUs), 30);
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(10 * kSecondUs), 900);
}

TEST(ProgressMeterTest, ReusedTokensAreNotSpeed) {
  ProgressMeter meter;
  meter.Update(Report(0, 0, 0), {}, 0);
  RunProgress progress = Report(4, 0, 4000);
  progress.cached_token_count = 2700;
  progress.new_token_count = 100;
  meter.Update(progress, {}, 10 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(10 * kSecondUs), 140);
}

TEST(ProgressMeterTest, WhatWasThereBeforeCostsNothing) {
  ProgressMeter meter;
  meter.Update(Report(10, 0, 0), {}, 0);  // resumed: the short ones exist
  meter.Update(Report(10, 5, 15000), {}, 20 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(20 * kSecondUs), 20);
  meter.Update(Report(10, 10, 30000), {}, 40 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(40 * kSecondUs), 0);
}

TEST(ProgressMeterTest, SpeedForgetsWhatIsOlderThanTheWindow) {
  ProgressMeter meter;
  meter.Update(Report(0, 0, 0), {}, 0);
  for (int second = 1; second <= 60; ++second) meter.Update(Report(0, 0, 100 * second), {}, second * kSecondUs);
  for (int second = 61; second <= 120; ++second)
    meter.Update(Report(0, 0, 6000 + 10 * (second - 60)), {}, second * kSecondUs);
  EXPECT_NEAR(meter.TokensPerSecond(120 * kSecondUs), 10, 1e-9);
}

// What is read for an answer that is not there yet counts, and only once.
TEST(ProgressMeterTest, ALongContextBeingReadShortensTheRest) {
  ProgressMeter meter;
  meter.Plan({{1000, 1000}, {3000, 3000}}, /*in_flight=*/1);
  meter.Update(Report(0, 0, 0), {}, 0);
  meter.Update({500, 500}, 10 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(10 * kSecondUs), 790);
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(10 * kSecondUs), 50);
  meter.Update(Report(1, 0, 1000), {1000, 1000}, 20 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(20 * kSecondUs), 780);
  meter.Update({1000000, 1e6}, 30 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(30 * kSecondUs), 33000. / 7000 * 30) << "no more than what can be in flight";
}

// Questions on one context read it once: a sample costs a share of it.
TEST(ProgressMeterTest, SharedContextsAreReadOnce) {
  ProgressMeter meter;
  meter.Plan({{1000, 100}, {3000, 300}}, /*in_flight=*/4);
  meter.Update(Report(0, 0, 0), {}, 0);
  meter.Update({1000, 1000}, 10 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(10 * kSecondUs), 30);
  meter.Update(Report(10, 0, 10000), {1000, 1000}, 11 * kSecondUs);
  EXPECT_DOUBLE_EQ(meter.RemainingSeconds(11 * kSecondUs), 33);
}

// The unit of a plan is not that of a job without one.
TEST(ProgressMeterTest, WithoutAPlanOnlyAnswersCount) {
  ProgressMeter meter;
  meter.Update(Report(0, 0, 0), {}, 0);
  meter.Update({1000, 1e12}, 10 * kSecondUs);
  EXPECT_LT(meter.RemainingSeconds(10 * kSecondUs), 0);
}

}  // namespace
}  // namespace varifocal

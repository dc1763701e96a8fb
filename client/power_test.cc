// The power of a job's design, from the suite's own numbers of questions and contexts.
#include "client/power.h"

#include <sstream>

#include "absl/strings/str_format.h"
#include "client/estimate.h"
#include "client/suite_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SuiteSpec Suite(const std::string& yaml) {
  const auto config = ParseSuite(yaml, "suite.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  const auto suite = ToSuiteSpec(*config);
  EXPECT_TRUE(suite.ok()) << suite.status();
  return *suite;
}

constexpr char kTwoTasks[] =
    "name: two\nlengths: [1024, 4096]\nsamples: 48\ntasks: [{kind: recall_kv}, {kind: variable_tracking}]\n";

std::string Text(const JobPower& power) {
  std::ostringstream out, err;
  const Console console{.out = out, .err = err};
  return PowerText(power, console);
}

TEST(JobPower, CountsTheContextsOfEachTask) {
  ASSIGN_OR_FAIL(const auto power, PlanPower(Suite(kTwoTasks), 3, 0, {}));
  EXPECT_EQ(power.candidate_count, 2);
  EXPECT_EQ(power.test_count, 4);
  ASSERT_EQ(power.lengths.size(), 2u);
  EXPECT_EQ(power.lengths[0].task_count, 2);
  EXPECT_EQ(power.lengths[0].power.question_count, 96);
  EXPECT_EQ(power.lengths[0].power.context_count, 12 + 48);  // four questions share a context of recall_kv
  const Json json = PowerJson(power);
  EXPECT_EQ(json["test_count"], 4);
  EXPECT_EQ(json["lengths"][1]["cluster_count"], 60);
  EXPECT_NEAR(json["lengths"][1]["detectable_difference"].get<double>(), 0.15, 0.05);
  EXPECT_THAT(Text(power), AllOf(MessageIn("2 candidates", "2 lengths", "4 tests"), MessageIn("20 %"), MessageIn(0.45),
                                 HasSubstr(" points")));
}

TEST(JobPower, SaysWhatFewContextsCannotDecide) {
  const SuiteSpec suite = Suite("name: one\nlengths: [1024]\nsamples: 48\ntasks: [{kind: recall_kv}]\n");
  EXPECT_THAT(Text(*PlanPower(suite, 2, 16, {})), AllOf(HasSubstr("0.1250"), MessageIn("6 contexts")));
  EXPECT_THAT(Text(*PlanPower(suite, 2, 4, {})), Message("1"));
  EXPECT_THAT(Text(*PlanPower(suite, 2, 0, {.flip_share = 1})), Not(HasSubstr("fewer")));
  EXPECT_THAT(Text(*PlanPower(suite, 1, 0, {})), HasSubstr("one variant"));
}

// A design that is too small names one that is not: asked with that many contexts, it finds that difference.
TEST(JobPower, SaysHowManyContextsWouldBeEnough) {
  const SuiteSpec suite = Suite("name: one\nlengths: [1024]\nsamples: 4000\ntasks: [{kind: recall_kv}]\n");
  ASSIGN_OR_FAIL(const auto small, PlanPower(suite, 3, 8, {}));
  EXPECT_EQ(small.lengths[0].power.detectable_difference, std::nullopt);
  ASSERT_TRUE(small.lengths[0].enough.has_value());
  const auto& [contexts, found] = *small.lengths[0].enough;
  EXPECT_GT(contexts, 2);
  EXPECT_LE(found, stats::kFoundMax);
  EXPECT_NEAR(*PlanPower(suite, 3, 4 * contexts, {})->lengths[0].power.detectable_difference, found, 1e-9);
  EXPECT_THAT(Text(small), MessageIn("with", contexts, absl::StrFormat("%.1f points", 100 * found)));
  EXPECT_EQ(PowerJson(small)["lengths"][0]["enough_contexts"], contexts);
  EXPECT_EQ(PowerJson(*PlanPower(suite, 3, 4000, {}))["lengths"][0]["enough_contexts"], Json()) << "it is enough";
}

TEST(Estimate, DurationsAreRough) {
  EXPECT_EQ(RoughDuration(3), "a few seconds");
  EXPECT_EQ(RoughDuration(52), "about 50 s");
  EXPECT_EQ(RoughDuration(161), "about 3 min");
  EXPECT_EQ(RoughDuration(1287), "about 20 min");
  EXPECT_EQ(RoughDuration(54'060), "about 15 h");
  EXPECT_EQ(RoughDuration(5'600), "about 1.5 h");
}

}  // namespace
}  // namespace varifocal::client

// The best candidate of one half of the contexts, tested on the other half.
#include "db/stats/choice.h"

#include <cmath>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"
#include "tests/fakes/compare_fixture.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal::stats {
namespace {

using ChoiceTest = CompareTest;

// One half of the contexts chooses the best candidate, the other tests it.
TEST_F(ChoiceTest, ChosenOnOneHalfAndTestedOnTheOther) {
  const db::NewJob job =
      db::FakeJob({.variants = {"baseline", "a", "b", "c"}, .tasks = {"icl", "recall"}, .planned_count = 48});
  // In every context `a` gains two questions of four, `b` one, `c` none.
  Write(job, [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "a") return i % 4 < 2 ? 1.0 : 0.0;
    if (cell.variant == "b") return i % 4 == 0 ? 1.0 : 0.0;
    return 0.0;
  });
  CompareOptions options;
  int64_t cluster_count = 0;
  for (const Contexts contexts : {Contexts::kChoice, Contexts::kConfirmation}) {
    options.contexts = contexts;
    ASSIGN_OR_FAIL(const auto half, CompareVariants(*reader_, job_id_, "baseline", "a", options));
    EXPECT_EQ(half.suite[0].cluster_count, 12) << "six of each task";
    EXPECT_FALSE(half.suite[0].is_unfinished);
    cluster_count += half.suite[0].cluster_count;
  }
  EXPECT_EQ(cluster_count, 24);
  ASSIGN_OR_FAIL(const auto choices,
                 ChooseAndConfirm(*reader_, {job_id_, "baseline"}, {{job_id_, "c"}, {job_id_, "b"}, {job_id_, "a"}},
                                  /*keeps_baseline=*/true, CompareOptions()));
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices.front().candidate.name, "a");
  EXPECT_EQ(choices.front().choice_difference, 0.5);
  EXPECT_EQ(choices.front().confirmation.difference, 0.5);
  EXPECT_EQ(choices.front().confirmation.cluster_count, 12);
  EXPECT_EQ(choices.front().confirmation.test_count, 1) << "three candidates, one test";
  ASSIGN_OR_FAIL(const auto kept, ChooseAndConfirm(*reader_, {job_id_, "a"}, {{job_id_, "c"}, {job_id_, "b"}},
                                                   /*keeps_baseline=*/true, CompareOptions()));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept.front().is_baseline) << "neither is better than a";
  EXPECT_EQ(kept.front().candidate.name, "a");
  EXPECT_FALSE(kept.front().confirmation.can_infer);
  ASSIGN_OR_FAIL(const auto forced, ChooseAndConfirm(*reader_, {job_id_, "a"}, {{job_id_, "c"}, {job_id_, "b"}},
                                                     /*keeps_baseline=*/false, CompareOptions()));
  EXPECT_FALSE(forced.front().is_baseline);
  EXPECT_LT(forced.front().choice_difference, 0);
}

// The best of eight candidates without any true difference: its difference on the half that chose it is positive, on the
// other half it is not, and the test there is right in 95 % of jobs.
TEST(Choice, IsUnbiasedOnTheOtherHalf) {
  constexpr int kJobs = 25;
  double chosen = 0, confirmed = 0;
  int significant = 0;
  for (int number = 0; number < kJobs; ++number) {
    testing_support::TemporaryDirectory directory;
    const std::string path = directory.File("r.db");
    std::vector<std::string> variants = {"baseline"};
    for (int v = 0; v < 8; ++v) variants.push_back(absl::StrCat("v", v));
    const db::NewJob job = db::FakeJob({.variants = variants, .planned_count = 24});
    Random random(absl::StrCat("job ", number));
    const int64_t job_id =
        db::AddFakeJob(**db::Writer::Open(path), job, [&](const auto&, int64_t, db::Outcome& outcome) {
          outcome.scores = {{"exact_match", random.Coin() ? 1.0 : 0.0}, {"token_f1", 0.5}};
          return true;
        });
    const auto reader = *db::Reader::Open(path);
    std::vector<db::JobVariant> candidates;
    for (int v = 0; v < 8; ++v) candidates.push_back({job_id, absl::StrCat("v", v)});
    ASSIGN_OR_FAIL(const auto choices, ChooseAndConfirm(*reader, {job_id, "baseline"}, candidates,
                                                        /*keeps_baseline=*/false, CompareOptions()));
    ASSERT_EQ(choices.size(), 1u);
    chosen += choices.front().choice_difference / kJobs;
    confirmed += choices.front().confirmation.difference / kJobs;
    significant += choices.front().confirmation.p_value < 0.05;
  }
  std::cout << absl::StrFormat("the chosen candidate: %+.1f points where it was chosen, %+.1f on the other half\n",
                               100 * chosen, 100 * confirmed);
  // A difference of 12 pairs has a standard deviation of sqrt(1 / 2 / 12) = 0.20; the mean of 25 jobs, 0.04.
  EXPECT_GT(chosen, 0.12);
  EXPECT_LT(std::abs(confirmed), 0.12);
  EXPECT_LE(significant, 5) << "1.25 are expected; 6 or more have a probability of 0.001";
}

}  // namespace
}  // namespace varifocal::stats

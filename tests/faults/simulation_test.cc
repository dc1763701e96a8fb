// Seeded runs of the job manager in simulated time (tests/faults/simulation.h). A violation prints its trial; that run
// alone: VARIFOCAL_FAULT_TRIAL=N. Controls: planted defects of the surroundings are found.
#include "tests/faults/simulation.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

// Runs the trials and checks each; returns the sums over all runs.
SimulationResult RunAll(Trials& trials, const SimulationOptions& options) {
  Simulation simulation;
  SimulationResult sum;
  while (trials.Next()) {
    const SimulationResult result = simulation.Run(options, trials.MakeRandom());
    EXPECT_EQ(result.violation, "") << "trial " << trials.index();
    sum.job_count += result.job_count;
    sum.crash_count += result.crash_count;
    sum.pause_count += result.pause_count;
    sum.answer_count += result.answer_count;
  }
  PrintMeasured(absl::StrCat(sum.job_count, " jobs, ", sum.answer_count, " answers, ", sum.crash_count, " crashes, ",
                             sum.pause_count, " pauses"));
  return sum;
}

TEST(Simulation, EveryJobEndsWithTheAnswersOfAnUndisturbedOne) {
  Trials trials("simulated runs", {.quick = 500, .full = 100'000});
  const SimulationResult sum = RunAll(trials, {});
  if (trials.wanted_count() < 500) return;
  EXPECT_GT(sum.crash_count, 0);
  EXPECT_GT(sum.pause_count, 0);
}

TEST(Simulation, AFullDiskPausesJobsWhichContinueByThemselves) {
  Trials trials("runs with full disks", {.quick = 100, .full = 5000});
  const SimulationResult sum = RunAll(trials, {.event_count = 3,
                                               .crash_count_max = 0,
                                               .engine_error_share = 0,
                                               .disk_fault_count_max = 6,
                                               .clock_jump_count = 0});
  EXPECT_GT(sum.pause_count, 0);
}

TEST(Simulation, AnotherProcessThatWritesOrReadsDelaysAndLosesNothing) {
  Trials trials("runs with locks", {.quick = 20, .full = 2000});
  const SimulationResult sum = RunAll(trials, {.event_count = 3,
                                               .crash_count_max = 1,
                                               .engine_error_share = 0,
                                               .disk_fault_count_max = 0,
                                               .lock_count_max = 4,
                                               .clock_jump_count = 0});
  EXPECT_GT(sum.pause_count, 0);
}

TEST(Simulation, TimesNeverGoBackWhenTheClockJumps) {
  Trials trials("runs with 10 clock jumps of up to a day", {.quick = 60, .full = 2000});
  RunAll(trials, {.disk_fault_count_max = 0, .clock_jump_count = 10});
}

TEST(Simulation, OneSeedIsOneRun) {
  Simulation simulation;
  for (int seed = 0; seed < 20; ++seed) {
    const SimulationResult first = simulation.Run({}, Random(absl::StrCat("the same ", seed)));
    const SimulationResult second = simulation.Run({}, Random(absl::StrCat("the same ", seed)));
    EXPECT_EQ(first.job_count, second.job_count) << seed;
    EXPECT_EQ(first.crash_count, second.crash_count) << seed;
    EXPECT_EQ(first.pause_count, second.pause_count) << seed;
    EXPECT_EQ(first.answer_count, second.answer_count) << seed;
  }
}

TEST(Simulation, PlantedBugsAreFound) {
  Simulation simulation;
  for (const PlantedBug planted :
       {PlantedBug::kCrashLosesASample, PlantedBug::kAnswerChangesOnRetry, PlantedBug::kAnswerIsNeverDelivered}) {
    SimulationOptions options;
    options.planted = planted;
    int seed = 0;
    while (seed < 200 && simulation.Run(options, Random(absl::StrCat("planted ", seed))).violation.empty()) ++seed;
    EXPECT_LT(seed, 200) << "bug " << static_cast<int>(planted);
    PrintMeasured(absl::StrCat("planted bug ", static_cast<int>(planted), " found by run ", seed));
  }
}

}  // namespace
}  // namespace varifocal

// The cost model against figures that a person can check, and the simulation in cases whose answer is known: one GPU, a coordinator
// that is too slow, a disk that is too slow, too few requests.
#include "bench/scale_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace varifocal {
namespace {

// 10 parameters; one head of 2 with one key head.
constexpr ModelShape kTiny = {10, 1, 1, 1, 2, 2};

TEST(ScaleModelTest, CountsOperationsAndBytes) {
  EXPECT_EQ(FlopsOf(kTiny, 0, 3).products, 60);
  EXPECT_EQ(FlopsOf(kTiny, 0, 3).attention, 4 * 2 * 6);  // 1 + 2 + 3 visible keys
  EXPECT_EQ(FlopsOf(kTiny, 3, 2).attention, 4 * 2 * 9);  // 4 + 5
  // A prompt in two parts costs what it costs in one.
  EXPECT_EQ(FlopsOf(kTiny, 0, 3).attention + FlopsOf(kTiny, 3, 2).attention, FlopsOf(kTiny, 0, 5).attention);
  EXPECT_EQ(kTiny.KvBytes(5), 2 * 2 * 2 * 5);
  EXPECT_EQ(kTiny.WeightBytes(), 20);
}

GpuAssumption Gpu() { return {1e6, 1e6, 1e9, 1e9}; }

ScaleJob Job(int64_t answers) {
  ScaleJob job;
  job.answer_count = answers;
  job.lengths = {1000};
  job.question_tokens = 100;
  job.new_tokens = 0;
  return job;
}

TEST(ScaleModelTest, OneGpuTakesTheSumOfItsRequests) {
  const ScaleJob job = Job(800);
  const double first = ServiceSeconds(kTiny, Gpu(), job, 1000, true, 1);
  const double later = ServiceSeconds(kTiny, Gpu(), job, 1000, false, 1);
  EXPECT_NEAR(first, (2 * 10 * 1000 + 8 * 500500) / 1e6, 1e-9);
  EXPECT_LT(later, first / 4);
  const ScaleResult result = Simulate(kTiny, Gpu(), job, {}, {.gpu_count = 1});
  EXPECT_EQ(result.answer_count, 800);
  EXPECT_NEAR(result.seconds, 200 * (first + 3 * later), 0.02 * result.seconds) << "service times vary by 10 %";
  EXPECT_EQ(result.limit, "GPUs");
  // Twice the GPUs, half the time; the same seed, the same run.
  EXPECT_NEAR(Simulate(kTiny, Gpu(), job, {}, {.gpu_count = 2}).seconds, result.seconds / 2, 0.05 * result.seconds);
  EXPECT_EQ(Simulate(kTiny, Gpu(), job, {}, {.gpu_count = 1}).seconds, result.seconds);
}

TEST(ScaleModelTest, NamesTheLimit) {
  const ScaleJob job = Job(8000);
  ScaleInputs slow_runner;
  slow_runner.runner_seconds_per_token = 1e-3;
  ScaleResult result = Simulate(kTiny, Gpu(), job, slow_runner, {.gpu_count = 64});
  EXPECT_EQ(result.limit, "coordinator");
  EXPECT_NEAR(result.seconds, 8000, 100) << "1 s an answer";

  ScaleInputs slow_disk;
  slow_disk.commit_seconds = 100;
  result = Simulate(kTiny, Gpu(), job, slow_disk, {.gpu_count = 1000, .in_flight = 8});
  EXPECT_EQ(result.limit, "database");
  EXPECT_LE(result.answers_per_commit, 8.0) << "no more end together than are in flight";

  // 8 requests of one context at a time: one or two workers of 64 have work.
  result = Simulate(kTiny, Gpu(), job, {}, {.gpu_count = 64, .in_flight = 8});
  EXPECT_EQ(result.limit, "queue");
  EXPECT_LT(result.gpu_share, 0.1);
  EXPECT_GT(result.full_share, 0.9);
  EXPECT_EQ(Simulate(kTiny, Gpu(), job, {}, {.gpu_count = 64, .in_flight = 1024}).limit, "GPUs");
}

TEST(ScaleModelTest, MemoryBoundsTheRequestsOfAWorker) {
  GpuAssumption small = Gpu();
  small.memory_bytes = kTiny.WeightBytes() + 2.5 * kTiny.KvBytes(1000);
  const ScaleResult result = Simulate(kTiny, small, Job(800), {}, {.gpu_count = 1});
  EXPECT_EQ(result.answer_count, 800);
  EXPECT_EQ(result.limit, "GPUs");
}

}  // namespace
}  // namespace varifocal

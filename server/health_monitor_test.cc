// A job thread without a heartbeat is stalled, and an engine that has work and finishes no step is not serving. Method: by
// hand, with times.
#include "server/health_monitor.h"

#include <gtest/gtest.h>

#include "tests/support/messages.h"

namespace varifocal {
namespace {

EngineStatus WithWork(int64_t step_count, int64_t running_count) {
  EngineStatus status;
  status.step_count = step_count;
  status.running_count = running_count;
  return status;
}

TEST(JobThreadTest, WithoutAHeartbeat) {
  EXPECT_TRUE(CheckJobThread(kJobStallUs - 1).ok());
  EXPECT_TRUE(CheckJobThread(kJobStallUs).ok());
  const absl::Status stalled = CheckJobThread(kJobStallUs + 1);
  EXPECT_EQ(stalled.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(stalled.message(), Message("120 s"));
}

TEST(EngineStallTest, WorkWithoutAStep) {
  EngineStalls stalls;
  EXPECT_TRUE(stalls.Look("m", WithWork(7, 1), 0).ok());
  EXPECT_TRUE(stalls.Look("m", WithWork(7, 1), kEngineStallUs).ok()) << "at the limit";
  EXPECT_FALSE(stalls.Look("m", WithWork(7, 1), kEngineStallUs + 1).ok());
  EXPECT_TRUE(stalls.Look("m", WithWork(8, 1), kEngineStallUs + 2).ok()) << "a step ends it";
  EXPECT_TRUE(stalls.Look("n", WithWork(0, 1), kEngineStallUs + 2).ok()) << "each model has its own time";
}

TEST(EngineStallTest, AnIdleEngineTakesNoSteps) {
  EngineStalls stalls;
  EXPECT_TRUE(stalls.Look("m", WithWork(7, 0), 0).ok());
  EXPECT_TRUE(stalls.Look("m", WithWork(7, 0), 10 * kEngineStallUs).ok());
  EXPECT_TRUE(stalls.Look("m", WithWork(7, 2), 11 * kEngineStallUs).ok()) << "its time begins with the work";
  EXPECT_FALSE(stalls.Look("m", WithWork(7, 2), 13 * kEngineStallUs).ok());
}

TEST(EngineStallTest, AModelThatIsLoadedAgainBeginsAnew) {
  EngineStalls stalls;
  EXPECT_TRUE(stalls.Look("m", WithWork(0, 1), 0).ok());
  stalls.Forget({});
  EXPECT_TRUE(stalls.Look("m", WithWork(0, 1), 2 * kEngineStallUs).ok());
}

}  // namespace
}  // namespace varifocal

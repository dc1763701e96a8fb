// Waits until a job of a JobManager satisfies a condition, in tests.
//
// The job runs on the manager's own threads, so its view is polled. A minute without the condition fails the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "server/jobs/job_manager.h"

namespace varifocal {

// An empty view when the condition was not met.
inline JobView WaitForJob(JobManager& manager, int64_t job_id, const std::function<bool(const JobView&)>& condition) {
  for (int i = 0; i < 6000; ++i) {
    auto view = manager.Get(job_id, /*with_cells=*/true);
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return {};
    if (condition(*view)) return *view;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "job " << job_id << " did not reach the expected state";
  return {};
}

}  // namespace varifocal

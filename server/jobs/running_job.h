// State of the current job that is not in its row. Private to JobManager's sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "eval_tasks/runner.h"
#include "server/jobs/progress_meter.h"

namespace varifocal {

inline std::string JobName(int64_t job_id) { return absl::StrCat("jobs/", job_id); }

// The current job; the runner is set when its samples start.
struct RunningJob {
  int64_t job_id = 0;
  bool cancel_requested = false;
  bool retry_now = false;
  std::string paused_reason;  // empty: not paused
  std::string lost_reason;    // why its results can no longer be stored
  std::shared_ptr<Runner> runner;
  RunProgress progress;
  ProgressMeter meter;
};

}  // namespace varifocal

// What a JobManager knows of the job in hand beside its row. For the manager's own files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "eval_tasks/runner.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/progress_meter.h"

namespace varifocal {

inline std::string JobName(int64_t job_id) { return absl::StrCat("jobs/", job_id); }

// The job in hand; the runner is there from the moment its samples start.
struct JobManager::Running {
  int64_t job_id = 0;
  bool cancel_requested = false;
  bool retry_now = false;
  std::string paused_reason;  // empty: it is at work
  std::string lost_reason;    // why nothing of it can be stored any more
  std::shared_ptr<Runner> runner;
  RunProgress progress;
  ProgressMeter meter;
};

}  // namespace varifocal

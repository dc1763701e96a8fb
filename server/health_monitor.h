// Monitors the daemon: checks the lanes, the job thread and the files of the database, and sets the health of the
// services accordingly.
//
//   Inference    not serving while the control, text or start lane is stalled
//   Evaluation   not serving while the control or submit lane is stalled, the job thread does not respond, or the
//                database's files are not the ones that were opened
//   ""           serving while both are
//
//   model/NAME   not serving after the model's device has failed permanently
//
// A lane is stalled when its oldest waiting call has waited longer than server/rpc/limits.h allows. A service recovers
// when the cause is resolved. Every change is logged with its cause.
//
// Threads: one background thread, which polls four times a second; the monitored parts must outlive it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/lanes.h"

namespace varifocal {

struct ServiceHealth {
  absl::Status inference;  // OK: serving; else the cause
  absl::Status evaluation;
};

// As described above; `jobs` is null in a server without a database.
ServiceHealth LookAtHealth(const Lanes& lanes, const JobManager* jobs);

// The health service's name of a model.
std::string HealthName(const std::string& model);

class HealthMonitor {
 public:
  using Setter = std::function<void(const std::string& service, bool is_serving)>;

  HealthMonitor(const Lanes* lanes, const JobManager* jobs, const ModelHost* host, Setter setter);
  ~HealthMonitor() { Stop(); }
  void Stop();  // no health is set afterwards; idempotent

 private:
  void Loop();
  void LookAtModels();

  const Lanes* const lanes_;
  const JobManager* const jobs_;
  const ModelHost* const host_;
  const Setter setter_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<std::string> faulted_;  // models whose health was set to not serving
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace varifocal

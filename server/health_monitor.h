// Monitors the daemon: checks the pools, the job thread and the files of the database, and sets the health of the
// services accordingly.
//
//   Inference    not serving while the control, text or start pool is stalled
//   Evaluation   not serving while the control or submit pool is stalled, the job thread does not respond, or the
//                database's files are not the ones that were opened
//   ""           serving while both are
//
//   model/NAME   not serving after the model's device has failed permanently, or while its engine has work and finishes no
//                step
//
// A pool is stalled when its oldest waiting call has waited longer than server/rpc/limits.h allows. A service recovers
// when the cause is resolved. Every change is logged with its cause.
//
// Threads: one background thread, which polls four times a second; the monitored parts must outlive it.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/rpc_pools.h"

namespace varifocal {

struct ServiceHealth {
  absl::Status inference;  // OK: serving; else the cause
  absl::Status evaluation;
  absl::Status threads;  // not OK: a pool or the job thread is stalled, which a restart would end
};

// As described above; `jobs` is null in a server without a database.
ServiceHealth LookAtHealth(const RpcPools& pools, const JobManager* jobs);

// OK, or UNAVAILABLE when the job thread has been without a heartbeat for longer than kJobStallUs.
absl::Status CheckJobThread(int64_t silent_us);

// The health service's name of a model.
std::string HealthName(const std::string& model);

// Whether the engines of models with work finish steps, without a thread.
class EngineStalls {
 public:
  // OK, or UNAVAILABLE when the model (or its copy on a device) has had work and finished no step for longer than kEngineStallUs.
  absl::Status Look(const std::string& model, const EngineStatus& status, int64_t now_us);
  void Forget(const std::set<std::string>& models_left);

 private:
  struct Seen {
    int64_t step_count = -1;
    int64_t since_us = 0;
  };
  std::map<std::string, Seen> seen_;
};

class HealthMonitor {
 public:
  using Setter = std::function<void(const std::string& service, bool is_serving)>;

  // `on_period`, if set, is called in each period, with whether no thread is stalled.
  HealthMonitor(const RpcPools* pools, const JobManager* jobs, const ModelHost* host, Setter setter,
                std::function<void(bool is_alive)> on_period = nullptr, const Clock& clock = Clock::Real());
  ~HealthMonitor() { Stop(); }
  void Stop();  // no health is set afterwards; idempotent

 private:
  void Loop();
  void LookAtModels() VF_REQUIRES(mutex_);

  const RpcPools* const pools_;
  const JobManager* const jobs_;
  const ModelHost* const host_;
  const Setter setter_;
  const std::function<void(bool is_alive)> on_period_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar wake_;
  EngineStalls stalls_ VF_GUARDED_BY(mutex_);
  std::set<std::string> failed_ VF_GUARDED_BY(mutex_);  // models whose health was set to not serving
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace varifocal

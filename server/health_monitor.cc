#include "server/health_monitor.h"

#include <chrono>

#include "base/log.h"
#include "base/status_macros.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(250);

absl::Status CheckPool(const RpcPool& pool, int64_t limit_us) {
  const int64_t wait_us = pool.WaitMicros();
  if (wait_us <= limit_us) return absl::OkStatus();
  return Unavailable("a call has waited ", wait_us / 1'000'000, " s for the ", pool.name(), " threads, the limit is ",
                     limit_us / 1'000'000, " s");
}

absl::Status CheckInference(const RpcPools& pools) {
  RETURN_IF_ERROR(CheckPool(pools.control, kControlStallUs));
  RETURN_IF_ERROR(CheckPool(pools.start, kControlStallUs));
  return CheckPool(pools.text, kWorkStallUs);
}

absl::Status CheckJobs(const RpcPools& pools, const JobManager* jobs) {
  RETURN_IF_ERROR(CheckPool(pools.control, kControlStallUs));
  RETURN_IF_ERROR(CheckPool(pools.submit, kWorkStallUs));
  return CheckJobThread(jobs == nullptr ? 0 : jobs->SilentMicros());
}

}  // namespace

absl::Status CheckJobThread(int64_t silent_us) {
  if (silent_us <= kJobStallUs) return absl::OkStatus();
  return Unavailable("the job thread has not responded for ", silent_us / 1'000'000, " s, the limit is ",
                     kJobStallUs / 1'000'000, " s");
}

ServiceHealth LookAtHealth(const RpcPools& pools, const JobManager* jobs) {
  ServiceHealth health;
  health.inference = CheckInference(pools);
  health.evaluation = CheckJobs(pools, jobs);
  health.threads = health.inference.ok() ? health.evaluation : health.inference;
  if (jobs != nullptr) health.evaluation.Update(jobs->CheckDatabase());
  return health;
}

std::string HealthName(const std::string& model) { return absl::StrCat("model/", model); }

absl::Status EngineStalls::Look(const std::string& model, const EngineStatus& status, int64_t now_us) {
  Seen& seen = seen_[model];
  if (status.step_count != seen.step_count || status.queued_count + status.running_count == 0)
    seen = {status.step_count, now_us};
  const int64_t silent_us = now_us - seen.since_us;
  if (silent_us <= kEngineStallUs) return absl::OkStatus();
  return Unavailable("the engine of ", model, " has finished no step for ", silent_us / 1'000'000, " s, the limit is ",
                     kEngineStallUs / 1'000'000, " s");
}

void EngineStalls::Forget(const std::set<std::string>& models_left) {
  std::erase_if(seen_, [&](const auto& entry) { return models_left.count(entry.first) == 0; });
}

HealthMonitor::HealthMonitor(const RpcPools* pools, const JobManager* jobs, const ModelHost* host, Setter setter,
                             std::function<void(bool is_alive)> on_period, const Clock& clock)
    : pools_(pools),
      jobs_(jobs),
      host_(host),
      setter_(std::move(setter)),
      on_period_(std::move(on_period)),
      clock_(clock),
      thread_([this] { Loop(); }) {}

// Loading and unloading set the health of a model too, so only changes are set here.
void HealthMonitor::LookAtModels() {
  std::set<std::string> names, failed;
  for (const std::shared_ptr<HostedModel>& model : host_->List()) {
    absl::Status now;
    for (const EngineCopy& copy : model->engine->Copies()) {
      const std::string name = copy.device.empty() ? model->name : absl::StrCat(model->name, " on ", copy.device);
      names.insert(name);
      if (!copy.engine->Fault().ok()) continue;  // others serve in its place, or FaultOf has the cause
      now.Update(stalls_.Look(name, copy.engine->Status(), clock_.MonotonicMicros()));
    }
    now.Update(FaultOf(*model));
    const bool was_failed = failed_.count(model->name) > 0;
    if (!now.ok()) failed.insert(model->name);
    if (now.ok() != was_failed) continue;
    Log(now.ok() ? LogLevel::kInfo : LogLevel::kError, "health",
        {{"service", HealthName(model->name)}, {"serving", now.ok() ? "yes" : "no"}, {"cause", now.message()}});
    setter_(HealthName(model->name), now.ok());
  }
  failed_ = std::move(failed);
  stalls_.Forget(names);
}

void HealthMonitor::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void HealthMonitor::Loop() {
  bool inference_serves = true;
  bool evaluation_serves = true;
  const auto set = [&](const std::string& service, const absl::Status& now, bool* serves) {
    if (now.ok() == *serves) return;
    *serves = now.ok();
    Log(now.ok() ? LogLevel::kInfo : LogLevel::kError, "health",
        {{"service", service}, {"serving", now.ok() ? "yes" : "no"}, {"cause", now.message()}});
    setter_(service, now.ok());
    setter_("", inference_serves && evaluation_serves);
  };
  MutexLock lock(mutex_);
  while (!stopping_) {
    const ServiceHealth health = LookAtHealth(*pools_, jobs_);
    set(v1::Inference::service_full_name(), health.inference, &inference_serves);
    set(v1::Evaluation::service_full_name(), health.evaluation, &evaluation_serves);
    LookAtModels();
    if (on_period_) on_period_(health.threads.ok());
    wake_.WaitFor(mutex_, kPeriod, [this]() VF_REQUIRES(mutex_) { return stopping_; });
  }
}

}  // namespace varifocal

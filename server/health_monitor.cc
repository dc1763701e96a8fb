#include "server/health_monitor.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(250);

absl::Status CheckLane(const WorkerPool& lane, int64_t limit_us) {
  const int64_t wait_us = lane.WaitMicros();
  if (wait_us <= limit_us) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("a call has waited ", wait_us / 1'000'000, " s for the ", lane.name(),
                                             " threads, the limit is ", limit_us / 1'000'000, " s"));
}

absl::Status CheckInference(const Lanes& lanes) {
  RETURN_IF_ERROR(CheckLane(lanes.control, kControlStallUs));
  RETURN_IF_ERROR(CheckLane(lanes.start, kControlStallUs));
  return CheckLane(lanes.text, kWorkStallUs);
}

absl::Status CheckEvaluation(const Lanes& lanes, const JobManager* jobs) {
  RETURN_IF_ERROR(CheckLane(lanes.control, kControlStallUs));
  RETURN_IF_ERROR(CheckLane(lanes.submit, kWorkStallUs));
  if (jobs == nullptr) return absl::OkStatus();
  const int64_t silent_us = jobs->SilentMicros();
  if (silent_us > kJobStallUs) {
    return absl::UnavailableError(absl::StrCat("the job thread has not responded for ", silent_us / 1'000'000,
                                               " s, the limit is ", kJobStallUs / 1'000'000, " s"));
  }
  return jobs->CheckDatabase();
}

}  // namespace

ServiceHealth LookAtHealth(const Lanes& lanes, const JobManager* jobs) {
  return {CheckInference(lanes), CheckEvaluation(lanes, jobs)};
}

std::string HealthName(const std::string& model) { return absl::StrCat("model/", model); }

HealthMonitor::HealthMonitor(const Lanes* lanes, const JobManager* jobs, const ModelHost* host, Setter setter)
    : lanes_(lanes), jobs_(jobs), host_(host), setter_(std::move(setter)), thread_([this] { Loop(); }) {}

// Loading and unloading set the health of a model too, so only changes are set here.
void HealthMonitor::LookAtModels() {
  std::set<std::string> faulted;
  for (const std::shared_ptr<HostedModel>& model : host_->List()) {
    const absl::Status fault = FaultOf(*model);
    if (fault.ok()) continue;
    faulted.insert(model->name);
    if (faulted_.count(model->name) > 0) continue;
    Log(LogLevel::kError, "health",
        {{"service", HealthName(model->name)}, {"serving", "no"}, {"cause", fault.message()}});
    setter_(HealthName(model->name), false);
  }
  faulted_ = std::move(faulted);
}

void HealthMonitor::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
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
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const ServiceHealth health = LookAtHealth(*lanes_, jobs_);
    set(v1::Inference::service_full_name(), health.inference, &inference_serves);
    set(v1::Evaluation::service_full_name(), health.evaluation, &evaluation_serves);
    LookAtModels();
    wake_.wait_for(lock, kPeriod, [this] { return stopping_; });
  }
}

}  // namespace varifocal

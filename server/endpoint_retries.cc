#include "server/endpoint_retries.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "server/endpoint/endpoint_model.h"

namespace varifocal {
namespace {

constexpr int kRefusalsMax = 8;  // that are counted

}  // namespace

EndpointRetries::EndpointRetries(std::vector<EndpointSpec> off, ModelHost* host, const Clock& clock, Connect connect,
                                 std::function<void(const std::string& name)> on_serving, int64_t period_ms)
    : host_(host),
      clock_(clock),
      connect_(std::move(connect)),
      on_serving_(std::move(on_serving)),
      period_ms_(period_ms) {
  for (EndpointSpec& spec : off) off_.push_back({.spec = std::move(spec)});
  thread_ = std::thread([this] { Loop(); });
}

EndpointRetries::~EndpointRetries() {
  {
    MutexLock lock(mutex_);
    *stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

bool EndpointRetries::Try(Off& off) {
  const EndpointSpec& spec = off.spec;
  if (*stopping_ || !host_->IsOff(spec.name)) return true;
  // A short question first: the whole start of an endpoint retries for as long as its settings say.
  if (!ProbeEndpoint(spec, clock_).ok()) return false;
  if (off.pause > 0) {
    --off.pause;
    return false;
  }
  const absl::Status loaded =
      host_
          ->LoadWith(spec.name, spec.url,
                     [&](const std::string&, const std::string&) {
                       return connect_(spec, [stopping = stopping_, host = host_, name = spec.name] {
                         return stopping->load() || !host->IsOff(name);
                       });
                     })
          .status();
  if (!loaded.ok()) {
    if (*stopping_ || !host_->IsOff(spec.name)) return true;
    off.refusal_count = std::min(off.refusal_count + 1, kRefusalsMax);
    off.pause = (1 << off.refusal_count) - 1;
    return false;
  }
  if (host_->Find(spec.name).ok()) on_serving_(spec.name);
  Log(LogLevel::kInfo, "endpoint_serves", {{"model", spec.name}, {"url", spec.url}});
  return true;
}

void EndpointRetries::Loop() {
  MutexLock lock(mutex_);
  while (!*stopping_ && !off_.empty()) {
    wake_.WaitFor(mutex_, std::chrono::milliseconds(period_ms_),
                  [this]() VF_REQUIRES(mutex_) { return stopping_->load(); });
    if (*stopping_) return;
    lock.Unlock();
    std::erase_if(off_, [this](Off& off) { return Try(off); });
    lock.Lock();
  }
}

}  // namespace varifocal

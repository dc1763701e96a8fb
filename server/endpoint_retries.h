// Tries endpoints again that did not answer when the daemon started, until each of them serves.
//
// Such a model is off: it is listed as faulted with the cause, calls and jobs that name it are UNAVAILABLE
// (ENDPOINT_FAULTED), and the others serve.
//
// Threads: one background thread, none without specs; the host outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/endpoint/endpoint_spec.h"
#include "server/hosting/model_host.h"

namespace varifocal {

class EndpointRetries {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<HostedModel>>(
      const EndpointSpec&, const std::function<bool()>& is_abandoned)>;

  // `connect` makes the model, `on_serving` gets the name of each that has come back; both on the background thread.
  EndpointRetries(std::vector<EndpointSpec> off, ModelHost* host, const Clock& clock, Connect connect,
                  std::function<void(const std::string& name)> on_serving, int64_t period_ms);
  // Abandons an endpoint that is being tried.
  ~EndpointRetries();

 private:
  void Loop();
  bool Try(const EndpointSpec& spec);

  std::vector<EndpointSpec> off_;  // of the thread
  ModelHost* const host_;
  const Clock& clock_;
  const Connect connect_;
  const std::function<void(const std::string& name)> on_serving_;
  const int64_t period_ms_;
  Mutex mutex_;
  CondVar wake_;
  // Written with the lock. Shared with the models, which outlive this.
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  std::thread thread_;
};

}  // namespace varifocal

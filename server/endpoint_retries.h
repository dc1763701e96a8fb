// Tries endpoints again that did not answer when the daemon started, until each of them serves.
//
// Such a model is off: it is listed as faulted with the cause, calls and jobs that name it are UNAVAILABLE
// (ENDPOINT_FAULTED), and the others serve. Whether it answers is asked once a period, which costs nothing. One that
// answers but is refused, for example as it returns other tokens, is paid for: 1, 3, 7, .. 255 further answers are passed over
// before it is connected again.
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
  struct Off {
    EndpointSpec spec;
    int refusal_count = 0;
    int pause = 0;  // periods
  };

  void Loop();
  // True when it serves or was unloaded, or a stop was asked for.
  bool Try(Off& off);

  std::vector<Off> off_;  // of the thread
  ModelHost* const host_;
  const Clock& clock_;
  const Connect connect_;
  const std::function<void(const std::string& name)> on_serving_;
  const int64_t period_ms_;
  Mutex mutex_;  // for wake_ alone: what the thread waits for is atomic, as the models read it without a lock
  CondVar wake_;
  // Written with the lock. Shared with the models, which outlive this.
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  std::thread thread_;
};

}  // namespace varifocal

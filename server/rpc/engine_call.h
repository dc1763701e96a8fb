// Connects one RPC to its engine request, so that a disconnecting client cancels the request.
//
// The RPC's reactor may be destroyed before Engine::Start returns, and the client may disconnect before there is a
// handle: so both sides share this object, and the second one to arrive cancels. A request that still waits at the gate
// is removed from the queue.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/hosting/model_host.h"
#include "server/rpc/engine_gate.h"

namespace varifocal {

class EngineCall : public std::enable_shared_from_this<EngineCall> {
 public:
  // Calls callbacks.on_done exactly once, also when Engine::Start fails or the call is cancelled before it. The reactor
  // must live until on_done, as long as Cancel may be called.
  void Start(EngineGate* gate, const std::string& peer, const std::shared_ptr<HostedModel>& model,
             EngineRequest request, EngineCallbacks callbacks) {
    MutexLock lock(mutex_);
    if (cancelled_) {
      lock.Unlock();
      return callbacks.on_done(absl::CancelledError("the call was cancelled"));
    }
    gate_ = gate;
    model_name_ = model->name;
    on_done_ = callbacks.on_done;
    callbacks.on_done = [gate, name = model->name, on_done = on_done_](absl::StatusOr<EngineResult> result) {
      gate->Leave(name);
      on_done(std::move(result));
    };
    auto shared = std::make_shared<std::pair<EngineRequest, EngineCallbacks>>(std::move(request), std::move(callbacks));
    waiting_id_ = gate->Enter(model_name_, peer, [self = shared_from_this(), model, shared] {
      self->StartNow(model->engine.get(), std::move(shared->first), std::move(shared->second));
    });
  }

  void Cancel() {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (handle_) return engine_->Cancel(*handle_);
    if (!waiting_id_ || !gate_->Withdraw(model_name_, *waiting_id_)) return;
    waiting_id_.reset();
    const auto on_done = on_done_;
    lock.Unlock();
    on_done(absl::CancelledError("the call was cancelled"));
  }

 private:
  void StartNow(Engine* engine, EngineRequest request, EngineCallbacks callbacks) {
    const auto on_done = callbacks.on_done;
    // After an exception the request is not queued: queueing is the engine's last step.
    const absl::StatusOr<Engine::Handle> handle = CatchExceptions(
        "starting the request", [&] { return engine->Start(std::move(request), std::move(callbacks)); });
    if (!handle.ok()) return on_done(handle.status());
    MutexLock lock(mutex_);
    engine_ = engine;
    handle_ = *handle;
    if (cancelled_) engine_->Cancel(*handle_);
  }

  Mutex mutex_;
  EngineGate* gate_ VF_GUARDED_BY(mutex_) = nullptr;
  std::string model_name_ VF_GUARDED_BY(mutex_);
  std::function<void(absl::StatusOr<EngineResult>)> on_done_ VF_GUARDED_BY(mutex_);
  std::optional<int64_t> waiting_id_ VF_GUARDED_BY(mutex_);
  Engine* engine_ VF_GUARDED_BY(mutex_) = nullptr;
  std::optional<Engine::Handle> handle_ VF_GUARDED_BY(mutex_);
  bool cancelled_ VF_GUARDED_BY(mutex_) = false;
};

}  // namespace varifocal

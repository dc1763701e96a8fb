// The tie between one RPC and its request in an engine, so that a client that goes away stops the engine's work.
//
// The RPC's reactor may be gone before Engine::Start has returned, and the client may go before there is a handle: so
// both sides share this small object, and whoever comes second does the cancelling.
//
// Threads: any.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "server/engine/engine.h"

namespace varifocal {

class EngineCall {
 public:
  // Calls callbacks.on_done exactly once: also when Engine::Start fails. The caller keeps the engine alive meanwhile,
  // the reactor as long as it may call Cancel.
  void Start(Engine* engine, EngineRequest request, EngineCallbacks callbacks) {
    const auto on_done = callbacks.on_done;
    // An exception leaves the request unsent: the engine queues it last.
    const absl::StatusOr<Engine::Handle> handle = CatchExceptions(
        "starting the request", [&] { return engine->Start(std::move(request), std::move(callbacks)); });
    if (!handle.ok()) return on_done(handle.status());
    std::lock_guard<std::mutex> lock(mutex_);
    engine_ = engine;
    handle_ = *handle;
    if (cancelled_) engine_->Cancel(*handle_);
  }

  void Cancel() {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    if (handle_) engine_->Cancel(*handle_);
  }

 private:
  std::mutex mutex_;
  Engine* engine_ = nullptr;
  std::optional<Engine::Handle> handle_;
  bool cancelled_ = false;
};

}  // namespace varifocal

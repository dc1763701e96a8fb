#include "server/rpc/rpc_pool.h"

#include <utility>

#include "base/check.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {

RpcPool::RpcPool(std::string name, int thread_count, size_t queue_max, const Clock& clock)
    : name_(std::move(name)), queue_max_(queue_max), clock_(clock) {
  for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Loop(); });
}

RpcPool::~RpcPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status RpcPool::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    VF_CHECK(!stopping_, "the server is drained before its workers end");
    if (queue_.size() >= queue_max_) {
      return WithReason(ResourceExhausted(queue_.size(), " calls wait for the ", name_,
                                          " threads of this daemon, the limit is ", queue_max_),
                        ErrorReason::kLaneFull, {{"lane", name_}, {"limit", absl::StrCat(queue_max_)}});
    }
    queue_.push_back({std::move(work), clock_.MonotonicMicros()});
  }
  wake_.NotifyOne();
  return absl::OkStatus();
}

int64_t RpcPool::WaitMicros() const {
  MutexLock lock(mutex_);
  return queue_.empty() ? 0 : clock_.MonotonicMicros() - queue_.front().post_us;
}

void RpcPool::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    wake_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front().run);
    queue_.pop_front();
    lock.Unlock();
    // Posted work handles its own exceptions; one that gets here belongs to no call.
    const absl::Status status = CatchExceptions("a worker", [&] {
      work();
      work = nullptr;
      return absl::OkStatus();
    });
    if (!status.ok()) Log(LogLevel::kError, "worker_exception", {{"error", status.message()}});
    lock.Lock();
  }
}

}  // namespace varifocal

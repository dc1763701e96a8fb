#include "server/rpc/worker_pool.h"

#include <utility>

#include "base/check.h"
#include "base/exceptions.h"
#include "base/log.h"

namespace varifocal {

WorkerPool::WorkerPool(int thread_count) {
  for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Post(std::function<void()> work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    VF_CHECK(!stopping_, "the server is drained before its workers end");
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void WorkerPool::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    // What is posted answers its own exceptions; one that gets here has no call left to be told.
    const absl::Status status = CatchExceptions("a worker", [&] {
      work();
      work = nullptr;
      return absl::OkStatus();
    });
    if (!status.ok()) Log(LogLevel::kError, "worker_exception", {{"error", status.message()}});
    lock.lock();
  }
}

}  // namespace varifocal

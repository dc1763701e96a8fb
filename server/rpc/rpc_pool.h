// A few threads and a bounded queue for work that must not block gRPC's own threads.
//
// Threads: Post from any. Destruction completes the posted work. Posting afterwards is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace varifocal {

class RpcPool {
 public:
  RpcPool(std::string name, int thread_count, size_t queue_max, const Clock& clock = Clock::Real());
  ~RpcPool();

  // First in, first out. RESOURCE_EXHAUSTED (LANE_FULL) when `queue_max` others wait: `work` is then dropped.
  absl::Status Post(std::function<void()> work);

  // Waiting time of the oldest queued work in microseconds; 0 when the queue is empty. Grows without bound when all
  // threads are blocked, so it detects a stalled pool.
  int64_t WaitMicros() const;
  const std::string& name() const { return name_; }

 private:
  struct Work {
    std::function<void()> run;
    int64_t post_us = 0;
  };
  void Loop();

  const std::string name_;
  const size_t queue_max_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Work> queue_ VF_GUARDED_BY(mutex_);
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace varifocal

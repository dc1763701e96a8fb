// A lane: a few threads and a bounded queue for work that must not block gRPC's own threads.
//
// Threads: Post from any. Destruction completes the posted work. Posting afterwards is a bug.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"

namespace varifocal {

class WorkerPool {
 public:
  WorkerPool(std::string name, int thread_count, size_t queue_max, const Clock& clock = Clock::Real());
  ~WorkerPool();

  // First in, first out. RESOURCE_EXHAUSTED (LANE_FULL) when `queue_max` others wait: `work` is then dropped.
  absl::Status Post(std::function<void()> work);

  // Waiting time of the oldest queued work in microseconds; 0 when the queue is empty. Grows without bound when all
  // threads are blocked, so it detects a stalled lane.
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
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace varifocal

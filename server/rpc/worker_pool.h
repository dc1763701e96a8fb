// A few threads for work that must not block gRPC's own: reading checkpoints, encoding long texts, the database.
//
// Threads: Post from anywhere. Destruction finishes what was posted. Posting afterwards is a bug.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace varifocal {

class WorkerPool {
 public:
  explicit WorkerPool(int thread_count);
  ~WorkerPool();

  void Post(std::function<void()> work);  // first in, first out

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace varifocal

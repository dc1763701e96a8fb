// A blocking thread pool for the work items of one operation.
//
// Run distributes items 0..count-1 from one counter, in order, to the caller and the workers; it returns when every item
// is done. Workers spin briefly between operations, since a step has hundreds in sequence, then sleep, so that an idle
// daemon uses no CPU. Denormals are flushed to zero while items run, on every thread, and the caller's mode is restored.
//
// Threads: Run may be called from several threads; one job runs at a time and the others wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace varifocal::kernels::cpu {

// Flush-to-zero and denormals-are-zero for the life of the object.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  unsigned saved_ = 0;
};

// What an item does, for the profile.
enum class PoolWork { kRows, kProducts, kAttention };
inline constexpr int kPoolWorks = 3;

// Time of jobs: from begin to end of Run, and inside items, summed over threads.
struct PoolProfile {
  int64_t wall_ns[kPoolWorks] = {};
  std::atomic<int64_t> busy_ns[kPoolWorks] = {};
};

class ThreadPool {
 public:
  // `thread_count` includes the caller: 1 means no workers.
  explicit ThreadPool(int thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

  // Every later job of every pool in the process adds to `profile`; null, the default, disables profiling at the cost of
  // one comparison per job. Not while jobs run.
  static void Measure(PoolProfile* profile);

  // Calls item(index, thread) for every index; `thread` is below thread_count() and used by one item at a time. When
  // `cancelled` turns true, items not yet begun are skipped and Run returns false.
  template <typename Item>
  bool Run(PoolWork work, int count, const std::atomic<bool>* cancelled, const Item& item) {
    return RunErased(count, cancelled, work, &item, [](const void* context, int index, int thread) {
      (*static_cast<const Item*>(context))(index, thread);
    });
  }
  template <typename Item>
  bool Run(int count, const std::atomic<bool>* cancelled, const Item& item) {
    return Run(PoolWork::kRows, count, cancelled, item);
  }

 private:
  using Call = void (*)(const void* context, int index, int thread);

  bool RunErased(int count, const std::atomic<bool>* cancelled, PoolWork work, const void* context, Call call);
  void Work(int thread);
  void DoMeasured(int thread);
  void DoItems(int thread);

  std::vector<std::thread> workers_;
  Mutex one_job_;  // one caller at a time; workers read its job without the lock (below)

  // The current job. Written while open_ is false and no worker is inside; a worker enters by incrementing inside_ before
  // reading open_, the caller leaves by clearing open_ before waiting for inside_, so that a descheduled worker never
  // blocks a job.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  int count_ = 0;
  const std::atomic<bool>* cancelled_ = nullptr;
  PoolProfile* profile_ = nullptr;
  PoolWork work_ = PoolWork::kRows;
  std::atomic<int> next_{0};
  std::atomic<bool> open_{false};
  std::atomic<int> inside_{0};
  std::atomic<bool> skipped_{false};

  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> sleepers_{0};
  Mutex sleep_mutex_;  // for wake_ alone: what a worker waits for is atomic
  CondVar wake_;
};

}  // namespace varifocal::kernels::cpu

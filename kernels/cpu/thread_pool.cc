#include "kernels/cpu/thread_pool.h"

#include <pthread.h>

#include <chrono>

#include "base/mutex.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace varifocal::kernels::cpu {
namespace {

// About 50 microseconds: longer than the gap between two operations of a step, short enough to cost little when idle.
constexpr int kSpinPauses = 4000;

void Pause() {
#if defined(__SSE2__)
  _mm_pause();
#endif
}

std::atomic<PoolProfile*> g_profile{nullptr};

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ScopedFlushDenormals::ScopedFlushDenormals() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  saved_ = _mm_getcsr();
  _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
#endif
}

ScopedFlushDenormals::~ScopedFlushDenormals() {
#if defined(__SSE2__)
  _mm_setcsr(saved_);
#endif
}

ThreadPool::ThreadPool(int thread_count) {
  for (int i = 1; i < thread_count; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
    pthread_setname_np(workers_.back().native_handle(), "vf-kernels");
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(sleep_mutex_);
    stopping_.store(true);
  }
  wake_.NotifyAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Measure(PoolProfile* profile) { g_profile.store(profile); }

bool ThreadPool::RunErased(int count, const std::atomic<bool>* cancelled, PoolWork work, const void* context,
                           Call call) {
  MutexLock job(one_job_);
  PoolProfile* const profile = g_profile.load(std::memory_order_relaxed);
  const int64_t begin_ns = profile == nullptr ? 0 : NowNs();
  profile_ = profile;
  work_ = work;
  call_ = call;
  context_ = context;
  count_ = count;
  cancelled_ = cancelled;
  skipped_.store(false, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  const bool alone = workers_.empty() || count <= 1;
  if (!alone) {
    open_.store(true, std::memory_order_seq_cst);
    generation_.fetch_add(1, std::memory_order_seq_cst);
    // A worker increments sleepers_ before its last check of generation_, so no wake-up is lost.
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      MutexLock lock(sleep_mutex_);
      wake_.NotifyAll();
    }
  }
  DoMeasured(0);
  if (!alone) {
    open_.store(false, std::memory_order_seq_cst);
    for (int i = 0; inside_.load(std::memory_order_seq_cst) != 0; ++i) {
      if (i < kSpinPauses) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
  if (profile != nullptr) profile->wall_ns[static_cast<int>(work)] += NowNs() - begin_ns;
  return !skipped_.load(std::memory_order_relaxed);
}

void ThreadPool::DoMeasured(int thread) {
  if (profile_ == nullptr) return DoItems(thread);
  const int64_t begin_ns = NowNs();
  DoItems(thread);
  profile_->busy_ns[static_cast<int>(work_)].fetch_add(NowNs() - begin_ns, std::memory_order_relaxed);
}

void ThreadPool::DoItems(int thread) {
  ScopedFlushDenormals flush;
  for (;;) {
    const int index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) return;
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
      skipped_.store(true, std::memory_order_relaxed);
      return;
    }
    call_(context_, index, thread);
  }
}

void ThreadPool::Work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    for (int i = 0; i < kSpinPauses && generation_.load(std::memory_order_acquire) == seen && !stopping_.load(); ++i)
      Pause();
    if (generation_.load(std::memory_order_acquire) == seen) {
      MutexLock lock(sleep_mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.Wait(sleep_mutex_, [&]() VF_REQUIRES(sleep_mutex_) {
        return generation_.load(std::memory_order_seq_cst) != seen || stopping_.load();
      });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (stopping_.load()) return;
    seen = generation_.load(std::memory_order_acquire);
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) DoMeasured(thread);
    inside_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace varifocal::kernels::cpu

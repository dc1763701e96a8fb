// A mutex, a scoped lock and a condition variable whose use clang checks (-Wthread-safety, deploy/checks.sh thread-safety).
//
// Thin classes over the standard ones, which ThreadSanitizer can observe; absl::Mutex it cannot (docs/decisions/0158). A member that a
// lock protects is VF_GUARDED_BY it, a function called with it held VF_REQUIRES it. The macros are empty for other compilers.
//
// Threads: any. A mutex is not recursive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define VF_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define VF_THREAD_ATTRIBUTE(attribute)
#endif

#define VF_GUARDED_BY(mutex) VF_THREAD_ATTRIBUTE(guarded_by(mutex))
// What a pointer member points to; the pointer itself may be read without the lock.
#define VF_PT_GUARDED_BY(mutex) VF_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
#define VF_REQUIRES(...) VF_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define VF_EXCLUDES(...) VF_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define VF_ACQUIRED_BEFORE(...) VF_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
// With the reason beside it.
#define VF_NO_THREAD_SAFETY_ANALYSIS VF_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace varifocal {

class VF_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() VF_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() VF_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  bool TryLock() VF_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex until the end of its scope; it can be released and taken again in between.
class VF_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) VF_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  // Of a mutex that the caller has taken.
  MutexLock(Mutex& mutex, std::adopt_lock_t) VF_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() VF_THREAD_ATTRIBUTE(release_capability()) {
    if (is_held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() VF_THREAD_ATTRIBUTE(acquire_capability()) {
    mutex_.Lock();
    is_held_ = true;
  }
  void Unlock() VF_THREAD_ATTRIBUTE(release_capability()) {
    is_held_ = false;
    mutex_.Unlock();
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

// `is_done` is called with the lock held and may be annotated so: `[this]() VF_REQUIRES(mutex_) { return stopping_; }`. What has it as a
// parameter is not analysed, as the analysis does not see that the lambda's mutex is the one of the call.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  // May return earlier: the caller tests its condition.
  void Wait(Mutex& mutex) VF_REQUIRES(mutex) {
    HeldLock lock(mutex);
    changed_.wait(lock.lock);
  }
  template <typename Rep, typename Period>
  void WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> duration) VF_REQUIRES(mutex) {
    HeldLock lock(mutex);
    changed_.wait_for(lock.lock, duration);
  }
  template <typename IsDone>
  void Wait(Mutex& mutex, IsDone is_done) VF_REQUIRES(mutex) VF_NO_THREAD_SAFETY_ANALYSIS {
    HeldLock lock(mutex);
    changed_.wait(lock.lock, std::move(is_done));
  }
  // False when the time is over and is_done() is false.
  template <typename Rep, typename Period, typename IsDone>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> duration, IsDone is_done)
      VF_REQUIRES(mutex) VF_NO_THREAD_SAFETY_ANALYSIS {
    HeldLock lock(mutex);
    return changed_.wait_for(lock.lock, duration, std::move(is_done));
  }

 private:
  // The caller's lock in the form that std::condition_variable takes.
  struct HeldLock {
    explicit HeldLock(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~HeldLock() { lock.release(); }
    HeldLock(const HeldLock&) = delete;
    HeldLock& operator=(const HeldLock&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace varifocal

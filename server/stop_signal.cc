#include "server/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/log.h"

namespace varifocal {
namespace {

constexpr int64_t kFlushMs = 1000;

}  // namespace

StopSignal::StopSignal(std::chrono::milliseconds last_deadline, int exit_code) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([this, signals, last_deadline, exit_code] {
    int signal = 0;
    sigwait(&signals, &signal);
    Log(LogLevel::kInfo, "signal", {{"name", signal == SIGTERM ? "SIGTERM" : signal == SIGHUP ? "SIGHUP" : "SIGINT"}});
    // A second signal is not blocked any more and terminates the process.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    {
      MutexLock lock(mutex_);
      if (!in_order_) {
        FlushLog(kFlushMs);
        _exit(0);
      }
      has_come_ = true;
    }
    changed_.NotifyAll();
    std::this_thread::sleep_for(last_deadline);
    Log(LogLevel::kError, "not_stopped_in_time", {{"milliseconds", last_deadline.count()}});
    FlushLog(kFlushMs);
    _exit(exit_code);
  }).detach();
}

void StopSignal::StopInOrderFromNowOn() {
  MutexLock lock(mutex_);
  in_order_ = true;
}

void StopSignal::Wait() {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return has_come_; });
}

}  // namespace varifocal

// The signal that stops a daemon: SIGTERM, SIGINT or SIGHUP, waited for by a thread of its own.
//
// From the signal on the process has a last deadline, after which it ends with `exit_code` whatever hangs: what was
// acknowledged is durable. A second signal ends it at once.
//
// Threads: make it before any other thread, which inherit the blocked signals. Its own thread stays to the end of the
// process, so the object must too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace varifocal {

class StopSignal {
 public:
  StopSignal(std::chrono::milliseconds last_deadline, int exit_code);

  // Until this is called a signal ends the process at once, with exit code 0: nothing is under way that could be stopped
  // in order, and what a starting daemon changes in its database is safe at any death.
  void StopInOrderFromNowOn();
  void Wait();  // until a signal has come

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool in_order_ = false;
  bool has_come_ = false;
};

}  // namespace varifocal

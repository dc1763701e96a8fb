// Waits on a separate thread for the signal that stops a daemon: SIGTERM, SIGINT or SIGHUP.
//
// The signal starts a deadline after which the process exits with `exit_code` even if something hangs: acknowledged
// writes are durable. A second signal terminates it at once.
//
// Threads: construct it before any other thread, which inherit the blocked signals. Its own thread runs until the
//          process
// exits, so the object must live as long.
#pragma once

#include <chrono>

#include "base/mutex.h"

namespace varifocal {

class StopSignal {
 public:
  StopSignal(std::chrono::milliseconds last_deadline, int exit_code);

  // Until this is called a signal ends the process at once, with exit code 0: there is nothing to shut down, and the
  // database changes of a starting daemon are safe at any crash.
  void StopInOrderFromNowOn();
  void Wait();  // blocks until a signal arrives

 private:
  Mutex mutex_;
  CondVar changed_;
  bool in_order_ VF_GUARDED_BY(mutex_) = false;
  bool has_come_ VF_GUARDED_BY(mutex_) = false;
};

}  // namespace varifocal

// A sentence on standard error for a person who interrupts the program while it lives (Ctrl-C, a terminal that closes): what
// happens to the work. The signal then ends the program as it would have, or first lets it end its work.
//
// Threads: one note at a time in a process; made and destroyed by one thread.
#pragma once

#include <signal.h>

#include <array>
#include <functional>
#include <string>
#include <thread>

namespace varifocal::client {

class InterruptNote {
 public:
  // The sentence is without its end of line. The first signal calls `end_work` in a thread of its own where it is given, and
  // the caller ends the program by it; a second one ends it at once.
  explicit InterruptNote(const std::string& sentence, std::function<void()> end_work = nullptr);
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

  int signal() const;  // that came; 0: none

  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

 private:
  std::array<struct sigaction, kSignals.size()> before_;
  std::array<int, 2> pipe_ = {-1, -1};  // the handler, or the destructor, wakes the thread
  std::thread thread_;
};

}  // namespace varifocal::client

// A sentence on standard error for a person who interrupts the program while it lives (Ctrl-C, a terminal that closes): what
// happens to the work. The signal then ends the program as it would have.
//
// Threads: one note at a time in a process; made and destroyed by one thread.
#pragma once

#include <signal.h>

#include <array>
#include <string>

namespace varifocal::client {

class InterruptNote {
 public:
  explicit InterruptNote(const std::string& sentence);  // without its end of line
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

 private:
  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace varifocal::client

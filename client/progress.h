// Progress on standard error for anything that takes more than two seconds.
//
// On a terminal one line is rewritten, with a bar; in a pipe a plain line appears every ten seconds and at the end.
// Work that ends within two seconds shows nothing.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "client/console.h"

namespace varifocal::client {

class Progress {
 public:
  // `label` names the activity ("quick", "building samples").
  Progress(Console& console, std::string label, const Clock& clock = Clock::Real());
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  struct State {
    int64_t done_count = 0;
    int64_t total_count = 0;        // 0: unknown
    double tokens_per_second = 0;   // 0: not shown
    double remaining_seconds = -1;  // negative: computed from done, total and the elapsed time
  };
  void Update(const State& state);
  // Removes the bar from the terminal; the next Update draws it again.
  void Clear();
  // Shows the last state as a plain line, regardless of the time, unless nothing was shown before.
  void Finish();

  // The formatted line, with a bar if `bar`.
  std::string Line(const State& state, bool bar) const;

 private:
  void Show(bool last);
  void EraseLine();

  Console& console_;
  std::string label_;
  const Clock& clock_;
  int64_t start_us_;
  int64_t shown_us_ = -1;
  bool on_line_ = false;
  State state_;
  int64_t first_done_count_ = -1;  // done at the first update: earlier progress does not count towards the speed
};

}  // namespace varifocal::client

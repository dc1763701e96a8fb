// A bounded queue between those who write lines and a slow reader of them, so that a reader that stops reading (a pipe
// of standard error, for example) cannot stop the writers.
//
// One thread writes the lines in order. When the queue is full, lines are dropped and counted, and the count is written
// as a line of its own as soon as there is room.
//
// Threads: Push from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace varifocal {

class LogQueue {
 public:
  // `write` gets one line with its end; it may block.
  LogQueue(size_t lines_max, size_t bytes_max, std::function<void(const std::string&)> write);
  // Leaves a thread that is blocked in `write` behind, and with it the lines it has not written.
  ~LogQueue();

  void Push(std::string line);
  // Until every line was written or the time is over; whether they all were.
  bool Flush(int64_t milliseconds_max);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may stay behind
};

}  // namespace varifocal

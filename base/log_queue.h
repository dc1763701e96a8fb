// A bounded queue between the writers of lines and a slow reader, so that a reader that stops reading (a pipe of standard
// error, for example) does not block the writers.
//
// One thread writes the lines in order. When the queue is full, lines are dropped and counted, and the count is written
// as a separate line as soon as there is room.
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
  // `write` receives one line including its newline; it may block. `format_dropped` makes the line for a number of dropped lines.
  LogQueue(size_t lines_max, size_t bytes_max, std::function<void(const std::string&)> write,
           std::function<std::string(int64_t)> format_dropped);
  // Detaches a thread that is blocked in `write`; its lines are lost.
  ~LogQueue();

  void Push(std::string line);
  // Blocks until every line is written or the timeout expires; true when all are written.
  bool Flush(int64_t milliseconds_max);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive the queue
};

}  // namespace varifocal

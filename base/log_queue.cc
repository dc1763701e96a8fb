#include "base/log_queue.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace varifocal {

struct LogQueue::State {
  size_t lines_max = 0;
  size_t bytes_max = 0;
  std::function<void(const std::string&)> write;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  size_t byte_count = 0;
  int64_t dropped_count = 0;
  bool is_writing = false;
  bool stopping = false;

  void Loop() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || !lines.empty(); });
      if (lines.empty()) return;
      std::string line = std::move(lines.front());
      lines.pop_front();
      byte_count -= line.size();
      if (dropped_count > 0 && lines.empty()) {
        // The queue was full after this line; later lines were dropped.
        lines.push_back(LogEntry(LogLevel::kWarning, "log_lines_dropped", {{"count", dropped_count}}));
        byte_count += lines.back().size();
        dropped_count = 0;
      }
      is_writing = true;
      lock.unlock();
      write(line);
      lock.lock();
      is_writing = false;
      changed.notify_all();
    }
  }
};

LogQueue::LogQueue(size_t lines_max, size_t bytes_max, std::function<void(const std::string&)> write)
    : state_(std::make_shared<State>()) {
  state_->lines_max = lines_max;
  state_->bytes_max = bytes_max;
  state_->write = std::move(write);
  std::thread([state = state_] { state->Loop(); }).detach();
}

LogQueue::~LogQueue() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

void LogQueue::Push(std::string line) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->lines.size() >= state_->lines_max || state_->byte_count + line.size() > state_->bytes_max) {
    ++state_->dropped_count;
    return;
  }
  state_->byte_count += line.size();
  state_->lines.push_back(std::move(line));
  state_->changed.notify_all();
}

bool LogQueue::Flush(int64_t milliseconds_max) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::milliseconds(milliseconds_max),
                                  [this] { return state_->lines.empty() && !state_->is_writing; });
}

}  // namespace varifocal

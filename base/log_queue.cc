#include "base/log_queue.h"

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace varifocal {

struct LogQueue::State {
  size_t lines_max = 0;
  size_t bytes_max = 0;
  std::function<void(const std::string&)> write;
  std::function<std::string(int64_t)> format_dropped;
  Mutex mutex;
  CondVar changed;
  std::deque<std::string> lines VF_GUARDED_BY(mutex);
  size_t byte_count VF_GUARDED_BY(mutex) = 0;
  int64_t dropped_count VF_GUARDED_BY(mutex) = 0;
  bool is_writing VF_GUARDED_BY(mutex) = false;
  bool stopping VF_GUARDED_BY(mutex) = false;

  void Loop() {
    MutexLock lock(mutex);
    while (true) {
      changed.Wait(mutex, [this]() VF_REQUIRES(mutex) { return stopping || !lines.empty(); });
      if (lines.empty()) return;
      std::string line = std::move(lines.front());
      lines.pop_front();
      byte_count -= line.size();
      if (dropped_count > 0 && lines.empty()) {
        // The queue was full after this line; later lines were dropped.
        lines.push_back(format_dropped(dropped_count));
        byte_count += lines.back().size();
        dropped_count = 0;
      }
      is_writing = true;
      lock.Unlock();
      write(line);
      lock.Lock();
      is_writing = false;
      changed.NotifyAll();
    }
  }
};

LogQueue::LogQueue(size_t lines_max, size_t bytes_max, std::function<void(const std::string&)> write,
                   std::function<std::string(int64_t)> format_dropped)
    : state_(std::make_shared<State>()) {
  state_->lines_max = lines_max;
  state_->bytes_max = bytes_max;
  state_->write = std::move(write);
  state_->format_dropped = std::move(format_dropped);
  std::thread([state = state_] { state->Loop(); }).detach();
}

LogQueue::~LogQueue() {
  MutexLock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.NotifyAll();
}

void LogQueue::Push(std::string line) {
  MutexLock lock(state_->mutex);
  if (state_->lines.size() >= state_->lines_max || state_->byte_count + line.size() > state_->bytes_max) {
    ++state_->dropped_count;
    return;
  }
  state_->byte_count += line.size();
  state_->lines.push_back(std::move(line));
  state_->changed.NotifyAll();
}

bool LogQueue::Flush(int64_t milliseconds_max) {
  MutexLock lock(state_->mutex);
  return state_->changed.WaitFor(
      state_->mutex, std::chrono::milliseconds(milliseconds_max),
      [this]() VF_REQUIRES(state_->mutex) { return state_->lines.empty() && !state_->is_writing; });
}

}  // namespace varifocal

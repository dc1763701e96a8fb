#include "base/file_calls.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int kFileThreadsMax = 64;

struct FileCall {
  std::function<void()> run;
  std::string directory;
  // These two with the lock of the threads.
  bool is_done = false;
  bool is_given_up = false;
};

struct FileThreads {
  Mutex mutex;
  CondVar has_work, has_ended;
  std::deque<std::shared_ptr<FileCall>> queue VF_GUARDED_BY(mutex);
  std::map<std::string, int> stuck VF_GUARDED_BY(mutex);  // calls that were given up and still run, by directory
  int thread_count VF_GUARDED_BY(mutex) = 0;
  int idle_count VF_GUARDED_BY(mutex) = 0;
  int64_t patience_us VF_GUARDED_BY(mutex) = kFilePatienceUs;
};

// Never destroyed: its threads may outlive everything.
FileThreads& Threads() {
  static FileThreads* const threads = new FileThreads();
  return *threads;
}

void RunFileCalls() {
  FileThreads& all = Threads();
  MutexLock lock(all.mutex);
  while (true) {
    ++all.idle_count;
    all.has_work.Wait(all.mutex, [&]() VF_REQUIRES(all.mutex) { return !all.queue.empty(); });
    --all.idle_count;
    const std::shared_ptr<FileCall> call = std::move(all.queue.front());
    all.queue.pop_front();
    lock.Unlock();
    call->run();
    call->run = nullptr;
    lock.Lock();
    call->is_done = true;
    if (call->is_given_up) {
      const auto stuck = all.stuck.find(call->directory);
      if (--stuck->second == 0) all.stuck.erase(stuck);
    }
    all.has_ended.NotifyAll();
  }
}

// False without a thread that could run it.
bool Enqueue(FileThreads& all, std::shared_ptr<FileCall> call) VF_REQUIRES(all.mutex) {
  if (std::ssize(all.queue) >= all.idle_count && all.thread_count < kFileThreadsMax) {
    try {
      std::thread(RunFileCalls).detach();
      ++all.thread_count;
    } catch (const std::system_error&) {
      if (all.thread_count == 0) return false;
    }
  }
  all.queue.push_back(std::move(call));
  all.has_work.NotifyOne();
  return true;
}

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

absl::Status NoAnswer(const std::string& path, int64_t patience_us) {
  return Unavailable(path, " cannot be read: its file system has not answered for ", patience_us / 1'000'000, " s");
}

}  // namespace

absl::Status CallFileSystem(const std::string& path, std::function<void()> call) {
  FileThreads& all = Threads();
  auto entry = std::make_shared<FileCall>();
  entry->run = std::move(call);
  entry->directory = DirectoryOf(path);
  MutexLock lock(all.mutex);
  if (all.stuck.count(entry->directory) > 0) return NoAnswer(path, all.patience_us);
  if (!Enqueue(all, entry)) {
    lock.Unlock();
    entry->run();
    return absl::OkStatus();
  }
  const auto patience = std::chrono::microseconds(all.patience_us);
  if (all.has_ended.WaitFor(all.mutex, patience, [&]() VF_REQUIRES(all.mutex) { return entry->is_done; }))
    return absl::OkStatus();
  entry->is_given_up = true;
  ++all.stuck[entry->directory];
  return NoAnswer(path, all.patience_us);
}

void CallFileSystemLater(std::function<void()> call) {
  FileThreads& all = Threads();
  auto entry = std::make_shared<FileCall>();
  entry->run = std::move(call);
  MutexLock lock(all.mutex);
  if (Enqueue(all, entry)) return;
  lock.Unlock();
  entry->run();
}

void SetFilePatienceForTesting(int64_t microseconds) {
  FileThreads& all = Threads();
  MutexLock lock(all.mutex);
  all.patience_us = microseconds;
}

}  // namespace varifocal

#include "client/interrupt_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace varifocal::client {
namespace {

// Read by the handler, which may allocate nothing.
constexpr size_t kBytesMax = 512;
char text[kBytesMax];
std::atomic<int> text_bytes = 0, wake_pipe = -1, came = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void WriteAndEnd(int signal) {
  (void)!write(STDERR_FILENO, text, text_bytes);
  came = signal;
  if (wake_pipe >= 0) {
    (void)!write(wake_pipe, "", 1);
  } else {
    raise(signal);  // the handler is reset: the program ends when it returns
  }
}

}  // namespace

InterruptNote::InterruptNote(const std::string& sentence, std::function<void()> end_work) {
  came = 0;
  if (end_work != nullptr && pipe2(pipe_.data(), O_CLOEXEC) == 0) {
    wake_pipe = pipe_[1];
    thread_ = std::thread([this, end_work = std::move(end_work)] {
      char byte = 0;
      while (read(pipe_[0], &byte, 1) < 0 && errno == EINTR) continue;
      if (came != 0) end_work();
    });
  }
  const std::string line = absl::StrCat("\n", sentence, "\n");
  const size_t bytes = std::min(line.size(), kBytesMax);
  std::memcpy(text, line.data(), bytes);
  text_bytes = static_cast<int>(bytes);
  struct sigaction action = {};
  action.sa_handler = WriteAndEnd;
  action.sa_flags = SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    // One that is ignored (nohup) or blocked by a program around this one stays so.
    if (before_[i].sa_handler == SIG_DFL) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptNote::~InterruptNote() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  wake_pipe = -1;
  if (!thread_.joinable()) return;
  (void)!write(pipe_[1], "", 1);
  thread_.join();
  for (const int end : pipe_) close(end);
}

int InterruptNote::signal() const { return came; }

}  // namespace varifocal::client

#include "client/interrupt_note.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace varifocal::client {
namespace {

// Read by the handler, which may allocate nothing.
constexpr size_t kBytesMax = 512;
char text[kBytesMax];
volatile sig_atomic_t text_bytes = 0;

void WriteAndEnd(int signal) {
  (void)!write(STDERR_FILENO, text, text_bytes);
  raise(signal);  // the handler is reset: the program ends when it returns
}

}  // namespace

InterruptNote::InterruptNote(const std::string& sentence) {
  const std::string line = absl::StrCat("\n", sentence, "\n");
  const size_t bytes = std::min(line.size(), kBytesMax);
  std::memcpy(text, line.data(), bytes);
  text_bytes = bytes;
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
}

}  // namespace varifocal::client

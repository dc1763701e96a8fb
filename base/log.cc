#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "base/log_queue.h"

namespace varifocal {
namespace {

constexpr size_t kQueuedLinesMax = 8192;
constexpr size_t kQueuedBytesMax = 4 << 20;

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogQueue*> g_queue{nullptr};  // never destroyed: threads may log during exit

// For the queue's thread. Bypasses stdio: a blocked write would hold its lock, and exit() waits for that lock.
void WriteToDescriptor(const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR) return;  // there is no other place to report it
    if (count > 0) done += static_cast<size_t>(count);
  }
}

void Write(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: stdio locks the stream, so lines do not interleave
}

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (unsigned char c : value) {
    if (c <= ' ' || c == '"' || c == '\\' || c == 0x7f) return true;
  }
  return false;
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level = level; }

std::string FormatLogLine(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  static constexpr char kLetters[] = "DIWE";
  std::string line(1, kLetters[static_cast<int>(level)]);
  absl::StrAppend(&line, " ", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    if (NeedsQuotes(field.value)) {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(field.value), "\"");
    } else {
      line += field.value;
    }
  }
  return line;
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  if (level < g_level.load()) return;
  std::string line =
      absl::StrCat(FormatUtc(Clock::Real().WallMicros()), " ", FormatLogLine(level, event, fields), "\n");
  LogQueue* const queue = g_queue.load();
  queue != nullptr ? queue->Push(std::move(line)) : Write(line);
}

void LogThroughQueue() {
  g_queue = new LogQueue(kQueuedLinesMax, kQueuedBytesMax, WriteToDescriptor, [](int64_t count) {
    return FormatLogLine(LogLevel::kWarning, "log_lines_dropped", {{"count", count}}) + "\n";
  });
}

void FlushLog(int64_t milliseconds_max) {
  LogQueue* const queue = g_queue.load();
  if (queue != nullptr) queue->Flush(milliseconds_max);
}

}  // namespace varifocal

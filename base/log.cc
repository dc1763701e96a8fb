#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log_queue.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kQueuedLinesMax = 8192;
constexpr size_t kQueuedBytesMax = 4 << 20;
constexpr int64_t kLookPeriodUs = 1'000'000;

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<bool> g_is_json{false};
std::atomic<LogQueue*> g_queue{nullptr};  // never destroyed: threads may log during exit

void WriteAll(int fd, const std::string& line, size_t done) {
  while (done < line.size()) {
    const ssize_t count = write(fd, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR) return;  // there is no other place to report it
    if (count > 0) done += static_cast<size_t>(count);
  }
}

// For the queue's thread. Bypasses stdio: a blocked write would hold its lock, and exit() waits for that lock.
void WriteToDescriptor(const std::string& line) { WriteAll(STDERR_FILENO, line, 0); }

void Write(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: stdio locks the stream, so lines do not interleave
}

// A file of lines, used by the queue's thread alone.
class LogFile {
 public:
  explicit LogFile(std::string path) : path_(std::move(path)) {}

  absl::Status Open() {
    const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) return FileError(path_, "open", errno);
    struct stat info = {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      close(fd);
      return InvalidArgument(path_, " is not a regular file");
    }
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
    device_ = info.st_dev;
    inode_ = info.st_ino;
    return absl::OkStatus();
  }

  void Write(const std::string& line) {
    ReopenIfRotated();
    const ssize_t count = write(fd_, line.data(), line.size());
    if (count == static_cast<ssize_t>(line.size())) return;
    WriteAll(STDERR_FILENO, line, count > 0 ? static_cast<size_t>(count) : 0);  // the disk is full
  }

 private:
  void ReopenIfRotated() {
    const int64_t now_us = Clock::Real().MonotonicMicros();
    if (now_us < next_look_us_) return;
    next_look_us_ = now_us + kLookPeriodUs;
    struct stat info = {};
    const bool is_same = stat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
    if (!is_same) Open().IgnoreError();  // the open file is still there for the line
  }

  const std::string path_;
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int64_t next_look_us_ = 0;
};

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

std::string FormatLogEntry(int64_t wall_us, LogLevel level, absl::string_view event,
                           std::initializer_list<LogField> fields, bool is_json) {
  const std::string time = FormatUtc(wall_us);
  if (!is_json) return absl::StrCat(time, " ", FormatLogLine(level, event, fields), "\n");
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  // Text of users may be invalid UTF-8, which is replaced.
  const auto quoted = [](absl::string_view text) {
    return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string line = absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", kNames[static_cast<int>(level)],
                                  "\",\"event\":", quoted(event));
  for (const LogField& field : fields) absl::StrAppend(&line, ",", quoted(field.key), ":", quoted(field.value));
  return absl::StrCat(line, "}\n");
}

std::string LogEntry(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  return FormatLogEntry(Clock::Real().WallMicros(), level, event, fields, g_is_json);
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  if (level < g_level.load()) return;
  std::string line = LogEntry(level, event, fields);
  LogQueue* const queue = g_queue.load();
  queue != nullptr ? queue->Push(std::move(line)) : Write(line);
}

absl::Status LogThroughQueue(const LogTarget& target) {
  g_is_json = target.is_json;
  std::function<void(const std::string&)> write = WriteToDescriptor;
  if (!target.file.empty()) {
    auto file = std::make_shared<LogFile>(target.file);
    if (const absl::Status opened = file->Open(); !opened.ok()) return opened;
    write = [file](const std::string& line) { file->Write(line); };
  }
  g_queue = new LogQueue(kQueuedLinesMax, kQueuedBytesMax, std::move(write), [](int64_t count) {
    return LogEntry(LogLevel::kWarning, "log_lines_dropped", {{"count", count}});
  });
  return absl::OkStatus();
}

void FlushLog(int64_t milliseconds_max) {
  LogQueue* const queue = g_queue.load();
  if (queue != nullptr) queue->Flush(milliseconds_max);
}

}  // namespace varifocal

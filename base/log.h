// One-line structured logs on standard error or in a file: time, level, event, then key=value pairs; or one JSON object a
// line, whose values are strings.
//
//   Log(LogLevel::kInfo, "job_state", {{"job", id}, {"state", "running"}});
//   2026-11-21T14:30:00.123Z I job_state job=jobs/1 state=running
//   {"time":"2026-11-21T14:30:00.123Z","level":"info","event":"job_state","job":"jobs/1","state":"running"}
//
// Values with spaces, quotes or control characters are quoted and escaped, so that a line is always one line.
// Threads: any; lines never interleave.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace varifocal {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  absl::string_view key;
  std::string value;
  LogField(absl::string_view key, const absl::AlphaNum& value) : key(key), value(value.data(), value.size()) {}
};

// Lines below this level are dropped; kInfo unless set.
void SetLogLevel(LogLevel level);
struct LogTarget {
  std::string file;  // appended to, made with mode 0600; empty: standard error
  bool is_json = false;
};
// Writes lines from a background thread, so that no caller blocks on a slow reader or disk: at most 8,192 lines or 4 MiB
// are queued, further ones are dropped and counted. A file that was renamed or removed is made again within a second, so a
// rotation needs no signal; a line that cannot be written to it goes to standard error. Call once, before other threads
// log. An error when the file cannot be opened.
absl::Status LogThroughQueue(const LogTarget& target = {});
// Blocks until the queued lines are written, at most this long.
void FlushLog(int64_t milliseconds_max);
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});
// The line that Log would write, without the time; for tests.
std::string FormatLogLine(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);
// The whole line as it is written: with the time of `wall_us` and a newline.
std::string FormatLogEntry(int64_t wall_us, LogLevel level, absl::string_view event,
                           std::initializer_list<LogField> fields, bool is_json);
// The same with the time and the format of this process.
std::string LogEntry(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);

}  // namespace varifocal

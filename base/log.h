// One-line structured logs on standard error: time, level, event, then key=value pairs.
//
//   Log(LogLevel::kInfo, "sample_done", {{"job", id}, {"sample", index}});
//   2026-11-21T14:30:00.123Z I sample_done job=jobs/1 sample=17
//
// Values with spaces, quotes or control characters are quoted and escaped, so that a line is always one line.
// Threads: any; lines never interleave.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

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
// Writes lines from a background thread, so that no caller blocks on a slow reader of standard error: at most 8,192
// lines or 4 MiB are queued, further ones are dropped and counted. Call once, before other threads log.
void LogThroughQueue();
// Blocks until the queued lines are written, at most this long.
void FlushLog(int64_t milliseconds_max);
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});
// The line that Log would write, without the time; for tests.
std::string FormatLogLine(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);

}  // namespace varifocal

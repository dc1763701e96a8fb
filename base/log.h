// One-line structured logs on standard error: time, level, event, then key=value pairs.
//
//   Log(LogLevel::kInfo, "sample_done", {{"job", id}, {"sample", index}});
//   2026-11-21T14:30:00.123Z I sample_done job=jobs/1 sample=17
//
// Values with spaces, quotes or control characters are quoted and escaped, so that a line is always one line.
// Threads: any; lines never mix.
#pragma once

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
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});
// The line that Log would write, without the time; for tests.
std::string FormatLogLine(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);

}  // namespace varifocal

#include "wire/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace varifocal {
namespace {

void ToLog(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  const bool is_severe = level == google::protobuf::LOGLEVEL_FATAL;
  Log(is_severe ? LogLevel::kError : LogLevel::kWarning, "protobuf",
      {{"message", message}, {"at", absl::StrCat(file, ":", line)}});
}

}  // namespace

void LogProtobufMessages() { google::protobuf::SetLogHandler(ToLog); }

void DiscardProtobufMessages() { google::protobuf::SetLogHandler(nullptr); }

}  // namespace varifocal

// The log's targets. The target is set once in a process, so each case runs in a child, which ends with status 0 when it held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "base/file_error.h"
#include "base/log.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using ::testing::ExitedWithCode;
using testing_support::ReadFile;

constexpr int64_t kFlushMilliseconds = 60'000;

// Named so that it runs before tests that start threads: it forks.
class LogTargetDeathTest : public ::testing::Test {
 protected:
  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("lines");
};

TEST_F(LogTargetDeathTest, StandardErrorHasLinesFromTheLevelOn) {
  EXPECT_EXIT(
      {
        Log(LogLevel::kDebug, "dropped");
        Log(LogLevel::kInfo, "before", {{"key", "a b"}});
        const bool is_set = LogThroughQueue().ok();
        SetLogLevel(LogLevel::kError);
        Log(LogLevel::kWarning, "dropped_too");
        Log(LogLevel::kError, "behind", {{"empty", ""}});
        FlushLog(kFlushMilliseconds);
        std::exit(is_set ? 0 : 1);
      },
      ExitedWithCode(0), "^[^\n]* I before key=\"a b\"\n[^\n]* E behind empty=\"\"\n$");
}

TEST_F(LogTargetDeathTest, ARotatedFileIsMadeAgain) {
  EXPECT_EXIT(
      {
        bool held = LogThroughQueue({.file = path_, .is_json = true}).ok();
        Log(LogLevel::kInfo, "first");
        FlushLog(kFlushMilliseconds);
        held = held && absl::EndsWith(ReadFile(path_), "\"level\":\"info\",\"event\":\"first\"}\n");
        held = held && std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
        while (access(path_.c_str(), F_OK) != 0) {
          Log(LogLevel::kWarning, "next");
          FlushLog(kFlushMilliseconds);
          usleep(10'000);
        }
        held = held && absl::EndsWith(ReadFile(path_), "\"event\":\"next\"}\n");
        std::exit(held ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

// A limit of the file's size, of which 40 bytes are left.
TEST_F(LogTargetDeathTest, WhatTheFileDoesNotTakeGoesToStandardError) {
  constexpr size_t kBytesMax = 4096;
  std::ofstream(path_) << std::string(kBytesMax - 40, '.');
  EXPECT_EXIT(
      {
        const bool is_set = LogThroughQueue({.file = path_}).ok();
        signal(SIGXFSZ, SIG_IGN);
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = kBytesMax;
        const bool is_limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        Log(LogLevel::kInfo, "a_line_that_is_longer_than_the_file_may_be");
        Log(LogLevel::kInfo, "another");
        FlushLog(kFlushMilliseconds);
        std::exit(is_set && is_limited && ReadFile(path_).size() == kBytesMax ? 0 : 1);
      },
      ExitedWithCode(0), "^s_longer_than_the_file_may_be\n[^\n]* I another\n$");
}

TEST_F(LogTargetDeathTest, AFileThatCannotBeOpenedIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(LogThroughQueue({.file = path_ + "/below"})));
  const absl::Status device = LogThroughQueue({.file = "/dev/null"});
  EXPECT_THAT(device.message(), Message("/dev/null"));
}

TEST(FormatLogLineTest, QuotesWhatWouldNotBeOneWord) {
  EXPECT_EQ(
      FormatLogLine(LogLevel::kWarning, "e", {{"a", "x"}, {"b", ""}, {"c", "x\"y"}, {"d", "x\\y"}, {"e", "\x7f"}}),
      "W e a=x b=\"\" c=\"x\\\"y\" d=\"x\\\\y\" e=\"\\177\"");
}

TEST(FileErrorTest, CodesByErrno) {
  const std::pair<int, absl::StatusCode> cases[] = {
      {ENOENT, absl::StatusCode::kNotFound},          {ENOTDIR, absl::StatusCode::kNotFound},
      {EACCES, absl::StatusCode::kPermissionDenied},  {EPERM, absl::StatusCode::kPermissionDenied},
      {EMFILE, absl::StatusCode::kResourceExhausted}, {ENFILE, absl::StatusCode::kResourceExhausted},
      {ENOMEM, absl::StatusCode::kResourceExhausted}, {EIO, absl::StatusCode::kDataLoss},
      {ESTALE, absl::StatusCode::kDataLoss},          {ELOOP, absl::StatusCode::kInvalidArgument},
  };
  for (const auto& [error, code] : cases) EXPECT_EQ(FileError("p", "open", error).code(), code) << error;
}

}  // namespace
}  // namespace varifocal

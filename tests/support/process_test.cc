// The child-process helpers with /bin programs by relative path:
// exit codes, output and time limits.
#include "tests/support/process.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace varifocal {
inline namespace testing_support {
namespace {

const char kShell[] = "../../../../../../../../../../bin/sh";

TEST(ProcessTest, ExitCodeAndOutput) {
  const ProcessResult result = RunProcess(kShell, {"-c", "cat; echo bad >&2; exit 3"}, {.input = "text"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "text");
  EXPECT_EQ(result.err, "bad\n");
  EXPECT_EQ(RunProcess(kShell, {"-c", "kill -9 $$"}).exit_code, 128 + 9);
  EXPECT_EQ(RunProcess("no_such_program", {}).exit_code, 127);
}

TEST(ProcessTest, TimeLimit) { EXPECT_EQ(RunProcess(kShell, {"-c", "sleep 30"}, {.seconds_max = 1}).exit_code, -1); }

TEST(ProcessTest, Background) {
  TemporaryDirectory directory;
  BackgroundProcess process(kShell, {"-c", "echo up > " + directory.File("up") + "; exec sleep 30"});
  EXPECT_TRUE(process.WaitForFile(directory.File("up"), 10));
  EXPECT_TRUE(process.IsRunning());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(10), 128 + SIGTERM);
}

}  // namespace
}  // namespace testing_support
}  // namespace varifocal

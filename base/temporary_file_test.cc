// Temporary files that killed processes leave: the next one of the prefix removes them, and nothing that is held or is called
// differently. Method: files made by hand, and a child process that holds one.
#include "base/temporary_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::WriteFile;

TEST(TemporaryFileTest, RemovesWhatNobodyHolds) {
  const TemporaryDirectory directory;
  const std::string prefix = directory.File("all.db.merge-");
  for (const char* left : {"11", "11-wal", "11-shm", "12", "12-journal"}) WriteFile(prefix + left, "x");
  for (const char* other : {"", "x1", "11.bak"}) WriteFile(prefix + other, "x");
  WriteFile(directory.File("all.db"), "x");
  {
    const auto made = TemporaryFile::Make(prefix);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->path(), absl::StrCat(prefix, getpid()));
    for (const char* left : {"11", "11-wal", "11-shm", "12", "12-journal"}) {
      EXPECT_FALSE(std::filesystem::exists(prefix + left)) << left;
    }
    for (const char* other : {"", "x1", "11.bak"}) EXPECT_TRUE(std::filesystem::exists(prefix + other)) << other;
    WriteFile(made->path() + "-wal", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(prefix, getpid())));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(prefix, getpid(), "-wal")));
  EXPECT_TRUE(std::filesystem::exists(directory.File("all.db")));
}

TEST(TemporaryFileTest, KeepsWhatALivingProcessHoldsUntilItIsKilled) {
  const TemporaryDirectory directory;
  const std::string prefix = directory.File("r-");
  const pid_t child = fork();
  if (child == 0) {
    const auto made = TemporaryFile::Make(prefix);
    WriteFile(directory.File("ready"), "x");
    while (true) pause();
  }
  while (!std::filesystem::exists(directory.File("ready"))) usleep(1000);
  const std::string of_child = absl::StrCat(prefix, child);
  EXPECT_TRUE(TemporaryFile::Make(prefix).ok());
  EXPECT_TRUE(std::filesystem::exists(of_child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(TemporaryFile::Make(prefix).ok());
  EXPECT_FALSE(std::filesystem::exists(of_child));
}

TEST(TemporaryFileTest, AHeldNameIsNotTaken) {
  const TemporaryDirectory directory;
  const auto first = TemporaryFile::Make(directory.File("r-")), second = TemporaryFile::Make(directory.File("r-"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path(), second->path());
  EXPECT_TRUE(std::filesystem::exists(first->path()) && std::filesystem::exists(second->path()));
}

// One that removes leftovers holds each file for a moment, also one that another process has just made and not locked yet.
TEST(TemporaryFileTest, ManyProcessesHaveAFileEach) {
  constexpr int kProcessCount = 4, kRoundCount = 500;
  const TemporaryDirectory directory;
  const std::string prefix = directory.File("r-");
  std::vector<pid_t> children;
  for (int i = 0; i < kProcessCount; ++i) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (int round = 0; round < kRoundCount; ++round) {
      const auto made = TemporaryFile::Make(prefix);
      if (!made.ok() || !std::filesystem::exists(made->path())) _exit(1);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "a process had no file, or lost it";
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace varifocal

// The lock file of a writer: the error for each obstacle, and the message to a second process.
#include "db/writer_lock.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::HasSubstr;

class WriterLockTest : public ::testing::Test {
 protected:
  testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
};

TEST_F(WriterLockTest, ErrorsHaveTheCodeOfTheirCause) {
  EXPECT_TRUE(absl::IsNotFound(WriterLock::Take(directory_.File("none/results.db")).status()));
  testing_support::WriteFile(directory_.File("file"), "");
  EXPECT_TRUE(absl::IsNotFound(WriterLock::Take(directory_.File("file/results.db")).status()));
  ASSERT_EQ(mkdir((path_ + ".lock").c_str(), 0700), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(WriterLock::Take(path_).status()));
}

TEST_F(WriterLockTest, WithoutADescriptorItIsResourceExhausted) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = WriterLock::Take(path_).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(WriterLockTest, AFileThatTakesNoPidIsResourceExhausted) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status status = WriterLock::Take(path_).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(WriterLock::Take(path_).ok());
}

TEST_F(WriterLockTest, AHolderWithoutAPidIsUnknown) {
  const absl::StatusOr<WriterLock> lock = WriterLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  ASSERT_EQ(truncate((path_ + ".lock").c_str(), 0), 0);
  const absl::Status status = WriterLock::Take(path_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), Message());
}

// A file of the same name that another process made is not removed.
TEST_F(WriterLockTest, AReplacedFileIsDataLossAndIsLeft) {
  {
    const absl::StatusOr<WriterLock> lock = WriterLock::Take(path_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_TRUE(lock->Check().ok());
    ASSERT_EQ(unlink((path_ + ".lock").c_str()), 0);
    EXPECT_TRUE(absl::IsDataLoss(lock->Check()));
    testing_support::WriteFile(path_ + ".lock", "another\n");
    EXPECT_TRUE(absl::IsDataLoss(lock->Check()));
  }
  EXPECT_EQ(testing_support::ReadFile(path_ + ".lock"), "another\n");
}

}  // namespace
}  // namespace varifocal::db

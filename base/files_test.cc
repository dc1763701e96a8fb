// Files that are not regular, or too large for their kind, are rejected by name without blocking.
#include "base/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr FileKind kTiny = {"a tiny file", 8};

class FilesTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    testing_support::WriteFile(Path(name), bytes);
    return Path(name);
  }
  static void ExpectRefusal(const std::string& path, absl::StatusCode code) {
    EXPECT_THAT(ReadFile(path, kTiny).status(), IsError(code, Message(path)));
  }
  testing_support::TemporaryDirectory temporary_;
  std::string directory_ = temporary_.path();
};

TEST_F(FilesTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(Path("fifo"), Path("link"));
  ExpectRefusal(Path("fifo"), absl::StatusCode::kInvalidArgument);
  ExpectRefusal(Path("link"), absl::StatusCode::kInvalidArgument);
  ExpectRefusal(directory_, absl::StatusCode::kInvalidArgument);
  ExpectRefusal("/dev/zero", absl::StatusCode::kInvalidArgument);
  ExpectRefusal("/dev/random", absl::StatusCode::kInvalidArgument);
  ExpectRefusal(Path("absent"), absl::StatusCode::kNotFound);
  ExpectRefusal(Write("file", "x") + "/below", absl::StatusCode::kNotFound);
}

TEST_F(FilesTest, SizeLimits) {
  EXPECT_EQ(*ReadFile(Write("empty", ""), kTiny), "");
  EXPECT_EQ(*ReadFile(Write("below", "1234567"), kTiny), "1234567");
  EXPECT_EQ(*ReadFile(Write("at", "12345678"), kTiny), "12345678");
  ExpectRefusal(Write("above", "123456789"), absl::StatusCode::kInvalidArgument);
  // A sparse terabyte costs nothing to refuse.
  ASSERT_EQ(truncate(Write("sparse", "x").c_str(), off_t{1} << 40), 0);
  ExpectRefusal(Path("sparse"), absl::StatusCode::kInvalidArgument);
  // Files without a size are read to their end, within the limit.
  ExpectRefusal("/proc/cpuinfo", absl::StatusCode::kInvalidArgument);
  const std::string large(3'000'001, 'y');
  EXPECT_EQ(*ReadFile(Write("large", large), {"a large file", 3'000'001}), large);
}

// An error of the process, not of the request: the same call may succeed later.
TEST_F(FilesTest, WithoutADescriptorItIsResourceExhausted) {
  const std::string path = Write("file", "12345678");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};  // open descriptors stay open
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = ReadFile(path, kTiny).status();
  const bool exists = FileExists(path, kTiny.use);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, Message()));
  EXPECT_TRUE(exists) << "not certain that nothing is there";
  EXPECT_TRUE(ReadFile(path, kTiny).ok());
}

TEST_F(FilesTest, TruncationIsDataLoss) {
  ASSIGN_OR_FAIL(const auto file, InputFile::Open(Write("file", "0123456789"), FileUse::kData));
  char bytes[10];
  ASSERT_TRUE(file->ReadAt(0, 10, bytes).ok());
  EXPECT_TRUE(file->CheckUnchanged().ok());
  ASSERT_EQ(truncate(Path("file").c_str(), 4), 0);
  EXPECT_THAT(file->ReadAt(2, 8, bytes), IsError(absl::StatusCode::kDataLoss, Message("10", "4")));
  EXPECT_EQ(file->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

// ctime cannot be set, so equal sizes and mtimes do not hide a change.
TEST_F(FilesTest, AChangeIsDetectedDespiteEqualMtime) {
  ASSIGN_OR_FAIL(const auto file, InputFile::Open(Write("file", "0123456789"), FileUse::kData));
  const auto time = std::filesystem::last_write_time(Path("file"));
  // The kernel's clock ticks every few milliseconds: write until it has.
  const auto old = file->identity();
  FileIdentity now = old;
  while (now.changed_ns == old.changed_ns) {
    Write("file", "9876543210");
    std::filesystem::last_write_time(Path("file"), time);
    now = (*InputFile::Open(Path("file"), FileUse::kData))->identity();
  }
  EXPECT_EQ(now.modified_ns, old.modified_ns);
  EXPECT_EQ(now.size, old.size);
  EXPECT_EQ(file->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace varifocal

// A copy of a database that is being written: one state of it, complete. Method: a thread records samples without a pause
// while copies are made; every copy is checked and must hold what was acknowledged before it began.
#include "db/copy_database.h"

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::HasSubstr;

class BackupTest : public ::testing::Test {
 protected:
  testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
};

TEST_F(BackupTest, CopiesOfADatabaseThatIsWritten) {
  constexpr int kCopies = 5;
  const auto writer = *Writer::Open(path_);
  const NewJob job = FakeJob({.planned_count = 1'000'000});
  const int64_t execution_id = *writer->AddExecution(FakeExecution());
  const CellRow cell = writer->Cells(writer->AddJob(job)->job_id)->front();
  std::atomic<int64_t> acknowledged = 0;
  std::atomic<bool> stop = false;
  std::thread recorder([&] {
    for (int64_t i = 0; !stop; ++i) {
      ASSERT_TRUE(writer->RecordSample(FakeOutcome(cell, job, execution_id, i)).ok());
      acknowledged = i + 1;
    }
  });
  int64_t before = 0;
  for (int i = 0; i < kCopies; ++i) {
    while (acknowledged < before + 20) std::this_thread::yield();
    before = acknowledged;
    const std::string copy = directory_.File(absl::StrCat("copy-", i, ".db"));
    const absl::Status status = CopyDatabase(path_, copy);
    ASSERT_TRUE(status.ok()) << status;
    const int64_t after = acknowledged;
    EXPECT_FALSE(std::filesystem::exists(copy + ".part"));
    EXPECT_FALSE(std::filesystem::exists(copy + "-wal"));
    auto database = *sqlite::Database::Open(copy, {.read_only = true});
    EXPECT_EQ(database->FullCheck(), absl::OkStatus());
    const int64_t copied = (*Reader::Open(copy))->Job(1)->answered_count;
    EXPECT_GE(copied, before) << "everything that was acknowledged before";
    EXPECT_LE(copied, after + 1);
    struct stat info;
    ASSERT_EQ(stat(copy.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  stop = true;
  recorder.join();
  EXPECT_EQ((*Reader::Open(path_))->Job(1)->answered_count, acknowledged);
}

TEST_F(BackupTest, CopiesAFileThatCannotBeWritten) {
  ASSERT_TRUE((*Writer::Open(path_))->AddJob(FakeJob()).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_EQ(CopyDatabase(path_, directory_.File("copy.db")), absl::OkStatus());
  // Root may write it nevertheless, and is refused by a read-only mount alone.
  const auto database = *sqlite::Database::Open(path_, {.read_only = true, .is_copied = true});
  EXPECT_EQ(WriteSnapshot(*database, directory_.File("other.db")), absl::OkStatus());
  EXPECT_EQ((*Reader::Open(directory_.File("other.db")))->Jobs()->size(), 1u);
}

TEST_F(BackupTest, ACopyCanBeWritten) {
  ASSERT_TRUE((*Writer::Open(path_))->AddJob(FakeJob()).ok());
  const std::string copy = directory_.File("copy.db");
  ASSERT_TRUE(CopyDatabase(path_, copy).ok());
  EXPECT_TRUE((*Writer::Open(copy))->AddJob(FakeJob()).ok());
  EXPECT_EQ((*Reader::Open(copy))->Jobs()->size(), 2u);
  EXPECT_EQ((*Reader::Open(path_))->Jobs()->size(), 1u);
}

TEST_F(BackupTest, NoFileIsReplacedAndNoneIsInvented) {
  ASSERT_TRUE(Writer::Open(path_).ok());
  testing_support::WriteFile(directory_.File("taken.db"), "mine");
  const absl::Status taken = CopyDatabase(path_, directory_.File("taken.db"));
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(testing_support::ReadFile(directory_.File("taken.db")), "mine");
  EXPECT_EQ(CopyDatabase(directory_.File("none.db"), directory_.File("a.db")).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("none.db")));
  testing_support::WriteFile(directory_.File("other"), "no database at all");
  EXPECT_EQ(CopyDatabase(directory_.File("other"), directory_.File("a.db")).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status nowhere = CopyDatabase(path_, directory_.File("absent/a.db"));
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("absent/a.db"));
  EXPECT_FALSE(std::filesystem::exists(directory_.File("a.db")));
}

}  // namespace
}  // namespace varifocal::db

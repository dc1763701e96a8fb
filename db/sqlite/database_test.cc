// The wrapper: values survive a round trip bit for bit, errors have the right code, transactions roll back, and a
// read-only connection cannot write. Method: real files in a temporary directory.
#include "db/sqlite/database.h"

#include <unistd.h>

#include <bit>
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/process.h"

namespace varifocal::sqlite {
namespace {

using testing_support::TemporaryDirectory;

std::unique_ptr<Database> OpenWithTable(const std::string& path) {
  auto database = Database::Open(path, {});
  EXPECT_TRUE(database.ok()) << database.status();
  EXPECT_TRUE((*database)->Execute("CREATE TABLE things (id INTEGER PRIMARY KEY, x ANY, CHECK (id < 10)) STRICT").ok());
  return *std::move(database);
}

TEST(Database, ValuesSurviveBitForBit) {
  TemporaryDirectory directory;
  auto database = OpenWithTable(directory.File("a.db"));
  const double tricky = 0.1 + 0.2;  // 0.30000000000000004, which SQL text would print as 0.3
  const std::string text("a\0b \xC3\xA9", 6);
  ASSERT_TRUE(database
                  ->Run("INSERT INTO things (id, x) VALUES (1, ?), (2, ?), (3, ?), (4, ?)", tricky, text, INT64_MIN,
                        std::optional<double>())
                  .ok());
  ASSIGN_OR_FAIL(auto rows, database->Prepare("SELECT x FROM things ORDER BY id"));
  ASSERT_TRUE(*rows.Step());
  EXPECT_EQ(std::bit_cast<int64_t>(rows.Real(0)), std::bit_cast<int64_t>(tricky));
  ASSERT_TRUE(*rows.Step());
  EXPECT_EQ(rows.Text(0), text);
  ASSERT_TRUE(*rows.Step());
  EXPECT_EQ(rows.Int(0), INT64_MIN);
  ASSERT_TRUE(*rows.Step());
  EXPECT_EQ(rows.OptionalReal(0), std::nullopt);
  EXPECT_FALSE(*rows.Step());
}

TEST(Database, TransactionRollsBackUnlessCommitted) {
  TemporaryDirectory directory;
  auto database = OpenWithTable(directory.File("a.db"));
  for (bool commit : {false, true}) {
    {
      ASSIGN_OR_FAIL(auto transaction, Transaction::Begin(*database, Transaction::Kind::kWrite));
      ASSERT_TRUE(database->Run("INSERT INTO things (id, x) VALUES (1, 1)").ok());
      if (commit) {
        ASSERT_TRUE(transaction.Commit().ok());
      }
    }
    EXPECT_EQ(**database->QueryInt("SELECT count(*) FROM things"), commit ? 1 : 0);
  }
}

TEST(Database, ErrorsHaveCodes) {
  TemporaryDirectory directory;
  const std::string path = directory.File("a.db");
  auto database = OpenWithTable(path);
  EXPECT_EQ(database->Run("INSERT INTO things (id, x) VALUES (11, 1)").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(database->Execute("SELEKT 1").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Database::Open(directory.File("no/such/folder.db"), {}).status().code(),
            absl::StatusCode::kPermissionDenied);

  ASSIGN_OR_FAIL(auto reader, Database::Open(path, {.read_only = true}));
  absl::Status refused = reader->Run("INSERT INTO things (id, x) VALUES (2, 1)");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_EQ(refused.message().substr(0, path.size()), path);

  // A second writer of the file fails after its busy timeout.
  auto transaction = Transaction::Begin(*database, Transaction::Kind::kWrite);
  ASSIGN_OR_FAIL(auto other, Database::Open(path, {.busy_timeout_ms = 10}));
  EXPECT_EQ(Transaction::Begin(*other, Transaction::Kind::kWrite).status().code(), absl::StatusCode::kUnavailable);
}

TEST(Database, NamesThatSqliteWouldInterpretAreFiles) {
  TemporaryDirectory directory;
  const std::string before = std::filesystem::current_path();
  ASSERT_EQ(chdir(directory.path().c_str()), 0);
  OpenWithTable(":memory:");
  EXPECT_NE(testing_support::ReadFile(":memory:"), "");
  ASSERT_EQ(chdir(before.c_str()), 0);
}

}  // namespace
}  // namespace varifocal::sqlite

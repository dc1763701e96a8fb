// Databases that must be rejected, with the expected code and message of reader, writer and diff; and corrupted files,
// which must never crash the program. Method: a table of files with one defect each; random byte changes in a valid
// file.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "db/diff.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/schema.h"
#include "db/sqlite/database.h"
#include "db/stats/compare.h"
#include "db/stats/estimates.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

// A small finished job.
void MakeDatabase(const std::string& path) {
  db::AddFakeJob(**db::Writer::Open(path), db::FakeJob({.planned_count = 12}));
}

void Sql(const std::string& path, const std::string& statements) {
  auto database = *sqlite::Database::Open(path, {});
  absl::Status status = database->Execute(statements);
  ASSERT_TRUE(status.ok()) << status;
}

using Make = std::function<void(const std::string& path)>;
// Of a small finished job, then changed.
Make Changed(const Make& change) {
  return [=](const std::string& path) {
    MakeDatabase(path);
    change(path);
  };
}
Make ChangedBy(const std::string& statements) {
  return Changed([=](const std::string& path) { Sql(path, statements); });
}

struct Case {
  std::string name;
  Make make;
  Code reader_code;
  Code writer_code;
};

std::vector<Case> Cases() {
  return {
      {"missing", [](const std::string&) {}, Code::kNotFound, Code::kOk},
      {"empty", [](const std::string& path) { WriteFile(path, ""); }, Code::kFailedPrecondition, Code::kOk},
      {"without tables", [](const std::string& path) { Sql(path, "CREATE TABLE t (a INTEGER); DROP TABLE t"); },
       Code::kFailedPrecondition, Code::kOk},
      {"text", [](const std::string& path) { WriteFile(path, "task,score\nrecall,0.9\n"); }, Code::kInvalidArgument,
       Code::kInvalidArgument},
      {"folder", [](const std::string& path) { ASSERT_EQ(mkdir(path.c_str(), 0755), 0); }, Code::kInvalidArgument,
       Code::kInvalidArgument},
      {"another program's", [](const std::string& path) { Sql(path, "CREATE TABLE history (url TEXT)"); },
       Code::kInvalidArgument, Code::kInvalidArgument},
      {"newer version",
       ChangedBy(absl::StrCat("UPDATE schema_version SET version = ", db::kSchemaVersion + 2,
                              ", compatible_version = ", db::kSchemaVersion + 1)),
       Code::kFailedPrecondition, Code::kFailedPrecondition},
      {"newer but compatible",
       ChangedBy(
           absl::StrCat("UPDATE schema_version SET version = ", db::kSchemaVersion + 1, ", compatible_version = 1")),
       Code::kOk, Code::kOk},
      {"two names",
       Changed([](const std::string& path) { ASSERT_EQ(link(path.c_str(), (path + ".other").c_str()), 0); }), Code::kOk,
       Code::kFailedPrecondition},
      {"without version", ChangedBy("DELETE FROM schema_version"), Code::kDataLoss, Code::kDataLoss},
      {"cut short", Changed([](const std::string& path) { ASSERT_EQ(truncate(path.c_str(), 20'000), 0); }),
       Code::kDataLoss, Code::kDataLoss},
      {"zeroed pages",
       [](const std::string& path) {
         MakeDatabase(path);
         std::string bytes = ReadFile(path);
         for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = 0;
         WriteFile(path, bytes);
       },
       Code::kDataLoss, Code::kDataLoss},
      {"header of the wrong size",
       [](const std::string& path) {
         MakeDatabase(path);
         std::string bytes = ReadFile(path);
         bytes[16] = 7;  // page size
         WriteFile(path, bytes);
       },
       Code::kDataLoss, Code::kDataLoss},
  };
}

// Like a verb: opens the file, then reads everything a report needs.
absl::Status ReadEverything(const std::string& path) {
  auto reader = db::Reader::Open(path);
  if (!reader.ok()) return reader.status();
  auto job = (*reader)->LatestJob();
  if (!job.ok()) return job.status();
  for (const absl::Status& status :
       {(*reader)->Variants(job->job_id).status(), (*reader)->Cells(job->job_id).status(),
        (*reader)->Executions(job->job_id).status(), (*reader)->Samples({.job_id = job->job_id}).status(),
        stats::CompareVariants(**reader, job->job_id, "baseline", "focal").status(),
        stats::EstimateScores(**reader, job->job_id).status()}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool IsOneSentence(const std::string& message) {
  return !message.empty() && message.size() < 400 && message.find('\n') == std::string::npos;
}

TEST(BadDatabase, IsRejectedInOneSentenceAndUnchanged) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    TemporaryDirectory directory;
    const std::string path = directory.File("results.db");
    c.make(path);
    const std::string before = ReadFile(path);

    const absl::Status read = ReadEverything(path);
    EXPECT_EQ(read.code(), c.reader_code) << read;
    if (!read.ok()) {
      EXPECT_THAT(read.message(), Message(path));
      EXPECT_TRUE(IsOneSentence(std::string(read.message()))) << read;
    }
    const absl::Status diffed = db::DiffDatabases(path, path).status();
    EXPECT_EQ(diffed.ok(), c.reader_code == Code::kOk) << diffed;
    EXPECT_EQ(ReadFile(path), before) << "a reader changes nothing";

    const absl::Status written = db::Writer::Open(path).status();
    EXPECT_EQ(written.code(), c.writer_code) << written;
    if (!written.ok()) {
      EXPECT_THAT(written.message(), Message(path));
      EXPECT_TRUE(IsOneSentence(std::string(written.message()))) << written;
      EXPECT_EQ(ReadFile(path), before) << "a rejected file is unchanged";
      EXPECT_NE(access((path + ".lock").c_str(), F_OK), 0) << "no lock file remains";
    }
  }
}

TEST(BadDatabase, PathsThatCannotBeUsed) {
  TemporaryDirectory directory;
  const std::string path = directory.File("no/such/folder/results.db");
  EXPECT_EQ(db::Reader::Open(path).status().code(), Code::kNotFound);
  EXPECT_EQ(db::Writer::Open(path).status().code(), Code::kNotFound);
  EXPECT_EQ(db::Writer::Open("").status().code(), Code::kInvalidArgument);

  const std::string secret = directory.File("secret.db");
  MakeDatabase(secret);
  // Permissions do not apply to root, so root temporarily changes its user id.
  const uid_t self = geteuid();
  auto as_nobody = [&](auto&& act) {
    ASSERT_EQ(seteuid(self == 0 ? 65534 : self), 0);
    act();
    ASSERT_EQ(seteuid(self), 0);
  };
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(secret.c_str(), 0), 0);
  as_nobody([&] { EXPECT_EQ(db::Reader::Open(secret).status().code(), Code::kPermissionDenied); });
  ASSERT_EQ(chmod(secret.c_str(), 0444), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0555), 0);
  as_nobody([&] {
    absl::Status read = ReadEverything(secret);
    EXPECT_TRUE(read.ok()) << read << ": an archive on a read-only disk";
    EXPECT_EQ(db::Writer::Open(secret).status().code(), Code::kPermissionDenied);
  });
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
}

TEST(BadDatabase, AnotherProcessHoldsIt) {
  TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  {
    BackgroundProcess holder("crash_writer", {path});
    ASSERT_TRUE(holder.WaitForFile(path + ".lock", 10));
    for (int i = 0; i < 200 && !db::Reader::Open(path).ok(); ++i) usleep(5000);
    holder.Signal(SIGSTOP);
    ASSERT_TRUE(holder.IsRunning()) << "stopped in the middle of its job";
    const absl::Status refused = db::Writer::Open(path).status();
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("process ", holder.pid())));
    EXPECT_TRUE(db::Reader::Open(path).ok()) << "readers are allowed";
    holder.Signal(SIGCONT);
    holder.Signal(SIGKILL);
    holder.Wait(10);
  }
  EXPECT_TRUE(db::Writer::Open(path).ok()) << "a killed holder leaves nothing to clean up";
}

TEST(BadDatabase, CorruptedBytesNeverCrash) {
  TemporaryDirectory directory;
  const std::string good_path = directory.File("good.db");
  MakeDatabase(good_path);
  const std::string good = ReadFile(good_path);
  const std::string path = directory.File("bad.db");
  int refused_count = 0;
  for (Trials trials("corrupted files", {.quick = 300, .full = 20'000}); trials.Next();) {
    Random random = trials.MakeRandom();
    std::string bytes = good;
    const uint64_t change_count = 1 + random.Below(20);
    for (uint64_t i = 0; i < change_count; ++i) bytes[random.Below(bytes.size())] = random.Below(256);
    if (random.Below(8) == 0) bytes.resize(random.Below(bytes.size()));
    WriteFile(path, bytes);
    const absl::Status read = ReadEverything(path);
    const absl::Status written = db::Writer::Open(path).status();
    for (const absl::Status& status : {read, written}) {
      if (status.ok()) continue;
      EXPECT_TRUE(IsOneSentence(std::string(status.message()))) << status;
    }
    refused_count += !read.ok() || !written.ok();
    for (const char* suffix : {"-wal", "-shm", ".lock"}) unlink((path + suffix).c_str());
  }
  PrintMeasured(absl::StrCat(refused_count, " files refused"));
  EXPECT_GT(refused_count, 0);
}

// A power loss during a checkpoint tears the first page of the file, or leaves it unwritten; the log has all of it. Method: a
// copy of the files of an open writer, of which nothing was checkpointed.
TEST(BadDatabase, AFirstPageThatOnlyTheLogHasIsRecovered) {
  const TemporaryDirectory directory;
  const std::string made = directory.File("made.db"), copy = directory.File("copy.db");
  auto writer = *db::Writer::Open(made);
  const db::NewJob job = db::FakeJob({.planned_count = 12});
  const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
  const int64_t job_id = writer->AddJob(job)->job_id;
  const std::vector<db::CellRow> cells = *writer->Cells(job_id);
  for (const db::CellRow& cell : cells)
    ASSERT_TRUE(writer->RecordSample(db::FakeOutcome(cell, job, execution_id, 0)).ok());
  const std::string file = ReadFile(made), log = ReadFile(made + "-wal");
  ASSERT_GT(log.size(), 4096u);
  const std::string torn = std::string(512, '\x5a') + (file.size() > 512 ? file.substr(512) : "");
  for (const std::string& bytes : {file, torn, std::string(512, '\0') + file.substr(std::min<size_t>(512, file.size())),
                                   std::string(4096, '\0')}) {
    SCOPED_TRACE(absl::StrCat(bytes.size(), " bytes beside a log of ", log.size()));
    for (const char* end : {"-wal", "-shm", ".lock"}) unlink((copy + end).c_str());
    WriteFile(copy, bytes);
    WriteFile(copy + "-wal", log);
    ASSIGN_OR_FAIL(const auto reader, db::Reader::Open(copy));
    EXPECT_GT(reader->Job(job_id)->answered_count, 0);
    ASSIGN_OR_FAIL(const auto again, db::Writer::Open(copy));
    EXPECT_EQ(again->Cells(job_id)->size(), cells.size());
  }
  // SQLite would delete the log of a file of no bytes.
  for (const char* end : {"-wal", "-shm", ".lock"}) unlink((copy + end).c_str());
  WriteFile(copy, "");
  WriteFile(copy + "-wal", log);
  EXPECT_EQ(db::Reader::Open(copy).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(db::Writer::Open(copy).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(ReadFile(copy + "-wal"), log);
  // Without a log it is what it was before, and a log of another file does not help.
  for (const std::string& other : {std::string(), std::string(8192, 'x')}) {
    for (const char* end : {"-wal", "-shm", ".lock"}) unlink((copy + end).c_str());
    WriteFile(copy, torn);
    if (!other.empty()) WriteFile(copy + "-wal", other);
    EXPECT_EQ(db::Writer::Open(copy).status().code(), other.empty() ? Code::kInvalidArgument : Code::kDataLoss);
  }
}

}  // namespace
}  // namespace varifocal

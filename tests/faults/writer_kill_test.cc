// SIGKILL of a writing process at random times. Method: a child writes a job's missing samples and prints each
// acknowledged one; the parent kills it, checks the file, restarts it, until the job is done; then the content is
// compared bit for bit with an uninterrupted run.
//
//   I1  integrity_check and foreign keys are clean after every kill
//   I2  no acknowledged sample is lost
//   I3  no sample is duplicated
//   I4  the content equals an uninterrupted run's
//
// VARIFOCAL_KILLS sets the number of kills (30 unless set; 1,000 in the slow run).
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "base/random.h"
#include "db/diff.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing_support::BackgroundProcess;
using testing_support::RunProcess;
using testing_support::TemporaryDirectory;

std::set<std::string> Lines(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream stream(text);
  // Without its newline the last line may be incomplete and is ignored.
  for (std::string line; std::getline(stream, line) && !stream.eof();) lines.insert(line);
  return lines;
}

// Checks I1 and I3; returns the recorded samples.
std::set<std::string> CheckedContent(const std::string& path) {
  std::set<std::string> there;
  auto database = sqlite::Database::Open(path, {.read_only = true});
  EXPECT_TRUE(database.ok()) << database.status();
  absl::Status clean = (*database)->FullCheck();
  // Killed while creating the file: it is still empty, and only a writer may recover the journal.
  if (absl::IsFailedPrecondition(clean) && access((path + "-journal").c_str(), F_OK) == 0) return there;
  EXPECT_TRUE(clean.ok()) << clean;
  auto rows = (*database)->Prepare(
      "SELECT variant, task, context_length, sample_index, count(*) FROM v_content WHERE error_code IS NULL"
      " AND value IS NOT NULL GROUP BY variant, task, context_length, sample_index");
  if (!rows.ok()) return there;  // killed before the schema was created
  while (*rows->Step()) {
    EXPECT_EQ(rows->Int(4), 2) << "one row for each of two metrics";
    there.insert(rows->Text(0) + " " + rows->Text(1) + " " + rows->Text(2) + " " + rows->Text(3));
  }
  return there;
}

TEST(WriterKill, KilledAtRandomItResumesToTheSameContent) {
  const char* wanted = std::getenv("VARIFOCAL_KILLS");
  const int kills_wanted = wanted == nullptr ? 30 : std::atoi(wanted);
  TemporaryDirectory directory;
  const std::string unbroken = directory.File("unbroken.db");
  const auto whole = RunProcess("crash_writer", {unbroken});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const size_t sample_count = Lines(whole.out).size();
  ASSERT_EQ(sample_count, 2u * 2 * 2 * 40);

  Random random("kills");
  int kills = 0;
  int runs = 0;
  size_t acknowledged_count = 0;
  while (kills < kills_wanted) {
    const std::string path = directory.File("broken.db");
    for (const char* suffix : {"", "-journal", "-wal", "-shm", ".lock"}) unlink((path + suffix).c_str());
    std::set<std::string> acknowledged;
    while (true) {
      BackgroundProcess writer("crash_writer", {path});
      // From before the database exists to a third of the job later; after the last kill, to the end.
      if (kills < kills_wanted) {
        usleep(static_cast<useconds_t>(random.Below(static_cast<uint64_t>(whole.seconds * 1e6 / 3) + 1000)));
        writer.Signal(SIGKILL);
      }
      const int exit_code = writer.Wait(60);
      for (const std::string& line : Lines(writer.Output())) acknowledged.insert(line);
      if (exit_code == 0) break;
      ASSERT_EQ(exit_code, 128 + SIGKILL) << writer.Errors();
      ++kills;
      if (access(path.c_str(), F_OK) != 0) continue;
      const std::set<std::string> there = CheckedContent(path);
      for (const std::string& line : acknowledged) EXPECT_TRUE(there.contains(line)) << "lost: " << line;
    }
    ++runs;
    acknowledged_count += acknowledged.size();
    EXPECT_EQ(CheckedContent(path).size(), sample_count);
    auto diff = db::DiffDatabases(unbroken, path);
    ASSERT_TRUE(diff.ok()) << diff.status();
    EXPECT_EQ(diff->difference_count, 0);
    EXPECT_EQ(diff->row_count_a, diff->row_count_b);
  }
  std::printf("%d kills in %d jobs, %zu samples acknowledged, %zu expected\n", kills, runs, acknowledged_count,
              runs * sample_count);
  EXPECT_LE(acknowledged_count, runs * sample_count);
}

}  // namespace
}  // namespace varifocal

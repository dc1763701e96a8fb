// SIGKILL of a writing process, at random times and at kill points: before and after each write, sync, truncation and
// deletion of the database's files, each acknowledgement and each checkpoint. Method: a child writes a job's missing
// samples and prints each acknowledged one; the parent kills it, checks the file, restarts it, until the job is done;
// then the content is compared bit for bit with an uninterrupted run.
//
//   I1  integrity_check and foreign keys are clean after every kill
//   I2  no acknowledged sample is lost
//   I3  no sample is duplicated
//   I4  the content equals an uninterrupted run's
#include <signal.h>
#include <unistd.h>

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "db/diff.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_scenario.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

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

void ExpectSameContent(const std::string& unbroken, const std::string& path) {
  auto diff = db::DiffDatabases(unbroken, path);
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->difference_count, 0);
  EXPECT_EQ(diff->row_count_a, diff->row_count_b);
}

TEST(WriterKill, KilledAtRandomItResumesToTheSameContent) {
  Trials trials("kills", {.quick = 30, .full = 1000});
  TemporaryDirectory directory;
  const std::string unbroken = directory.File("unbroken.db");
  const auto whole = RunProcess("crash_writer", {unbroken});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const size_t sample_count = Lines(whole.out).size();
  ASSERT_EQ(sample_count, 2u * 2 * 2 * 40);

  Random random(SeedOf("kills"));
  int64_t kills = 0;
  while (kills < trials.wanted_count()) {
    const std::string path = directory.File("broken.db");
    RemoveDatabase(path);
    std::set<std::string> acknowledged;
    while (true) {
      BackgroundProcess writer("crash_writer", {path});
      // From before the database exists to a third of the job later; after the last kill, to the end.
      if (kills < trials.wanted_count()) {
        usleep(random.Below(static_cast<uint64_t>(whole.seconds * 1e6 / 3) + 1000));
        writer.Signal(SIGKILL);
      }
      const int exit_code = writer.Wait(60);
      for (const std::string& line : Lines(writer.Output())) acknowledged.insert(line);
      if (exit_code == 0) break;
      ASSERT_EQ(exit_code, 128 + SIGKILL) << writer.Errors();
      ++kills;
      if (access(path.c_str(), F_OK) == 0) {
        const std::set<std::string> there = CheckedContent(path);
        for (const std::string& line : acknowledged) EXPECT_TRUE(there.contains(line)) << "lost: " << line;
      }
      trials.Count();
    }
    EXPECT_EQ(CheckedContent(path).size(), sample_count);
    ExpectSameContent(unbroken, path);
  }
}

// A point of a child that is not killed, with how often it passes it.
std::vector<std::pair<std::string, int64_t>> KillPoints(const std::string& counts) {
  std::vector<std::pair<std::string, int64_t>> points;
  std::istringstream stream(counts);
  std::string point;
  for (int64_t count = 0; stream >> point >> count;) points.push_back({point, count});
  return points;
}

TEST(WriterKill, KilledAtEveryPointItResumesToTheSameContent) {
  TemporaryDirectory directory;
  const std::string unbroken = directory.File("unbroken.db");
  const auto whole = RunProcess("crash_writer", {unbroken, "never", "0"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const size_t sample_count = Lines(whole.out).size();
  const auto points = KillPoints(whole.err);
  ASSERT_GE(points.size(), 11u) << whole.err;
  const int64_t point_count = std::ssize(points);
  for (Trials trials("kills at points", {.quick = 2 * point_count, .full = 20 * point_count}); trials.Next();) {
    const auto& [point, count] = points[trials.index() % point_count];
    const int64_t nth = 1 + trials.MakeRandom().Below(count);
    SCOPED_TRACE(point + " " + std::to_string(nth));
    const std::string path = directory.File("broken.db");
    RemoveDatabase(path);
    const auto killed = RunProcess("crash_writer", {path, point, std::to_string(nth)});
    ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.err;
    const std::set<std::string> there = CheckedContent(path);
    for (const std::string& line : Lines(killed.out)) EXPECT_TRUE(there.contains(line)) << "lost: " << line;
    const auto resumed = RunProcess("crash_writer", {path});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(CheckedContent(path).size(), sample_count);
    ExpectSameContent(unbroken, path);
  }
}

}  // namespace
}  // namespace varifocal

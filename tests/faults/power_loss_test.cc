// Power loss: at any moment, unsynced writes may be lost, torn between sectors, or there.
//
// Method: a scenario (two openings of one database, samples, a checkpoint) records every change of its files. For a
// random cut of that record a disk image is made: what was synced before the cut is there, and of each later change any
// sectors of 512 bytes. A writer must recover the image to a clean database (I1) with every sample that was acknowledged
// before the cut (I2), each once (I3). Control: a disk that ignores syncs loses acknowledged samples.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/sqlite/fault_injection.h"
#include "db/writer.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_scenario.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using sqlite::FileChange;

constexpr int64_t kSectorBytes = 512;
constexpr int kLossSampleCount = 40;

struct Recorded {
  std::vector<FileChange> changes;
  std::vector<std::pair<int64_t, int64_t>> acknowledged;  // length of the record at that time, and the sample
};

// Two openings: the second finds and continues the job of the first.
Recorded RecordWrites(const std::string& path) {
  Recorded recorded;
  sqlite::StartTrace();
  for (int opening = 0; opening < 2; ++opening) {
    auto writer = *db::Writer::Open(path);
    db::NewJob job = db::FakeJob({.planned_count = kLossSampleCount});
    job.request_id = "the one job";
    job.body_sha256 = "its body";
    const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
    const db::CellRow cell = writer->Cells(writer->AddJob(job)->job_id)->front();
    for (int64_t i = 0; i < kLossSampleCount / 2; ++i) {
      const int64_t index = opening * kLossSampleCount / 2 + i;
      EXPECT_TRUE(writer->RecordSample(db::FakeOutcome(cell, job, execution_id, index)).ok());
      recorded.acknowledged.push_back({sqlite::TraceLength(), index});
      if (i % 8 == 7) {
        EXPECT_TRUE(writer->Checkpoint().ok());
      }
    }
  }
  recorded.changes = sqlite::StopTrace();
  return recorded;
}

// One file on the disk: the content that is safe, and the changes that are not.
struct File {
  std::string durable;
  std::vector<const FileChange*> pending;
  bool exists_surely = false;  // its directory entry was synced
  bool may_be_deleted = false;
  std::optional<std::string> before;  // content under this name whose deletion may not have reached the disk
};

void Apply(const FileChange& change, std::string& content, Random* torn) {
  if (change.kind == FileChange::Kind::kTruncate) {
    if (torn == nullptr || torn->Coin()) content.resize(change.at);
    return;
  }
  const int64_t size = std::ssize(change.bytes);
  // Of a write whose sync was not reached: nothing, everything, or any of its sectors.
  const uint64_t fate = torn == nullptr ? 1 : torn->Below(3);
  if (fate == 0) return;
  if (std::ssize(content) < change.at + size) content.resize(change.at + size);  // sectors that are missing are zeros
  for (int64_t at = 0; at < size;) {
    const int64_t end = std::min(size, (change.at + at) / kSectorBytes * kSectorBytes + kSectorBytes - change.at);
    if (fate == 1 || torn->Coin()) content.replace(change.at + at, end - at, change.bytes, at, end - at);
    at = end;
  }
}

// SQLite's VFS syncs the directory with the first sync of a new journal or write-ahead log: what was created exists, what
// was deleted is gone.
void SyncDirectory(std::map<std::string, File>& files) {
  std::erase_if(files, [](const auto& entry) { return entry.second.may_be_deleted; });
  for (auto& [path, file] : files) {
    file.exists_surely = true;
    file.before.reset();
  }
}

// What may be on the disk when the power fails before change `cut`.
std::map<std::string, std::string> ImageAt(const std::vector<FileChange>& changes, int64_t cut, bool ignores_syncs,
                                           Random& random) {
  std::map<std::string, File> files;
  for (int64_t i = 0; i < cut; ++i) {
    const FileChange& change = changes[i];
    File& file = files[change.path];
    switch (change.kind) {
      case FileChange::Kind::kCreate: {
        std::optional<std::string> before;
        if (file.may_be_deleted) before = std::move(file.durable);
        file = File();
        file.before = std::move(before);
        break;
      }
      case FileChange::Kind::kSync:
        if (ignores_syncs) break;
        for (const FileChange* pending : file.pending) Apply(*pending, file.durable, nullptr);
        file.pending.clear();
        if (!file.exists_surely) SyncDirectory(files);
        break;
      case FileChange::Kind::kDelete:
        if (change.is_durable) {
          files.erase(change.path);
        } else {
          file.may_be_deleted = true;
        }
        break;
      default:
        file.pending.push_back(&change);
    }
  }
  std::map<std::string, std::string> image;
  for (auto& [path, file] : files) {
    if ((file.may_be_deleted || !file.exists_surely) && random.Coin()) {
      if (file.before.has_value() && random.Coin()) image[path] = *file.before;
      continue;
    }
    for (const FileChange* pending : file.pending) Apply(*pending, file.durable, &random);
    image[path] = std::move(file.durable);
  }
  return image;
}

// Writes the image and opens it as the next start would; the samples that are there, or an error.
absl::StatusOr<std::set<int64_t>> Recover(const std::map<std::string, std::string>& image, const std::string& path) {
  RemoveDatabase(path);
  for (const auto& [name, bytes] : image) WriteFile(name, bytes);
  auto writer = db::Writer::Open(path);
  if (!writer.ok()) return writer.status();
  auto database = sqlite::Database::Open(path, {.read_only = true});
  if (!database.ok()) return database.status();
  const absl::Status clean = (*database)->FullCheck();
  if (!clean.ok()) return clean;
  std::set<int64_t> there;
  auto rows = (*database)->Prepare("SELECT sample_index, count(*) FROM v_content GROUP BY sample_index");
  if (!rows.ok()) return rows.status();
  while (*rows->Step()) {
    if (rows->Int(1) != 2) return absl::DataLossError(absl::StrCat("sample ", rows->Int(0), " is not there once"));
    there.insert(rows->Int(0));
  }
  return there;
}

int64_t CountLost(const Recorded& recorded, int64_t cut, const std::set<int64_t>& there) {
  return std::count_if(recorded.acknowledged.begin(), recorded.acknowledged.end(), [&](const auto& acknowledged) {
    return acknowledged.first <= cut && !there.contains(acknowledged.second);
  });
}

TEST(PowerLoss, AcknowledgedSamplesSurvive) {
  InstallFaultInjectionOnce();
  TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  const Recorded recorded = RecordWrites(path);
  ASSERT_EQ(std::ssize(recorded.acknowledged), kLossSampleCount);
  for (Trials trials("cut points", {.quick = 300, .full = 5000}); trials.Next();) {
    Random random = trials.MakeRandom();
    const int64_t cut = random.Below(recorded.changes.size() + 1);
    SCOPED_TRACE(absl::StrCat("cut before change ", cut, " of ", recorded.changes.size()));
    const auto there = Recover(ImageAt(recorded.changes, cut, /*ignores_syncs=*/false, random), path);
    ASSERT_TRUE(there.ok()) << there.status();
    EXPECT_EQ(CountLost(recorded, cut, *there), 0);
  }
}

// Nothing is acknowledged yet, and the next start must succeed.
TEST(PowerLoss, WhileTheDatabaseIsCreated) {
  InstallFaultInjectionOnce();
  TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  const Recorded recorded = RecordWrites(path);
  Random random("creation");
  for (int64_t cut = 0; cut < 12; ++cut) {
    for (int image = 0; image < 40; ++image) {
      const auto there = Recover(ImageAt(recorded.changes, cut, /*ignores_syncs=*/false, random), path);
      EXPECT_TRUE(there.ok()) << "cut before change " << cut << ": " << there.status();
    }
  }
}

TEST(PowerLoss, ADiskThatIgnoresSyncsIsFound) {
  InstallFaultInjectionOnce();
  TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  const Recorded recorded = RecordWrites(path);
  Random random("a disk that ignores syncs");
  int found_count = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t cut = random.Below(recorded.changes.size() + 1);
    const auto there = Recover(ImageAt(recorded.changes, cut, /*ignores_syncs=*/true, random), path);
    found_count += !there.ok() || CountLost(recorded, cut, *there) > 0;
  }
  EXPECT_GT(found_count, 10);
}

}  // namespace
}  // namespace varifocal

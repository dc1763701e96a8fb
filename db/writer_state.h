// Private state of Writer, for the sources that implement it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "db/file_watch.h"
#include "db/sqlite/database.h"
#include "db/writer_lock.h"

namespace varifocal::db {

// The first sample of a job, and every orderly end of a run.
inline constexpr char kForgetStarts[] = "DELETE FROM job_starts WHERE job_id = ?";

struct WriterState {
  WriterState(WriterLock lock, std::unique_ptr<sqlite::Database> database, const Clock& clock)
      : lock(std::move(lock)),
        database(std::move(database)),
        held(this->database->path()),
        files(this->database->path()),
        clock(clock),
        opened_us(clock.MonotonicMicros()) {}

  absl::Status CheckFiles() const {
    RETURN_IF_ERROR(files.Check());
    return lock.Check();
  }
  absl::StatusOr<sqlite::Transaction> Begin() {
    RETURN_IF_ERROR(CheckFiles());
    return sqlite::Transaction::Begin(*database, sqlite::Transaction::Kind::kWrite);
  }
  absl::Status Commit(sqlite::Transaction& transaction) {
    RETURN_IF_ERROR(transaction.Commit());
    return CheckFiles();
  }

  WriterLock lock;  // released last
  std::unique_ptr<sqlite::Database> database;
  const HeldFile held;
  const FileWatch files;
  const Clock& clock;
  const int64_t opened_us;
  std::mutex mutex;
  struct Moment {
    int64_t wall_us;
    int64_t monotonic_us;
    int64_t noted_us = 0;  // how long it has run, as last written down
  };
  std::map<int64_t, int64_t>
      delayed;                     // jobs that wait because of earlier ends, and from which uptime on they may start
  std::map<int64_t, Moment> runs;  // start times of the jobs that this process set running
};

}  // namespace varifocal::db

// Private state of Writer, for the sources that implement it.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
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
  absl::StatusOr<sqlite::Transaction> Begin() VF_REQUIRES(mutex) {
    RETURN_IF_ERROR(CheckFiles());
    return sqlite::Transaction::Begin(*database, sqlite::Transaction::Kind::kWrite);
  }
  absl::Status Commit(sqlite::Transaction& transaction) VF_REQUIRES(mutex) {
    RETURN_IF_ERROR(transaction.Commit());
    return CheckFiles();
  }
  int64_t UptimeMicros() const { return clock.MonotonicMicros() - opened_us; }
  int64_t EndOfRun(int64_t job_id, int64_t now_us) VF_REQUIRES(mutex);
  // Inside a transaction.
  absl::Status Step(int64_t job_id, JobState state, const std::string& error) VF_REQUIRES(mutex);
  absl::Status ForgetStartsOf(int64_t job_id) VF_REQUIRES(mutex);

  Mutex mutex;
  WriterLock lock;  // released last
  std::unique_ptr<sqlite::Database> database VF_PT_GUARDED_BY(mutex);
  const HeldFile held;
  const FileWatch files;
  const Clock& clock;
  const int64_t opened_us;
  struct Moment {
    int64_t wall_us;
    int64_t monotonic_us;
    int64_t noted_us = 0;  // how long it has run, as last written down
  };
  // Jobs that wait because of earlier ends, and from which uptime on they may start.
  std::map<int64_t, int64_t> delayed VF_GUARDED_BY(mutex);
  std::map<int64_t, Moment> runs VF_GUARDED_BY(mutex);  // start times of the jobs that this process set running
};

}  // namespace varifocal::db

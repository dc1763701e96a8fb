// Job states, times and recovery, and the models loaded by calls.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "db/rows.h"
#include "db/writer.h"
#include "db/writer_state.h"

namespace varifocal::db {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

namespace {

constexpr char kFindState[] = "SELECT state FROM jobs WHERE job_id = ?";
constexpr char kUpdateState[] =
    "UPDATE jobs SET state = ?, error = ?, start_us = coalesce(start_us, max(?, create_us)),"
    " end_us = max(?, coalesce(start_us, create_us)) WHERE job_id = ?";
constexpr char kRunBegin[] = "SELECT max(?, start_us) FROM jobs WHERE job_id = ?";
constexpr char kUnendedCount[] = "SELECT unended_count FROM job_starts WHERE job_id = ?";
constexpr char kCountStart[] =
    "INSERT INTO job_starts (job_id, unended_count) VALUES (?, 1)"
    " ON CONFLICT (job_id) DO UPDATE SET unended_count = unended_count + 1";
constexpr char kBeginStart[] =
    "INSERT INTO job_charges (job_id, waited_us, lived_us, charged_count) VALUES (?, ?, 0, 0)"
    " ON CONFLICT (job_id) DO UPDATE SET waited_us = excluded.waited_us, lived_us = 0";
constexpr char kNoteLived[] = "UPDATE job_charges SET lived_us = ? WHERE job_id = ?";
// The true time is up to twice the one that was written down.
constexpr char kChargeStarts[] =
    "UPDATE job_charges SET charged_count = charged_count + 1 WHERE 2 * lived_us < waited_us"
    " AND job_id IN (SELECT job_id FROM jobs WHERE state = 'running')";
constexpr char kFailAfterStarts[] =
    "UPDATE jobs SET state = 'failed', end_us = max(?, coalesce(start_us, create_us)), error = 'the daemon ended ' || ?"
    " || ' times soon after it had started this job and before an answer was recorded, and each time had run for longer"
    " without the job before; `varifocal resume jobs/' || job_id || '` starts it again'"
    " WHERE state = 'running' AND job_id IN (SELECT job_id FROM job_charges WHERE charged_count >= ?)";
constexpr char kWaitingJobs[] =
    "SELECT job_id, unended_count, coalesce(lived_us, 0) FROM job_starts LEFT JOIN job_charges USING (job_id)"
    " WHERE unended_count > 1 AND job_id IN (SELECT job_id FROM jobs WHERE state = 'queued') ORDER BY job_id";
constexpr char kForgetStartsOfEnded[] =
    "DELETE FROM job_starts WHERE job_id IN (SELECT job_id FROM jobs WHERE state IN ('failed', 'cancelled'))";
constexpr char kRequeueRunning[] = "UPDATE jobs SET state = 'queued' WHERE state = 'running'";
constexpr char kFinishCancelling[] =
    "UPDATE jobs SET state = 'cancelled', end_us = max(?, coalesce(start_us, create_us)) WHERE state = 'cancelling'";
constexpr char kNextQueued[] =
    "SELECT job_id FROM jobs WHERE state = 'queued' AND job_id NOT IN (SELECT value FROM json_each(?))"
    " ORDER BY job_id LIMIT 1";
constexpr int64_t kFirstDelayUs = 10'000'000;
constexpr int64_t kLongestDelayUs = 600'000'000;
constexpr int64_t kFirstNoteUs = 1'000'000;

constexpr char kAllowMixing[] = "INSERT OR IGNORE INTO mixed_jobs (job_id) VALUES (?)";
constexpr char kForbidMixing[] = "DELETE FROM mixed_jobs WHERE job_id = ?";
constexpr char kIsMixingAllowed[] = "SELECT count(*) FROM mixed_jobs WHERE job_id = ?";

constexpr char kRememberModel[] =
    "INSERT INTO called_models (name, directory, load_us) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET directory = excluded.directory, load_us = excluded.load_us";
constexpr char kForgetModel[] = "DELETE FROM called_models WHERE name = ?";
constexpr char kCalledModels[] = "SELECT name, directory FROM called_models ORDER BY name";

// The permitted state transitions.
bool IsAllowed(JobState from, JobState to) {
  switch (to) {
    case JobState::kRunning:
      return from == JobState::kQueued;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelling:
      return from == JobState::kRunning;
    case JobState::kCancelled:
      return from == JobState::kQueued || from == JobState::kRunning || from == JobState::kCancelling;
    case JobState::kQueued:
      return from == JobState::kRunning || IsSettled(from);
  }
  return false;
}

}  // namespace

// The wall clock may have been set since the run started.
int64_t WriterState::EndOfRun(int64_t job_id, int64_t now_us) {
  const auto run = runs.find(job_id);
  if (run == runs.end()) return now_us;
  const int64_t end_us = run->second.wall_us + clock.MonotonicMicros() - run->second.monotonic_us;
  runs.erase(run);
  return end_us;
}

absl::Status WriterState::Step(int64_t job_id, JobState state, const std::string& error) {
  {
    ASSIGN_OR_RETURN(Statement find, database->Prepare(kFindState));
    ASSIGN_OR_RETURN(bool is_known, find.BindAll(job_id).Step());
    if (!is_known) return NotFound("no job ", job_id);
    ASSIGN_OR_RETURN(JobState from, ParseJobState(find.Text(0)));
    if (!IsAllowed(from, state)) {
      return FailedPrecondition("job ", job_id, " is ", JobStateName(from), " and cannot become ", JobStateName(state));
    }
  }
  const int64_t now_us = clock.WallMicros();
  std::optional<std::string> kept_error;
  if (state == JobState::kFailed) kept_error = error;
  std::optional<int64_t> start_us, end_us;
  if (state == JobState::kRunning) start_us = now_us;
  if (IsSettled(state)) end_us = EndOfRun(job_id, now_us);
  RETURN_IF_ERROR(database->Run(kUpdateState, JobStateName(state), kept_error, start_us, end_us, job_id));
  if (state == JobState::kRunning) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> begin_us, database->QueryInt(kRunBegin, now_us, job_id));
    runs[job_id] = {begin_us.value_or(now_us), clock.MonotonicMicros()};
  }
  if (state != JobState::kRunning) return ForgetStartsOf(job_id);
  ASSIGN_OR_RETURN(const std::optional<int64_t> unended_count, database->QueryInt(kUnendedCount, job_id));
  const int64_t waited_us = std::min(UptimeMicros(), StartDelayUs(unended_count.value_or(0)));
  RETURN_IF_ERROR(database->Run(kCountStart, job_id));
  return database->Run(kBeginStart, job_id, waited_us);
}

absl::Status Writer::SetJobState(int64_t job_id, JobState state, const std::string& error) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->Step(job_id, state, error));
  return state_->Commit(transaction);
}

absl::Status Writer::ResumeJob(int64_t job_id, bool allow_mixed) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->Step(job_id, JobState::kQueued, ""));
  RETURN_IF_ERROR(state_->database->Run(allow_mixed ? kAllowMixing : kForbidMixing, job_id));
  return state_->Commit(transaction);
}

absl::StatusOr<bool> Writer::IsMixingAllowed(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(const std::optional<int64_t> count, state_->database->QueryInt(kIsMixingAllowed, job_id));
  return count.value_or(0) > 0;
}

absl::Status Writer::RememberModel(const CalledModel& model) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->database->Run(kRememberModel, model.name, model.directory, state_->clock.WallMicros()));
  return state_->Commit(transaction);
}

absl::Status Writer::ForgetModel(const std::string& name) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->database->Run(kForgetModel, name));
  return state_->Commit(transaction);
}

absl::StatusOr<std::vector<CalledModel>> Writer::CalledModels() {
  MutexLock hold(state_->mutex);
  return AllRows(*state_->database, kCalledModels, [](const Statement& row) {
    return CalledModel{row.Text(0), row.Text(1)};
  });
}

absl::StatusOr<std::vector<Writer::WaitingJob>> Writer::RecoverInterruptedJobs() {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(database.Run(kChargeStarts));
  RETURN_IF_ERROR(database.Run(kFailAfterStarts, state_->clock.WallMicros(), kChargedStartsMax, kChargedStartsMax));
  RETURN_IF_ERROR(database.Run(kRequeueRunning));
  RETURN_IF_ERROR(database.Run(kFinishCancelling, state_->clock.WallMicros()));
  RETURN_IF_ERROR(database.Run(kForgetStartsOfEnded));
  ASSIGN_OR_RETURN(std::vector<WaitingJob> waiting, AllRows(database, kWaitingJobs, [](const Statement& row) {
                     return WaitingJob{row.Int(0), row.Int(1), row.Int(2), StartDelayUs(row.Int(1))};
                   }));
  RETURN_IF_ERROR(state_->Commit(transaction));
  state_->delayed.clear();
  for (const WaitingJob& job : waiting) state_->delayed[job.job_id] = job.due_us;
  return waiting;
}

int64_t StartDelayUs(int64_t unended_count) {
  if (unended_count < 2) return 0;
  return std::min(kLongestDelayUs, kFirstDelayUs << std::min<int64_t>(unended_count - 2, 10));
}

int64_t Writer::UptimeMicros() const { return state_->UptimeMicros(); }

absl::Status WriterState::ForgetStartsOf(int64_t job_id) {
  RETURN_IF_ERROR(database->Run(kForgetStarts, job_id));
  delayed.erase(job_id);
  return absl::OkStatus();
}

absl::Status Writer::ForgetStarts(int64_t job_id) {
  MutexLock hold(state_->mutex);
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->ForgetStartsOf(job_id));
  return state_->Commit(transaction);
}

absl::Status Writer::NoteRunning(int64_t job_id) {
  MutexLock hold(state_->mutex);
  const auto run = state_->runs.find(job_id);
  if (run == state_->runs.end()) return absl::OkStatus();
  const int64_t lived_us = state_->clock.MonotonicMicros() - run->second.monotonic_us;
  if (lived_us < std::max(kFirstNoteUs, 2 * run->second.noted_us)) return absl::OkStatus();
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  RETURN_IF_ERROR(state_->database->Run(kNoteLived, lived_us, job_id));
  RETURN_IF_ERROR(state_->Commit(transaction));
  run->second.noted_us = lived_us;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> Writer::NextQueuedJob() {
  MutexLock hold(state_->mutex);
  std::vector<int64_t> delayed;
  for (const auto& [job_id, due_us] : state_->delayed) {
    if (due_us > UptimeMicros()) delayed.push_back(job_id);
  }
  return state_->database->QueryInt(kNextQueued, absl::StrCat("[", absl::StrJoin(delayed, ","), "]"));
}

}  // namespace varifocal::db

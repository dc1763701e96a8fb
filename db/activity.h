// What a running job is doing, from its rows: its newest answers and the work that is left. For views of a database that a daemon
// may be writing. The newest rows of the database are read until those of the job suffice.
//
// Errors:  those of opening a reader (db/reader.h). A job without answers, or without a row, has an empty activity.
// Threads: any; each call has its own connection and sees one snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal::db {

struct RecentAnswer {
  int64_t record_us = 0;
  int64_t context_length = 0;
  int64_t computed_token_count = 0;  // prompt tokens that were not reused, and new ones
};

struct JobActivity {
  // Answers and failures, the newest first: those of the ten minutes before the newest, but at least 32 and at most 4096.
  std::vector<RecentAnswer> recent;
  double remaining_weight = 0;  // samples x context length without an answer or a failure
};

absl::StatusOr<JobActivity> ReadActivity(const std::string& path, int64_t job_id);

// Speed over the recent answers, up to `now_us`: a job that stops answering slows down. None with less than two answers.
struct Pace {
  double answers_per_minute = 0;
  double computed_tokens_per_second = 0;
  std::optional<double> remaining_seconds;  // none when nothing is left
};

std::optional<Pace> PaceOf(const JobActivity& activity, int64_t now_us);

}  // namespace varifocal::db

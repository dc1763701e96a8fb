// Rows of questions, for jobs with several answers to each: what Reader::EachSampleRow and EachPair give of such a job.
//
// A question has one value, by db/epochs.h, of the answers that are recorded; a failed one counts as the metric's worst value,
// and its error is the question's. is_partial where epochs are not recorded yet; without a value where too few are.
//
// Threads: as the connection.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/epochs.h"
#include "db/reader.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// Answers to each question of the job, as its specification has it; 1 of an unknown job.
absl::StatusOr<int64_t> ReadEpochCount(sqlite::Database& database, int64_t job_id);
// The same; INVALID_ARGUMENT where the statistic needs more answers.
absl::StatusOr<int64_t> ReadEpochCount(sqlite::Database& database, int64_t job_id, const EpochStatistic& statistic);

absl::Status EachQuestionRow(sqlite::Database& database, int64_t job_id, const std::string& variant,
                             const JobEpochs& epochs, const std::function<absl::Status(SampleRow)>& use);
absl::Status EachQuestionPair(sqlite::Database& database, int64_t job_id, const std::string& baseline,
                              const std::string& candidate, const JobEpochs& epochs,
                              const std::function<absl::Status(PairRow)>& use);

}  // namespace varifocal::db

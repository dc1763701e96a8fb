// Removes a settled job with everything that belongs to it alone: questions, answers, scores. Models and executions stay.
//
// One transaction under the writer's lock, so a death at any time leaves the job whole or gone. The job's number is not
// used again. The file keeps its size; later jobs use the free pages. A daemon deletes with Writer::DeleteJob; while one
// has the database open, this function is refused.
//
// Errors:  those of db::Writer::Open (FAILED_PRECONDITION names the process that holds the database); NOT_FOUND no such
//          file or job. A job that is queued or running in a file that no process writes is deleted too.
// Cost:    reads and rewrites the job's pages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "db/writer.h"

namespace varifocal::db {

absl::StatusOr<DeletedJob> DeleteJob(const std::string& path, int64_t job_id, const Clock& clock = Clock::Real());

// For tests: tables whose rows belong to a job, in the order in which they are deleted.
std::vector<std::string> TablesOfJobs();

}  // namespace varifocal::db

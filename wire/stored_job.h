// The message of a job as a database has it, for the daemon and for verbs that read a file.
//
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "db/failures.h"
#include "db/job_rows.h"
#include "db/records.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal {

// Sets everything but the specification and what only a running job has (speed, time left: -1).
// `cells` and `failures` may be empty: a list of jobs has neither.
void ToProto(const db::JobRow& row, const std::vector<std::string>& variants, const std::vector<db::CellRow>& cells,
             const std::vector<db::FailureGroup>& failures, v1::Job* proto);

// Whether the job has ended; only `resume` changes its state.
bool IsSettled(v1::Job::State state);

}  // namespace varifocal

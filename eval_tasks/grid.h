// The grid of a job: variant x task x context length, and the order in which its samples are asked.
//
// Order: task, then length, then group, then variant, then question. So the questions of one context are adjacent for
// each variant (a prefix cache pays once), the context is made once for all variants, and every variant advances
// together: a job that is stopped half-way still compares.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/sample_sink.h"
#include "eval_tasks/task.h"

namespace varifocal {

struct GridCell {
  CellKey key;
  int variant_index = 0;  // in JobSpec::variants
  int task_index = 0;     // in JobSpec::suite.tasks
  int planned_count = 0;  // samples of this cell
};

// All questions of one context for one task and length, for every variant.
struct GridGroup {
  int task_index = 0;
  int context_length = 0;
  int first_index = 0;
  int count = 0;  // fewer than the task's group when a limit cuts it
};

struct Grid {
  std::vector<std::unique_ptr<Task>> tasks;  // in JobSpec::suite.tasks order
  std::vector<GridCell> cells;               // variant-major within task and length
  std::vector<GridGroup> groups;             // in running order
  std::vector<std::string> missing;          // one sentence for each task and length without a question

  int64_t SampleCount() const;  // over all cells
};

// `spec` has passed ValidateJobSpec. Reads users' files, so it can fail; INVALID_ARGUMENT when there is no question at
// all, or there are more than kJobCellCountMax cells or kJobSampleCountMax samples.
absl::StatusOr<Grid> MakeGrid(const JobSpec& spec);

// Writes into `spec` the digests of the users' files that the grid was made from, so that the stored job is refused
// when it resumes on other data.
void PinData(const Grid& grid, JobSpec& spec);

}  // namespace varifocal

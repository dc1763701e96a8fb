// The grid of a job: variant x task x context length, and the order of its samples.
//
// Order: task, then length, then group, then variant, then question. The runner asks them length by length, so that the
// shortest is answered first, and otherwise in this order: the questions of one context are adjacent for each variant
// (prefix reuse), the context is built once for all variants, and all variants advance at the same rate. A job that is
// stopped half-way still has comparable results.
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
  int planned_count = 0;  // samples of this cell: questions times epochs, the epochs of a question following each other
  int asked_count = 0;    // of these, in the job's shard; all of them without one
};

// All questions of one context for one task and length, for every variant.
struct GridGroup {
  int task_index = 0;
  int context_length = 0;
  int first_index = 0;  // among the cell's questions, which run through all data seeds
  int count = 0;        // questions; less than the task's group size when truncated by a limit
  int64_t seed = 0;
  int first_question = 0;  // among the task's questions of that seed

  // A question of the group, by its place in it.
  SampleRequest Request(int place = 0, bool locates_all = false) const {
    return {seed, context_length, first_question + place, locates_all};
  }
};

struct Grid {
  int epochs = 1;                            // answers to each question
  std::vector<std::unique_ptr<Task>> tasks;  // in JobSpec::suite.tasks order
  std::vector<GridCell> cells;               // variant-major within task and length
  std::vector<GridGroup> groups;             // of the job's shard
  std::vector<std::string> missing;          // one sentence for each task and length without questions
  std::vector<std::string> notes;            // Task::Note of the tasks that have one

  int64_t SampleCount() const;  // to be asked, over all cells
  // Of the whole context, in order, of the first epoch; may be more than the group asks. Their index is that in the cell.
  std::vector<absl::StatusOr<Sample>> MakeSamples(const GridGroup& group, const TokenCounter& tokenizer,
                                                  bool locates_all = false) const;
  Sample Identify(const GridGroup& group, int place) const;
  // The index in the cell of an epoch of the cell's question.
  int Index(int question, int epoch) const { return question * epochs + epoch; }
};

// Makes the sample of a question's first epoch that of another.
void SetEpoch(int epoch, Sample& sample);

// `spec` has passed ValidateJobSpec. Reads users' files, so it can fail; INVALID_ARGUMENT when there are no questions,
// or more than kJobCellCountMax cells or kJobSampleCountMax samples.
absl::StatusOr<Grid> MakeGrid(const JobSpec& spec);

// Writes into `spec` the digests of the users' files that the grid was built from, so that resuming the stored job on
// other data is an error.
void PinData(const Grid& grid, JobSpec& spec);

}  // namespace varifocal

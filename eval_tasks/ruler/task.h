// ruler: rows generated as NVIDIA/RULER's scripts generate them. ruler_rows: rows that those scripts wrote.
//
// The context length of a row is upstream's own count, of tokens without special ones and of the answer: a prompt may exceed
// it by a BOS. Rows of another tokenizer are other rows, as upstream's are.
//
// Errors: of ruler/inputs.h, generate.h and rows.h; OUT_OF_RANGE for a question that the data does not have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<Task>> MakeRulerTask(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeRulerRowsTask(const TaskSpec& spec);

// Of both kinds, by the parameter "task": upstream's scorer of it, then the other one.
std::vector<std::string> RulerMetrics(const std::map<std::string, std::string>& parameters);

}  // namespace varifocal

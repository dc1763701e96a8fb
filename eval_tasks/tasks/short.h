// short: multiple-choice and last-word questions from local files, by log-likelihood: ARC, BoolQ, HellaSwag, LAMBADA,
// PIQA, WinoGrande.
//
// Rows have the fields of the public releases or of their exports from the hub, one JSON object per line; answers may be
// in a separate labels file, as PIQA and WinoGrande publish them. Prompts, continuations and demonstrations are
// those of lm-evaluation-harness 0.4: a continuation is a space and the choice; with shots, demonstrations come from
// Random(1234), one draw per row in file order, from `shots_path` or, without it, from the rows of the same file.
//
// WinoGrande scores the same ending after two beginnings: a continuation is an option, which is given, and the ending,
// which is scored.
//
// Errors: INVALID_ARGUMENT with file, row and field; OUT_OF_RANGE for a row that does not fit.
// Source: lm-evaluation-harness 0.4.13, tasks arc_easy, boolq, hellaswag, lambada_openai, piqa, winogrande.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<Task>> MakeShortTask(const TaskSpec& spec);
std::vector<std::string> ShortTaskNames();
std::vector<std::string> ShortTaskMetrics(const std::map<std::string, std::string>& parameters);

}  // namespace varifocal

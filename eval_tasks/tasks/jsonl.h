// jsonl: a user's own rows, one JSON object a line (docs/formats.md).
//
// Rows with the same context are asked together, so that a prefix cache pays for it once; rows are numbered in that
// order, and keep their own ids. What a row asks does not depend on the seed. At a context length that a row does not
// fit, the row fails, unless the spec says which part of the context gives way; then all rows of one context get the
// same cut.
//
// Errors: INVALID_ARGUMENT with the file and the row's line number; NOT_FOUND for a file that cannot be opened;
//         OUT_OF_RANGE with both counts for a row that does not fit.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

// Reads spec.parameters["path"].
absl::StatusOr<std::unique_ptr<Task>> MakeJsonlTask(const TaskSpec& spec);
// The same from the file's bytes; `path` is for messages.
absl::StatusOr<std::unique_ptr<Task>> MakeJsonlTask(const TaskSpec& spec, absl::string_view path,
                                                    absl::string_view bytes);

}  // namespace varifocal

// jsonl: a user's own rows, one JSON object per line (docs/formats.md).
//
// Rows with the same context are grouped for prefix reuse; rows are numbered in that order, and keep their own ids. Rows
// do not depend on the seed. At a context length that a row does not fit, the row fails, unless the spec allows
// truncation: of the context, then all rows of one context are truncated equally; or of the prompt's middle
// (CutMiddle), each row alone.
//
// Errors: INVALID_ARGUMENT with the file and the row's line number; NOT_FOUND for a file that cannot be opened;
//         OUT_OF_RANGE with both counts for a row that does not fit.
#pragma once

#include <memory>

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

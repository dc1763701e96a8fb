// helmet: rows imported from HELMET, with upstream's prompts, truncation and measures (docs/helmet.md).
//
// Base models get user template, separator and system template; the rendered system template counts as the beginning of
// the answer. In a chat format the prompt is the user template only, after the index's system message if there is one
// and the model's format supports it. When prompt and answer do not fit, the excess number of tokens is removed from the
// end of the context, once, as upstream does it: measured on the context alone, so a prompt may be a few tokens above or
// below the limit.
//
// Errors: INVALID_ARGUMENT with the file for a bad index or row; FAILED_PRECONDITION when a file is not the imported
//         one; OUT_OF_RANGE when the excess is larger than the context.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<Task>> MakeHelmetTask(const TaskSpec& spec);

namespace helmet {

// The context without its last `cut` tokens: up to the start of the first of them, which for a special token is the
// start of the text; special tokens count, as in upstream. OUT_OF_RANGE when there are fewer tokens.
absl::StatusOr<std::string> WithoutLastTokens(absl::string_view context, int64_t cut, const TokenCounter& tokenizer);

}  // namespace helmet
}  // namespace varifocal

// helmet: rows imported from HELMET, asked with upstream's prompts, truncation and measures (docs/helmet.md).
//
// Base models get user template, separator and system template; the rendered system template counts as the beginning of
// the answer. In a chat format the prompt is the user template alone, after the index's system message if it has one and
// the model's format takes it. When prompt and answer do not fit, as many tokens
// of the context as are too many are cut from its end, once, as upstream does it: measured on the context alone, so a
// prompt may end a few tokens off the limit, on either side.
//
// Errors: INVALID_ARGUMENT with the file for a bad index or row; FAILED_PRECONDITION when a file is not the imported
//         one; OUT_OF_RANGE when more is too much than the context has.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<Task>> MakeHelmetTask(const TaskSpec& spec);

namespace helmet {

// The context without its last `cut` tokens: up to where the first of them begins, which for a special is the start of
// the text; specials count, as they do upstream. OUT_OF_RANGE when there are fewer tokens.
absl::StatusOr<std::string> WithoutLastTokens(absl::string_view context, int64_t cut, const TokenCounter& tokenizer);

}  // namespace helmet
}  // namespace varifocal

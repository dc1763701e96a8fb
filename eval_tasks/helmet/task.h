// helmet: rows imported from HELMET, asked with upstream's prompts, truncation and measures (docs/helmet.md).
//
// Base models get user template, separator and system template; the rendered system template counts as the beginning of
// the answer. In a chat format the prompt is the user template alone. When prompt and answer do not fit, as many tokens
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

// The context without its last `cut` tokens: up to where the first of them begins. OUT_OF_RANGE when it has fewer.
absl::StatusOr<std::string> WithoutLastTokens(absl::string_view context, int64_t cut, const TokenCounter& tokenizer);

// Bytes of `text` that `decoded`, the text of its first tokens, stands for. A character of which only the first bytes
// were decoded counts when `keep_partial`.
size_t DecodedBytes(absl::string_view text, absl::string_view decoded, bool keep_partial);

}  // namespace helmet
}  // namespace varifocal

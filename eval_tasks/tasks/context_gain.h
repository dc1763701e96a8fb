// context_gain: how much a longer context raises the log-likelihood of the tokens that follow it, in any text file.
//
// A window ends at a byte of the file and is the last context_length tokens before it, the tokenizer's first special
// tokens included. Its last `scored_tokens` are scored twice: after all others, and after the last `short_context` of
// them (special tokens included, too). Windows end where others do at every length, so their scored tokens are the same
// ones; those of two windows do not overlap.
//
// A window is encoded from kBytesPerToken x `longest` bytes before its end, whatever the length, so that a tokenizer
// that depends on the start of a text gives the same tokens at every length.
//
// Errors: INVALID_ARGUMENT for a file shorter than one window, a length that `longest` or the short context exclude, a
//         chat format; OUT_OF_RANGE for a window of fewer tokens than the length; of reading the file (base/files.h).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"

namespace varifocal {

inline constexpr size_t kBytesPerToken = 8;  // more than tokens of ordinary text have on average

// Reads spec.parameters["path"].
absl::StatusOr<std::unique_ptr<Task>> MakeContextGain(const TaskSpec& spec);
// The same from the file's bytes; `path` is for messages.
absl::StatusOr<std::unique_ptr<Task>> MakeContextGain(const TaskSpec& spec, absl::string_view path, std::string bytes);

}  // namespace varifocal

// A long prompt shortened for reading: its start, what surrounds the gold evidence, its end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "eval_tasks/task.h"

namespace varifocal {

inline constexpr size_t kExcerptBytesMax = 4096;

// At most kExcerptBytesMax bytes, cut between UTF-8 characters; each gap reads "[... N bytes ...]" on a line of its
// own. The whole prompt when it fits.
std::string MakeExcerpt(absl::string_view prompt, const std::vector<PromptSpan>& evidence);

}  // namespace varifocal

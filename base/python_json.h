// JSON files of Python's json module, which writes numbers that JSON has not as bare words.
//
// Threads: any.
#pragma once

#include "base/json.h"

namespace varifocal {

// As ParseJson, but a bare Infinity is {"__float__": "Infinity"}, as transformers 5 writes it. NaN is an error.
absl::StatusOr<Json> ParsePythonJson(absl::string_view text);

}  // namespace varifocal

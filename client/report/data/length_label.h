// Names of the lengths of db/stats/tested_lengths.h: "8K" where the prompts reach it, "7 to 8 prompt tokens" where no prompt
// does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

// Of a task's row, or with an empty task of a mean over tasks.
std::string LengthLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length);
// Likewise with every digit: "8,192".
std::string ExactLengthLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length);
// Likewise for an end of a range of lengths: "8K", "8 prompt tokens".
std::string LongestLabel(const stats::TestedLengths& tested, const std::string& task, int64_t length);

// A clause for each test whose prompts do not all reach its length, or that several lengths of the suite have.
std::vector<std::string> LengthNotes(const stats::TestedLengths& tested);

// All of them, for the caption of a table: " Prompts: .., .."; "" where there is none.
std::string LengthNote(const stats::TestedLengths& tested);

// The keys of a row: "context_length", "prompt_tokens_min", "prompt_tokens_max", "nominal_lengths".
void AddLength(const stats::TestedLengths& tested, const std::string& task, int64_t length, Json& row);

}  // namespace varifocal::report

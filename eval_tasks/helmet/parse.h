// HELMET's parsing of outputs: the answer after a prefix, a ranking of ids, an answer without citations.
//
// Each is the reference's regular expression, implemented exactly with Python's Unicode rules
// (eval_tasks/python/text.h).
//
// Source: HELMET, utils.py and eval_alce.py, commit 4526dfb.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::helmet {

// The rest of the line after the first `prefix` (case ignored), else the first line; stripped, and one more
// prefix at its start dropped.
std::string ParseOutput(absl::string_view output, absl::string_view prefix = "Answer:");

// Ids in the order of the longest chain "3 > 1 > 2", each with its score: the number of ids from it to the end, counted
// before duplicates are dropped. Without any number: the whole text, as one id.
std::vector<std::pair<std::string, int>> ParseRankings(absl::string_view output);

// The input of ALCE's scorer: runs of newlines as one space, without end-of-turn marks and citations.
std::string WithoutCitations(absl::string_view output);

}  // namespace varifocal::helmet

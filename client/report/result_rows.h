// The rows that programs read, of `compare` and `report` alike: one object a cell, a mean over tasks, or a contrast of
// two lengths. Every object has every key of ResultKeys(); what a kind of row does not have is null, and so is what
// cannot be inferred (docs/measuring.md, "Rows for programs").
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/answer_table.h"
#include "client/report/group_table.h"
#include "db/stats/compare.h"

namespace varifocal::report {

// What a comparison does not know of its two sides.
struct ResultContext {
  int64_t baseline_job = 0, candidate_job = 0;
  bool baseline_is_imported = false, candidate_is_imported = false;
  const AnswerTable* answers = nullptr;
  const GroupTable* groups = nullptr;
};

const std::vector<std::string>& ResultKeys();  // in the order of CSV columns

// The words a row is marked with: "secondary", "incomplete", "fragile", "extrapolated", "imported".
std::vector<std::string> RowLabels(const stats::Comparison& row, const ResultContext& context);
std::vector<std::string> RowLabels(const stats::SuiteComparison& row, const ResultContext& context);
std::vector<std::string> RowLabels(const stats::LengthContrast& row, const ResultContext& context);

Json ResultJson(const stats::Comparison& row, const ResultContext& context);
Json ResultJson(const stats::SuiteComparison& row, const ResultContext& context);
Json ResultJson(const stats::LengthContrast& row, const ResultContext& context);

// Why a row has no verdict or a weak one, or nothing: "2 of 5 tasks so far", "1 context: nothing can be inferred",
// "4 contexts: the sign-flip check cannot reach p below 0.125".
std::string DesignNote(const stats::Comparison& row);
std::string DesignNote(const stats::SuiteComparison& row);

// "better", "worse", "equivalent", "undecided" or, without a verdict, "no verdict".
std::string OutcomeLabel(const stats::Inference& row);

}  // namespace varifocal::report

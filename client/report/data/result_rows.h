// Machine-readable rows of `compare` and `report`: one object per cell, mean over tasks, contrast or slope over the
// lengths, or choice of a temperature.
// Every object has every key of ResultKeys(); values that do not apply or cannot be inferred are null
// (docs/result_rows.md).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/result_context.h"
#include "db/answer_kinds.h"
#include "db/stats/choice.h"
#include "db/stats/compare.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

const std::vector<std::string>& ResultKeys();  // in the order of CSV columns

// The labels that a row has: words of db/stats/labels.h.
std::vector<std::string> RowLabels(const stats::Comparison& row, const ResultContext& context);
std::vector<std::string> RowLabels(const stats::SuiteComparison& row, const ResultContext& context);
std::vector<std::string> RowLabels(const stats::LengthContrast& row, const ResultContext& context);

Json ResultJson(const stats::Comparison& row, const ResultContext& context);
Json ResultJson(const stats::SuiteComparison& row, const ResultContext& context);
Json ResultJson(const stats::LengthContrast& row, const ResultContext& context);
Json ResultJson(const stats::Choice& choice, const ResultContext& context);

// "-2.1 to +16.3, standard deviation 5.8": differences of the single data seeds; "" for fewer than two.
std::string SeedSpread(const std::vector<stats::SeedDifference>& seeds, double scale, int digits);

// The keys of a row that every inference sets; those that cannot be inferred stay as they are.
void AddInference(const stats::Inference& inferred, Json& row);

// Whether gold answers were scored beside the model's own.
bool HasGoldRows(const stats::ComparisonReport& report);

// Why a row has no verdict or a weak one, or "": "2 of 5 tasks so far", "1 context: nothing can be inferred",
// "4 contexts: the sign-flip check cannot reach p below 0.125".
std::string DesignNote(const stats::Comparison& row);
std::string DesignNote(const stats::SuiteComparison& row);

// In the place of an outcome that excluding them would change.
inline constexpr char kFailuresDecide[] = "failures decide";

// "better", "worse, by less than the margin", "equivalent", "undecided", "failures decide" or, without a verdict, "no
// verdict".
std::string OutcomeLabel(const stats::Inference& row);
// "2 better, 1 no verdict" of such labels; empty for none.
std::string OutcomeCounts(const std::vector<std::string>& labels);

}  // namespace varifocal::report

// The effective context length of each variant with its interval: a table of the page and of Markdown, rows of JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

// "4K", "at least 8K" where the score still reaches the threshold at the longest length tested, "below 1K".
std::string EffectiveLengthLabel(const stats::EffectiveLength& row, const stats::TestedLengths& tested);
// "2K to at least 8K"; empty without an interval.
std::string EffectiveLengthRange(const stats::EffectiveLength& row, const stats::TestedLengths& tested);

// Empty without a task that has two lengths.
std::string EffectiveLengthHtml(const ReportData& data);
std::string EffectiveLengthMarkdown(const ReportData& data);

// Rows of kind "effective_length", `task` null for the mean over tasks.
std::vector<Json> EffectiveLengthJson(const ReportData& data);

}  // namespace varifocal::report

// The comparison table: one row per candidate, task, metric and length, in four spellings.
//
// HTML, Markdown and LaTeX round for people; CSV has every column with doubles that read back exactly.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ComparisonTableHtml(const ReportData& data);
std::string ComparisonTableCsv(const ReportData& data);
std::string ComparisonTableMarkdown(const ReportData& data);
std::string ComparisonTableLatex(const ReportData& data);

// The mean over tasks per length, and whether differences grow with the length.
std::string SuiteTableHtml(const ReportData& data);
std::string ContrastTableHtml(const ReportData& data);

// "Holm over 4 primary tests"; how tests were adjusted, for captions.
std::string TestingNote(const ReportData& data);

}  // namespace varifocal::report

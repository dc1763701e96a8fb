// The comparison table: one row per candidate, task, metric and length, in five spellings.
//
// HTML, Markdown and LaTeX round for people; CSV and JSON have every column with doubles that read back exactly.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ComparisonTableHtml(const ReportData& data, bool of_primary_metrics);
std::string ComparisonTableCsv(const ReportData& data);
std::string ComparisonTableJson(const ReportData& data);
std::string ComparisonTableMarkdown(const ReportData& data);
std::string ComparisonTableLatex(const ReportData& data);

// The mean over tasks per length, and whether differences grow with the length.
std::string SuiteTableHtml(const ReportData& data);
std::string ContrastTableHtml(const ReportData& data);

// How tests were made and adjusted, for captions.
std::string TestingNote(const ReportData& data);

}  // namespace varifocal::report

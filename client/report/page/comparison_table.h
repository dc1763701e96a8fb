// The comparison tables: means over tasks, single cells and contrasts over the lengths, in five formats. HTML has a table of
// each (that of the contrasts is contrast_table.h); the others have all of them, CSV and JSON as rows of one list
// (client/report/result_rows.h).
//
// HTML, Markdown and LaTeX are rounded; CSV and JSON have every column with doubles that read back exactly.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string ComparisonTableHtml(const ReportData& data, bool of_primary_metrics);
std::string ComparisonTableCsv(const ReportData& data);
std::vector<Json> ComparisonTableJson(const ReportData& data);
std::string ComparisonTableMarkdown(const ReportData& data);
std::string ComparisonTableLatex(const ReportData& data);

// The mean over tasks per length.
// A row a length, a column a candidate that no sweep has; "" without any.
std::string LengthTableHtml(const ReportData& data);
std::string SuiteTableHtml(const ReportData& data, bool of_swept);  // of the sweep's candidates, or of the others

// How tests were computed and adjusted, for captions.
std::string TestingNote(const ReportData& data);

}  // namespace varifocal::report

// The scores of a report with one variant: a row per task, metric and length, in five formats.
//
// HTML, Markdown and LaTeX are rounded; CSV and JSON have every column with doubles that read back exactly.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string ScoreTableHtml(const ReportData& data);
std::string ScoreTableCsv(const ReportData& data);
std::vector<Json> ScoreTableJson(const ReportData& data);
std::string ScoreTableMarkdown(const ReportData& data);
std::string ScoreTableLatex(const ReportData& data);

}  // namespace varifocal::report

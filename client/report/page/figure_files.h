// The page's figures as files: an SVG that needs no style sheet, and the numbers it shows as CSV.
//
// The SVG has the page's light colours as values instead of CSS variables, which many SVG programs do not know.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/report_data.h"

namespace varifocal::report {

struct FigureFile {
  std::string name;  // "difference.svg", "score-recall_kv.csv"
  std::string bytes;
};

std::vector<FigureFile> FigureFiles(const ReportData& data);

}  // namespace varifocal::report

// What a report shows of attention: the section of the page, and rows for programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

// The strip of each inspected sample as an SVG file, by variant.
std::vector<std::pair<std::string, std::string>> AttentionStripFiles(const ReportData& data);
// The section of the page; empty where nothing was inspected.
std::string AttentionHtml(const ReportData& data);
// Rows of kind "attention": a variant and length over all heads ("layer" and "head" null), by layer, and its strongest head.
std::vector<Json> AttentionJson(const ReportData& data);

}  // namespace varifocal::report

// Heat maps of the score by depth of the evidence and context length, one per variant, as one plot.
#pragma once

#include <cstdint>
#include <string>

#include "client/report/charts/plot.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

// The maps over tasks as one drawing, with the classes of the page; no panels without any.
Plot DepthMapsPlot(const ReportData& data);

inline constexpr const char* kDepthQuarters[] = {"first quarter", "second", "third", "last quarter"};

// Whether a cell, of one task or of all, has fewer questions or tasks than others of its map.
bool IsDepthIncomplete(const ReportData& data, size_t variant, const std::string& task, int64_t length, int quarter);

}  // namespace varifocal::report

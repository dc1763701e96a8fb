// Figures of the attention to the evidence, and the numbers that they and the tables beside them show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/report/charts/figure.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

// Mass on the evidence by length, over all heads and of each variant's strongest head; none where nothing was inspected.
std::vector<Figure> AttentionFigures(const ReportData& data);

std::string MassPercent(const std::optional<double>& share);

std::optional<AttentionMasses> OfStrongest(const ReportData& data, const std::string& variant, int64_t length);

// Whether means at this length have other answers than those at the others.
bool IsAttentionIncomplete(const ReportData& data, const std::string& variant, int64_t length);

}  // namespace varifocal::report

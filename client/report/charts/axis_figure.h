// Figures of scores and losses against an axis other than the context length.
#pragma once

#include <vector>

#include "client/report/charts/figure.h"
#include "client/report/data/axis.h"

namespace varifocal::report {

// One for each main measure and length; a log-likelihood is drawn as a loss, its negative.
std::vector<Figure> AxisFigures(const AxisReport& report, const stats::ArmTable& table);

}  // namespace varifocal::report

// Holm's step-down adjustment: p values that may be read together at one level.
//
// Source: Holm 1979, Scandinavian Journal of Statistics 6, 65-70.
#pragma once

#include <vector>

namespace varifocal::stats {

// Adjusted p values in the order given; each at least its p value and at most 1.
std::vector<double> HolmAdjust(const std::vector<double>& p_values);

// What the adjustment multiplies each p value by, before 1 ends it: from the number of tests left at its rank to that of
// all. At the level divided by it the test finds what the adjusted p finds.
std::vector<double> HolmFactors(const std::vector<double>& p_values);

}  // namespace varifocal::stats

// The families of tests over the reports of several candidates (db/stats/family.h names them), each adjusted by Holm's method
// or, where the rows have contributions, by max-t.
#pragma once

#include <vector>

#include "db/stats/comparison.h"

namespace varifocal::stats {

// Calls AdjustForMultipleTests for each family over `reports`. `more` counts tests beyond those that the reports declare.
void AdjustTogether(const std::vector<ComparisonReport*>& reports, const DeclaredTests& more, double confidence);

}  // namespace varifocal::stats

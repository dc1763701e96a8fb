// The samples of the strips: of each variant that was inspected, the first question at the longest length.
#pragma once

#include "absl/status/status.h"
#include "client/report/data/report_data.h"
#include "db/reader.h"

namespace varifocal::report {

// The first inspected question of the longest length, one for each variant: the same question where it can be.
absl::Status ReadInspectedSamples(db::Reader& reader, ReportData& data);

}  // namespace varifocal::report

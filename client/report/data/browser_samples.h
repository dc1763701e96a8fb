// The questions of the sample browser: their selection, with the scores by depth and the work, which are counted while
// all answers are read.
//
// Questions are taken round-robin from every (task, length, outcome), so that rare outcomes are included; within a
// group by ascending sample index.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/report/data/report_data.h"
#include "db/reader.h"

namespace varifocal::report {

absl::Status CollectBrowserSamples(db::Reader& reader, int64_t sample_count_max, ReportData& data);

bool IsBest(const VariantAnswer& answer, const db::TaskMetricRecord* metric);

}  // namespace varifocal::report

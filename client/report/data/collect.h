// Everything that a report shows, read from the database.
#pragma once

#include "absl/status/statusor.h"
#include "client/report/data/report_data.h"
#include "client/report/data/report_options.h"
#include "db/reader.h"

namespace varifocal::report {

// ReadReportData, the candidates that a sweep shows, and for the page and JSON what needs every sample: those of its browser,
// the scores by depth, the work, and the inspected ones.
absl::StatusOr<ReportData> CollectReportData(db::Reader& reader, const ReportOptions& options);

}  // namespace varifocal::report

// The report as one HTML page: verdict, figures, tables, samples, provenance. Needs no network and no script to be
// read.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ReportPage(const ReportData& data);

// The section on where the numbers come from: models, executions, job, and the commands that make them again.
std::string ProvenanceHtml(const ReportData& data);

}  // namespace varifocal::report

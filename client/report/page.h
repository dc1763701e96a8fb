// The report as one HTML page: verdict, figures, tables, samples, provenance. Readable without network and scripts.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ReportPage(const ReportData& data);

// The provenance section: models, executions, job, and the commands that reproduce the results.
std::string ProvenanceHtml(const ReportData& data);

}  // namespace varifocal::report

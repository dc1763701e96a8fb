// The report as one HTML page: verdict, figures, tables, samples, provenance. Readable without network and scripts.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string ReportPage(const ReportData& data);

// The page's verdicts as rows of kind "verdict": a headline and further sentences.
std::vector<Json> VerdictJson(const ReportData& data);

// The provenance section: models, executions, job, and the commands that reproduce the results.
std::string ProvenanceHtml(const ReportData& data);
// Rows of kind "work": tokens and seconds of each variant's answers.
std::vector<Json> WorkJson(const ReportData& data);

}  // namespace varifocal::report

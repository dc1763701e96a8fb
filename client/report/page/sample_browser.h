// The sample browser of the page: plain HTML rows; the page's script only hides filtered ones.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string SampleBrowserHtml(const ReportData& data);

}  // namespace varifocal::report

// The sample browser of the page: selection and formatting of questions.
//
// Questions are taken round-robin from every (task, length, outcome), so that rare outcomes are included; within a
// group by ascending sample index. The rows are plain HTML; the page's script only hides filtered rows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

absl::Status CollectBrowserSamples(db::Reader& reader, int64_t sample_count_max, ReportData& data);

std::string SampleBrowserHtml(const ReportData& data);

}  // namespace varifocal::report

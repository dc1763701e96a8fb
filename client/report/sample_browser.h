// The sample browser of the page: selection and formatting of questions.
//
// Questions are taken round-robin from every (task, length, outcome), so that rare outcomes are included; within a
// group by ascending sample index. The rows are plain HTML; the page's script only hides filtered rows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/report/report_data.h"

namespace varifocal::report {

absl::Status CollectBrowserSamples(db::Reader& reader, int64_t sample_count_max, ReportData& data);

std::string SampleBrowserHtml(const ReportData& data);

// `text` escaped for HTML, at most about `bytes_max` bytes around the first place where a gold answer occurs as a word
// (around its middle when there is none), every such place marked.
std::string MarkGold(absl::string_view text, const std::vector<std::string>& gold, size_t bytes_max);

// A stored excerpt (start, "[... N bytes ...]", evidence, .., end), shortened further: the first words, the
// surroundings of the gold answer, the question at the end.
std::string ExcerptHtml(absl::string_view excerpt, const std::vector<std::string>& gold);

}  // namespace varifocal::report

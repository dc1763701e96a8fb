// The caveats of a job, above its results: a table of words and of what they say about the data. A new one is a row of
// caveats.cc. Counts of a kind of answers begin with its meaning (db/answer_kinds.h); labels of rows are
// db/stats/labels.h.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/report_data.h"

namespace varifocal::report {

struct Label {
  std::string name;         // "incomplete", "extrapolated", ...
  std::string explanation;  // one sentence
};

// Caveats of the results.
std::vector<Label> MakeLabels(const ReportData& data);

// The caveats on the origin of answers: imported ones, and variants of other jobs with the excluded samples.
std::vector<Label> SourceLabels(const ReportData& data);

}  // namespace varifocal::report

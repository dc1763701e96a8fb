// The summary of the page: the outcome per length with its uncertainty.
//
// One of four outcomes for each length, by the adjusted p of db/stats/family.h: better, worse, equivalent within the
// margin, or undecided with the smallest difference that would have been found. No verdict where tasks are unfinished.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/report_data.h"

namespace varifocal::report {

struct Verdict {
  std::string candidate;
  std::string tone;                  // "better", "worse", "mixed", "equivalent", "undecided" or "unknown"
  std::string headline;              // one sentence, plain text
  std::vector<std::string> details;  // further sentences: the other lengths, the tasks behind it
};

std::vector<Verdict> MakeVerdicts(const ReportData& data);

}  // namespace varifocal::report

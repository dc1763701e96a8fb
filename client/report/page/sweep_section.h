// The section of a sweep: its headline, the table of all values, and the values chosen on one half of the contexts.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/report_data.h"
#include "client/report/data/sweep.h"

namespace varifocal::report {

// "focal at 5 temperatures from 0.5 to 1.2, against baseline at 2 lengths: 1 better, 3 worse, 6 undecided."
std::string SweepHeadline(const Sweep& sweep, const ReportData& data);
// "focal at 5 temperatures from 0.5 to 1.2"
std::string SweepName(const Sweep& sweep);
std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);
// "Chosen on one half of the contexts and tested against baseline on the other half: t = 0.7 at 8K is better (..)."
std::string ChoiceSentence(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data);
std::string ChoiceTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);

}  // namespace varifocal::report

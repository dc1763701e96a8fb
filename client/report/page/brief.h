// The first screen in words: about ten for each candidate, with what they rest on.
//
// "Equivalent at 1K and 2K; beyond training worse at 4K, better at 8K", and below it "At 8K baseline answers 55 of 240 with
// nothing". The sentences with every number are those of verdict.h and sweep_section.h.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/answer_table.h"
#include "client/report/data/report_data.h"
#include "client/report/data/sweep.h"

namespace varifocal::report {

struct Brief {
  std::string text;  // begins with the outcome
  std::string note;  // what to know before believing it; may be empty
};

Brief MakeBrief(const CandidateComparison& comparison, const ReportData& data);
// Which value is best at which length, whether the other half confirms it, and which are worse.
Brief MakeSweepBrief(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data);

// "baseline and focal answer nothing right: 0 of 240 questions, 100 % cut ...", or everything; "" unless that is so
// of all these, which have one baseline. `candidates` names them where they are several.
std::string NothingToTell(const std::vector<const stats::ComparisonReport*>& reports, const AnswerTable& answers,
                          const db::EpochStatistic& statistic, const std::string& candidates = "");

// "40 contexts at each length" of the means over tasks, "20 to 40 contexts .."; "" without such means.
std::string ContextsText(const ReportData& data);

// The text as HTML, with a class for each word of an outcome.
std::string ColourOutcomes(const std::string& text);

}  // namespace varifocal::report

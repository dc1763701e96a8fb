// The sentences that stand first: does the candidate help, at which lengths, how sure.
//
// A length counts as a difference when its p value, adjusted by Holm's method over all primary tests of the report, is
// at most 0.05. "No difference found" is not "no difference": the interval says how large one could still be.
#pragma once

#include <string>
#include <vector>

#include "client/report/report_data.h"

namespace varifocal::report {

inline constexpr double kSignificance = 0.05;

struct Verdict {
  std::string candidate;
  std::string tone;                  // "better", "worse", "mixed", "none" or "unknown"
  std::string headline;              // one sentence, plain text
  std::vector<std::string> details;  // further sentences: the other lengths, the tasks behind it
};

std::vector<Verdict> MakeVerdicts(const ReportData& data);

struct Label {
  std::string name;         // "incomplete", "extrapolated", ...
  std::string explanation;  // one sentence
};

// What a reader must know before believing a number.
std::vector<Label> MakeLabels(const ReportData& data);

// Those of them that say whose answers these are: imported ones, and variants of other jobs with what was left out.
std::vector<Label> SourceLabels(const ReportData& data);

}  // namespace varifocal::report

// What every table of differences shows of a row's inference.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/report/data/answers_behind.h"
#include "db/stats/inference.h"

namespace varifocal::report {

// With more candidates than these, tables of single tasks are folded.
inline constexpr size_t kOpenCandidateCountMax = 4;

struct InferenceCells {
  std::string difference, range, p, p_sign_flip, p_adjusted, outcome, detectable, clusters;
  std::string untested;   // why there is no interval, where it is no fault of the design
  const char* tone = "";  // the class of the outcome's word
  bool is_decided = false;
};
InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals);

// "95 % interval +0.9 to +7.4, p = 0.002, adjusted for 8 tests": both are. "" where the note below has the reason for none.
std::string IntervalAndP(const stats::Inference& row, double scale, int decimals, double confidence);

// "not tested: both are equal in every context", "fewer than 3 contexts differ"; "" where the row has a spread of its own.
std::string UntestedNote(const stats::Inference& row);

// "about 40 contexts in place of 12 would find 14.8 points", of a row of shares that would not have found 15; else "".
std::string EnoughNote(const stats::Inference& row, double scale, int decimals, double confidence);

// "; it rests on empty answers (55 of 240 of baseline): over the 182 questions without them on either side
// +0.4 points (-9.4 to +10.3, p = 0.93 adjusted alike), undecided"; "" where the outcome is the same without them.
// `at` is empty, or names one of several lengths: "; at 8K it rests on ..".
std::string RestsNote(const stats::Inference& row, const std::vector<AnswerSides>& sides, double scale, int decimals,
                      const std::string& at = "");

// Difference with adjusted interval, p with sign flips, adjusted p, outcome with the detectable difference: the last four columns
// of every table, and their heads. Narrow screens leave out both p.
std::string InferenceHtml(const InferenceCells& cells);
std::string InferenceHeads(double confidence, const char* difference);

}  // namespace varifocal::report

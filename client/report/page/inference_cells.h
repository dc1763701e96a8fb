// What every table of differences shows of a row's inference.
#pragma once

#include <cstddef>
#include <string>

#include "db/stats/inference.h"

namespace varifocal::report {

// With more candidates than these, tables of single tasks are folded.
inline constexpr size_t kOpenCandidateCountMax = 4;

struct InferenceCells {
  std::string difference, range, p, p_sign_flip, p_adjusted, outcome, detectable, clusters;
  bool is_decided = false;
};
InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals);

// "95 % interval +0.9 to +7.4, p = 0.002 adjusted for 8 tests". Where the interval excludes zero and the adjusted p does
// not reach the level, both p are given: the interval is of this test alone.
std::string IntervalAndP(const stats::Inference& row, double scale, int decimals, double confidence);
// The p of such a sentence, without the number of tests: "p = 0.002", "p = 0.017 of this test alone, p = 0.086 adjusted".
std::string DecidingP(const stats::Inference& row, double confidence);

// Difference with interval, p with sign flips, adjusted p, outcome with the detectable difference: the last four columns
// of every table, and their heads. Narrow screens leave out both p.
std::string InferenceHtml(const InferenceCells& cells);
std::string InferenceHeads(double confidence, const char* difference);

}  // namespace varifocal::report

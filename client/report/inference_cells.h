// What every table of differences shows of a row's inference.
#pragma once

#include <string>

#include "db/stats/inference.h"

namespace varifocal::report {

struct InferenceCells {
  std::string difference, low, high, p, p_sign_flip, p_adjusted, outcome, detectable, clusters;
  bool is_decided = false;
};
InferenceCells MakeInferenceCells(const stats::Inference& row, double scale, int decimals);

// Difference, p, adjusted p, outcome: the last four columns of every table, and their heads.
std::string InferenceHtml(const InferenceCells& cells);
std::string InferenceHeads(double confidence, const char* difference);

}  // namespace varifocal::report

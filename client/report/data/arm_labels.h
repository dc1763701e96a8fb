// Comparisons of arms in words: labels of their rows, seeds, points and notes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/stats/arm_table.h"

namespace varifocal::report {

// "incomplete", "fragile", "one training run each", ...
std::vector<std::string> ArmLabels(const stats::ArmComparison& comparison, const stats::ArmRow& row);
inline constexpr char kOneRunEach[] = "one training run each: says nothing about other seeds";

// "3 seeds, paired", "3 and 5 seeds", "1 training run each"
std::string SeedsLabel(const stats::ArmComparison& comparison);
// What distinguishes the points of one arm, "65.5K tokens, 215K parameters"; "" with one point.
std::string PointLabel(const stats::ArmComparison& comparison, const std::vector<stats::ArmComparison>& all);
// What was left out, one sentence each.
std::vector<std::string> ArmNotes(const std::vector<stats::ArmComparison>& comparisons);

// "1, 2, 3"
std::string SeedList(const std::vector<int64_t>& seeds);
std::vector<int64_t> SeedsOf(const std::vector<stats::ArmRun>& runs);

}  // namespace varifocal::report

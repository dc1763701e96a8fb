// Axes other than the context length: scores and losses of arms against the number of training tokens, of parameters, the
// trained length, the temperature or the layer, with intervals over seeds, and equal-loss ratios.
//
// An axis is a row of Axes(). The points of a series are arms that differ in nothing but the axis.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "db/stats/arm_table.h"
#include "db/stats/equal_loss.h"

namespace varifocal::report {

// What else distinguishes points; a series has equal ones, except for its axis.
enum class Fact { kArm, kTemperature, kTokens, kParameters, kTrainedLength };
inline constexpr size_t kFactCount = 5;

struct Axis {
  const char* name;   // --axis=NAME
  const char* title;  // "training tokens"
  Fact fact;          // what it varies
  // None where a variant has no place on the axis.
  std::optional<double> (*value)(const db::VariantRecord& variant);
  bool has_ratio;  // factors of it have a meaning, and equal-loss ratios are computed
  bool is_linear;  // else logarithmic
  bool is_drawn;   // without being asked for
};
const std::vector<Axis>& Axes();
absl::StatusOr<const Axis*> FindAxis(absl::string_view name);  // INVALID_ARGUMENT lists them

struct AxisPoint {
  double x = 0;
  const stats::Arm* arm = nullptr;  // of the table
  stats::ArmMean mean;              // as the metric has it: of log-likelihoods, up is better
};

struct AxisSeries {
  std::string arm, label;         // the label distinguishes series of one arm
  std::vector<AxisPoint> points;  // by x
};

struct AxisCurves {
  stats::ArmMeasure measure;
  int64_t context_length = 0;
  std::vector<AxisSeries> series;
};

struct EqualLossRow {
  std::string baseline, candidate, candidate_arm;  // labels of the two series, and the arm of the second
  stats::ArmMeasure measure;
  int64_t context_length = 0;
  double x = 0;  // the candidate's
  bool is_paired = true;
  std::vector<int64_t> seeds;
  stats::EqualLossRatio ratio;
};

struct AxisReport {
  const Axis* axis = nullptr;
  std::vector<AxisCurves> curves;  // by measure, then by length
  std::vector<EqualLossRow> ratios;
};

// Empty curves where no arm has two places on the axis.
AxisReport MakeAxisReport(const stats::ArmTable& table, const Axis& axis, const std::string& baseline_arm,
                          double confidence);

// Drawn, and in the first table: means over tasks and log-likelihoods.
bool IsMainMeasure(const stats::ArmMeasure& measure, const stats::ArmTable& table);
bool IsLoss(const stats::ArmMeasure& measure);  // a log-likelihood: drawn as its negative

std::string MeasureLabel(const stats::ArmMeasure& measure);  // "mean over tasks", "recall_kv, gold/log_likelihood"
// "×1.43 (1.10 to 1.86)", "more than ×2.0 in 2 of 3 seeds; at least ×1.4 in each"
std::string RatioLabel(const stats::EqualLossRatio& ratio, bool is_paired);

}  // namespace varifocal::report

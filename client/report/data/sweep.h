// A sweep: variants of one checkpoint that differ only in one run-time setting (the temperature of the same layers, the
// factor of a scaled rotation, its base, a cap of scores, the logit of a sink).
//
// A checkpoint as it was trained is one of them, at the value it was trained with: t = 1 without focal attention, its own
// for constant focal attention; a factor of 1 of a rotation. One without a single such value is left out, as is one
// without a cap or a sink, whose values would be infinite.
//
// The best value at a length is chosen on one half of the contexts and tested on the other (db/stats/choice.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/report/data/report_data.h"
#include "db/stats/choice.h"
#include "eval_tasks/overrides.h"

namespace varifocal::report {

struct SweepPoint {
  double value = 0;
  size_t variant_index = 0;  // in ReportData::variants
  bool is_as_trained = false;
};

struct Sweep {
  std::string model;
  const OverrideInfo* setting = nullptr;
  std::vector<SweepPoint> points;  // by value
};

inline constexpr size_t kSweepPointCountMin = 3;

// The one run-time setting that makes a variant a point of a sweep.
struct SweptValue {
  const OverrideInfo* setting = nullptr;
  double value = 0;
};
std::optional<SweptValue> SweptValueOf(const db::VariantRecord& variant);

// Of every model and setting with at least kSweepPointCountMin values, in the order of the variants.
std::vector<Sweep> FindSweeps(const ReportData& data);
// The names of candidates that the sweeps hold and that were run at a value of their own.
std::set<std::string> SweptCandidates(const std::vector<Sweep>& sweeps, const ReportData& data);

// "temperature" where all sweeps are of temperatures, else "value".
std::string SweptNoun(const std::vector<Sweep>& sweeps);

// Fills in ReportData::choices.
absl::Status ChooseValues(db::Reader& reader, ReportData& data);

// None where there is no such comparison or length.
const CandidateComparison* ComparisonFor(const ReportData& data, const std::string& candidate);
const stats::SuiteComparison* SuiteRow(const ReportData& data, const std::string& candidate, int64_t length);
// The baseline's mean over tasks, as any comparison with it has it.
std::optional<double> BaselineMean(const ReportData& data, int64_t length);
// "baseline", "baseline, early layers".
std::string SweptModel(const Sweep& sweep);
// The same, unique among sweeps: "baseline, yarn".
std::string SweepLabel(const Sweep& sweep);
// "t" of any layers, else the setting's name.
std::string SymbolOf(const OverrideInfo& setting);
// The colour of sweeps[s] on the page: that of its model as it was trained, or if another sweep has it one that no variant has.
int SweepColor(const std::vector<Sweep>& sweeps, size_t s, const ReportData& data);
// Whether values lie on a linear axis, as logits do; others are positive, and on a logarithmic one.
bool HasLinearAxis(const OverrideInfo& setting);
// The title of the axis; settings of one axis are drawn together.
std::string AxisOf(const OverrideInfo& setting);
// The sweeps of each axis, in the order of the sweeps.
std::vector<std::vector<const Sweep*>> ByAxis(const std::vector<Sweep>& sweeps);
// The choice at this length among the points of the sweep, if any.
const stats::Choice* ChoiceAt(const std::vector<stats::Choice>& choices, int64_t length);
const SweepPoint* PointOf(const stats::Choice& choice, const Sweep& sweep, const ReportData& data);

}  // namespace varifocal::report

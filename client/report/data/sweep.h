// A sweep: variants of one checkpoint that differ only in one run-time setting (the temperature of the same layers, the
// factor of a scaled rotation, its base), as one figure per length and one table sorted by its value, instead of a headline for
// each.
//
// A checkpoint as it was trained is one of them, at the value it was trained with: t = 1 without focal attention, its own
// for constant focal attention; a factor of 1 of a rotation. One without a single such value is left out.
//
// The best value at a length is chosen on one half of the contexts and tested on the other (db/stats/choice.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/report/charts/figure.h"
#include "client/report/data/report_data.h"
#include "client/report/data/run_temperature.h"
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

// For each kind of value one for each length: the mean over tasks by value, a series a model. An interval is that of the
// difference to the baseline, drawn around the score; the baseline's own score is a line.
std::vector<Figure> SweepFigures(const std::vector<Sweep>& sweeps, const ReportData& data);
// For each kind of value one for each task: its score by value, a series a length; with several sweeps the longest length, a
// series a sweep.
std::vector<Figure> SweepTaskFigures(const std::vector<Sweep>& sweeps, const ReportData& data);
// "focal at 5 temperatures from 0.5 to 1.2, against baseline at 2 lengths: 1 better, 3 worse, 6 undecided."
std::string SweepHeadline(const Sweep& sweep, const ReportData& data);
std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);

// Fills in ReportData::choices.
absl::Status ChooseValues(db::Reader& reader, ReportData& data);
// "Chosen on one half of the contexts and tested against baseline on the other half: t = 0.7 at 8K is better (..)."
std::string ChoiceSentence(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data);
std::string ChoiceTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);

}  // namespace varifocal::report

// A temperature sweep: variants of one checkpoint that differ only in the run-time temperature of the same layers, as one
// figure per length and one table sorted by t, instead of a headline for each.
//
// A checkpoint as it was trained is one of them, at the temperature it was trained with: 1 without focal attention,
// its own for constant focal attention. One with learned or per-layer temperatures has no single t and is left out.
//
// The best temperature at a length is chosen on one half of the contexts and tested on the other (db/stats/choice.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/report/figure.h"
#include "client/report/report_data.h"
#include "client/report/run_temperature.h"

namespace varifocal::report {

struct SweepPoint {
  double temperature = 0;
  size_t variant_index = 0;  // in ReportData::variants
  bool is_as_trained = false;
};

struct Sweep {
  std::string model;
  std::string layers;              // "": all; else "layers without a window", "early layers", ..
  std::vector<SweepPoint> points;  // by temperature
};

inline constexpr size_t kSweepPointCountMin = 3;

// The one run-time temperature that makes a variant a point of a sweep.
struct SweptTemperature {
  std::string setting;  // "t", "full-t", "early-t", ..
  double temperature = 0;
};
std::optional<SweptTemperature> SweptTemperatureOf(const db::VariantRecord& variant);

// Of every model and setting with at least kSweepPointCountMin temperatures, in the order of the variants.
std::vector<Sweep> FindSweeps(const ReportData& data);
// The names of candidates that the sweeps hold and that were run at a temperature.
std::set<std::string> SweptCandidates(const std::vector<Sweep>& sweeps, const ReportData& data);

// One for each length: the mean over tasks by temperature, a series a model. An interval is that of the difference to
// the baseline, drawn around the score; the baseline's own score is a line.
std::vector<Figure> SweepFigures(const std::vector<Sweep>& sweeps, const ReportData& data);
// One for each task: its score by temperature, a series a length; with several sweeps the longest length, a series a sweep.
std::vector<Figure> SweepTaskFigures(const std::vector<Sweep>& sweeps, const ReportData& data);
// "focal at 5 temperatures from 0.5 to 1.2, against baseline at 2 lengths: 1 better, 3 worse, 6 undecided."
std::string SweepHeadline(const Sweep& sweep, const ReportData& data);
std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);

// Fills in ReportData::choices.
absl::Status ChooseTemperatures(db::Reader& reader, ReportData& data);
// "Chosen on one half of the contexts and tested against baseline on the other half: t = 0.7 at 8K is better (..)."
std::string ChoiceSentence(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data);
std::string ChoiceTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data);

}  // namespace varifocal::report

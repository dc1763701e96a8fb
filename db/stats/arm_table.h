// Arms of a job (db/stats/arms.h) compared with the seed as a level above the context.
//
// Two arms are compared at every point that both have: equal tokens and trained length, numbers of parameters within 5 %
// (a learned temperature adds a few). Seeds that both have are paired, since runs of one seed share initial weights and
// the order of the data; the others are left out then, and counted. With fewer than two seeds in common all are compared
// unpaired. A question counts when every run has a value for it.
//
// Errors:  those of db::Reader; NOT_FOUND for an arm that the job does not have, with those it has; FAILED_PRECONDITION
//          when the arms have no point in common; INVALID_ARGUMENT when a point is ambiguous; DATA_LOSS for a value that its
//          metric cannot have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/stats/arms.h"
#include "db/stats/compare.h"
#include "db/stats/design_effects.h"
#include "db/stats/replicates.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::stats {

// What is compared: a metric of a task, or a mean over tasks.
struct ArmMeasure {
  std::string task;    // "" for the mean over tasks
  std::string metric;  // "" for the primary metrics as shares of their spans
  bool is_primary = false;
  std::vector<db::TaskMetricRecord> parts;  // one for each task

  bool IsSuite() const { return metric.empty(); }
};

// Counts of a row's runs, all together.
struct ArmCounts {
  int64_t planned_count = 0;  // questions
  int64_t failed_count = 0;   // answers
  bool is_unfinished = false;
};

struct ArmRow : ReplicatedInference {
  ArmMeasure measure;
  int64_t context_length = 0;
  double baseline_mean = 0, candidate_mean = 0;
  ArmCounts counts;
};

struct ArmComparison {
  Arm baseline, candidate;  // the runs that are compared
  bool is_paired = false;
  std::vector<int64_t> left_out_seeds;  // of either arm, where seeds are paired
  std::vector<ArmRow> rows;             // by measure, then by length

  bool IsOverSeeds() const { return baseline.runs.size() > 1 && candidate.runs.size() > 1; }
};

// The mean of one arm, with an interval over seeds and contexts, or with one seed over contexts alone.
struct ArmMean : ReplicatedInference {  // `difference` is the mean
  ArmCounts counts;
};

class ArmTable {
 public:
  static absl::StatusOr<ArmTable> Read(db::Reader& reader, int64_t job_id);

  const Arms& arms() const { return arms_; }
  const std::vector<ArmMeasure>& measures() const { return measures_; }  // means over tasks first
  const std::vector<int64_t>& lengths() const { return lengths_; }
  const TestedLengths& tested() const { return tested_; }

  // All points in common, adjusted together with those of every other arm against this baseline: means over tasks, means of
  // other metrics over tasks, primary metrics and other metrics are a family each, by Holm's method.
  absl::StatusOr<std::vector<ArmComparison>> Compare(const std::string& baseline, const std::string& candidate,
                                                     const CompareOptions& options) const;

  // Of one of arms(); none where no question has a value in every run.
  std::optional<ArmMean> MeanOf(const Arm& arm, const ArmMeasure& measure, int64_t length, double confidence) const;
  // Of each run, over the questions that all of them have; empty where there are none.
  std::vector<double> RunMeans(const std::vector<ArmRun>& runs, const ArmMeasure& measure, int64_t length) const;

 private:
  struct Value {
    std::string cluster;
    std::optional<double> value;  // a failed one's is the worst
    bool is_failed = false;
    bool is_partial = false;
  };
  using Question = std::pair<int64_t, std::string>;             // sample index, question id
  using Place = std::tuple<std::string, std::string, int64_t>;  // task, metric, length
  using Values = std::map<Place, std::map<Question, Value>>;
  // Runs in order, with the values of the questions that all have.
  struct Selection {
    std::vector<ReplicatedTask> tasks;
    std::vector<size_t> parts;                             // of the measure, for each task
    std::vector<std::vector<std::vector<double>>> values;  // [run][task][question]
    ArmCounts counts;
  };

  // `answered_only`: without the questions on which a run failed.
  Selection Select(const std::vector<ArmRun>& runs, const ArmMeasure& measure, int64_t length,
                   bool answered_only = false) const;
  static std::vector<ReplicateGroup> GroupsOf(const Selection& selection, int64_t baseline_count, bool is_paired);
  // Over all lengths, of the differences between the first `baseline_count` runs and the others, or of the others' means.
  DesignEffects EffectsOf(const std::vector<ArmRun>& runs, int64_t baseline_count, bool is_paired) const;
  // By part of the measure; 1 for one without values.
  static std::vector<double> DesignEffectsAt(const DesignEffects& effects, const ArmMeasure& measure,
                                             const Selection& selection, int64_t length);
  // Of the first `baseline_count` runs and the others; `design_effects` by part of the measure.
  static ArmRow InferAt(Selection selection, const ArmMeasure& measure, int64_t baseline_count, bool is_paired,
                        const std::vector<double>& design_effects, const CompareOptions& options);
  ArmComparison CompareAt(const Arm& baseline, const Arm& candidate, const CompareOptions& options) const;
  absl::StatusOr<std::vector<ArmComparison>> ComparePoints(const std::string& baseline, const std::string& candidate,
                                                           const CompareOptions& options) const;

  Arms arms_;
  std::vector<ArmMeasure> measures_;
  TestedLengths tested_;
  std::vector<int64_t> lengths_;
  std::map<std::string, Values> values_;                                      // by variant
  std::map<std::string, DesignEffects> effects_;                              // of an arm's mean, by its runs
  std::map<std::tuple<std::string, std::string, int64_t>, int64_t> planned_;  // by variant, task and length
};

}  // namespace varifocal::stats

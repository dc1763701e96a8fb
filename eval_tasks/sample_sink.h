// A sample sink: stores results. Implemented over the database writer (server/jobs) and by fakes in tests.
//
// A record is one sample of one cell; a sink stores it as a whole, or not at all. Records that are given together are made
// durable together, which costs one fsync. A failed sample is a record with an error and no score: never dropped, never a
// silent zero.
//
// Threads: the runner calls from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "eval_tasks/generator.h"
#include "eval_tasks/task.h"

namespace varifocal {

// One point of the grid: variant x task x context length.
struct CellKey {
  std::string variant;  // canonical form, e.g. "baseline@t=0.7"
  std::string task;     // TaskSpec::name
  int context_length = 0;

  friend bool operator==(const CellKey&, const CellKey&) = default;
  friend auto operator<=>(const CellKey&, const CellKey&) = default;
};

struct MetricValue {
  std::string metric;
  double value = 0;
};

struct SampleResult {
  CellKey cell;
  std::shared_ptr<const Sample> sample;  // never null; identity only (empty prompt) when it could not be built
  absl::Status error;                    // not OK: the sample failed
  std::optional<Generation> generation;  // absent when the sample failed
  std::string answer;  // the input of the metrics: the text, truncated and stripped; or the chosen continuation
  std::vector<MetricValue> scores;  // in Sample::metrics order; empty when the sample failed
  int attempt_count = 0;            // number of requests to the generator
};

class SampleSink {
 public:
  virtual ~SampleSink() = default;
  // Whether the run must run this sample. Called more than once per sample, so it must be cheap.
  virtual absl::StatusOr<bool> IsPending(const CellKey& cell, int index) = 0;
  // Replaces earlier failed records of the same samples. An error stops the run; records before the one that has it may
  // have been stored.
  virtual absl::Status Record(absl::Span<const SampleResult> records) = 0;
};

}  // namespace varifocal

// Writes a benchmark as suites that `varifocal run` takes: one YAML file for each context length, the rows of its tasks as
// JSON lines (tasks of kind jsonl), and a manifest with the digests of upstream's files that were read.
//
// A dataset that cannot be imported is a problem in the result; all else is written.
//
// Errors: NOT_FOUND for the folder; INVALID_ARGUMENT for an unknown form; of writing. Problems of datasets are in the result.
// Cost:   a pass over each file, one row in memory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/benchmarks/benchmark.h"

namespace varifocal::benchmarks {

struct ImportedTask {
  std::string task;
  int context_length = 0;
  int row_count = 0;
};

struct ImportResult {
  std::vector<ImportedTask> tasks;
  std::vector<std::string> suites;    // paths
  std::vector<std::string> notes;     // what is unusual in the user's data
  std::vector<std::string> problems;  // datasets that are left out, a sentence each
};

absl::StatusOr<ImportResult> ImportBenchmark(const Benchmark& benchmark, ImportOptions options);

}  // namespace varifocal::benchmarks

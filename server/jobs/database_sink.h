// A SampleSink that writes to the results database.
//
// Errors:  those of db::Writer; the first one stops the run.
// Threads: one, the runner's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/records.h"
#include "db/writer.h"
#include "eval_tasks/sample_sink.h"

namespace varifocal {

class DatabaseSink : public SampleSink {
 public:
  struct Options {
    int64_t job_id = 0;
    bool keep_prompts = false;
    std::map<std::string, int64_t> execution_ids;  // by variant: the execution that computes its answers
    // The execution of an answer that other daemons computed; needed where generations name workers.
    std::function<absl::StatusOr<int64_t>(const std::string& variant, const std::set<std::string>& workers)>
        execution_of_workers;
    // Called when a sample could not be written because the database is blocked, with the number of attempts so far;
    // may block. True: retry. Unset: the error ends the run.
    std::function<bool(const absl::Status& error, int attempt_count)> wait_to_retry;
    // Called with each sample after it was written; optional.
    std::function<void(const SampleResult&)> on_recorded;
  };

  // Reads which samples have no answer (db/resume.h).
  static absl::StatusOr<std::unique_ptr<DatabaseSink>> Create(db::Writer* writer, Options options);

  absl::StatusOr<bool> IsPending(const CellKey& cell, int index) override;
  absl::Status Record(absl::Span<const SampleResult> records) override;

 private:
  struct Cell {
    int64_t cell_id = 0;
    std::vector<bool> is_pending;  // by sample index; one bit each, as a job may have two million samples
  };
  DatabaseSink(db::Writer* writer, Options options) : writer_(writer), options_(std::move(options)) {}
  absl::StatusOr<db::Outcome> OutcomeOf(const SampleResult& record) const;
  absl::Status Write(absl::Span<const db::Outcome> outcomes);
  void Recorded(const SampleResult& record, const db::Outcome& outcome);

  db::Writer* const writer_;
  const Options options_;
  std::map<CellKey, Cell> cells_;
};

// One record as the database stores it.
db::Outcome ToOutcome(const SampleResult& record, int64_t cell_id, int64_t execution_id, bool keep_prompts);

}  // namespace varifocal

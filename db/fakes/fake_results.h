// Synthetic jobs and outcomes for tests: every value is a function of its indices, so two runs write the same content.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/records.h"
#include "db/writer.h"

namespace varifocal::db {

struct FakeJobOptions {
  std::vector<std::string> variants = {"baseline", "focal"};
  std::vector<std::string> tasks = {"recall"};  // each with metrics exact_match (binary) and token_f1
  std::string metric = "exact_match";           // instead of the first
  std::vector<int64_t> lengths = {1024};
  int64_t planned_count = 48;
  std::vector<std::string> tokenizers = {"t"};  // of the variants, in order; the last one applies to the rest
  std::string function_json = R"({"ropes":"default theta=10000"})";
};

NewJob FakeJob(const FakeJobOptions& options = {});
ExecutionRecord FakeExecution();

// Clusters are groups of four. exact_match is 0 or 1, token_f1 a fraction.
Outcome FakeOutcome(const CellRow& cell, const NewJob& job, int64_t execution_id, int64_t sample_index);
Outcome FakeFailure(const CellRow& cell, const NewJob& job, int64_t execution_id, int64_t sample_index);
void Fail(Outcome& outcome);  // as FakeFailure

// Adds a job with the FakeOutcome of every planned sample; `change` may modify one, or leave it out by returning false.
// Returns the job's id.
using ChangeOutcome = std::function<bool(const CellRow& cell, int64_t sample_index, Outcome& outcome)>;
int64_t AddFakeJob(
    Writer& writer, const NewJob& job,
    const ChangeOutcome& change = [](const CellRow&, int64_t, Outcome&) { return true; });

}  // namespace varifocal::db

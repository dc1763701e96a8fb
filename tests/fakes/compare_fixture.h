// For tests of comparisons: a job with hand-made scores in a database of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/writer.h"
#include "tests/support/process.h"

namespace varifocal::stats {

class CompareTest : public ::testing::Test {
 protected:
  // One sample per cell and index; `score` gives exact_match, token_f1 is half of it, nothing is a failure.
  using Score = std::function<std::optional<double>(const db::CellRecord&, int64_t)>;
  void Write(const db::NewJob& job, const Score& score, int64_t recorded_count = 1'000'000) {
    job_id_ = db::AddFakeJob(**db::Writer::Open(path_), job, [&](const auto& row, int64_t i, db::Outcome& outcome) {
      const std::optional<double> value = score(row.cell, i);
      if (!value.has_value()) db::Fail(outcome);
      if (value.has_value()) outcome.scores = {{"exact_match", *value}, {"token_f1", *value / 2}};
      return i < recorded_count;
    });
    reader_ = *db::Reader::Open(path_);
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  std::unique_ptr<db::Reader> reader_;
  int64_t job_id_ = 0;
};

}  // namespace varifocal::stats

// For tests of the reader: a small job written with known scores, whose writer stays open.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/writer.h"
#include "tests/support/process.h"

namespace varifocal::db {

class ReaderTest : public ::testing::Test {
 protected:
  void Open(const std::string& name, const NewJob& job) {
    job_ = job;
    path_ = directory_.File(name);
    writer_.reset();
    writer_ = *Writer::Open(path_);
    execution_id_ = *writer_->AddExecution(FakeExecution());
    job_id_ = writer_->AddJob(job)->job_id;
    cells_ = *writer_->Cells(job_id_);
  }
  // exact_match as given, token_f1 half of it; nothing for a failure.
  void Record(size_t cell, int64_t index, std::optional<double> score) {
    Outcome outcome = score.has_value() ? FakeOutcome(cells_[cell], job_, execution_id_, index)
                                        : FakeFailure(cells_[cell], job_, execution_id_, index);
    if (score.has_value()) outcome.scores = {{"exact_match", *score}, {"token_f1", *score / 2}};
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_;
  NewJob job_;
  std::unique_ptr<Writer> writer_;
  int64_t execution_id_ = 0, job_id_ = 0;
  std::vector<CellRow> cells_;
};

}  // namespace varifocal::db

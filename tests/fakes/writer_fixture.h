// A writer of a new database with one execution, under a fake clock.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/writer.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::db {

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Writer::Open(path_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    writer_ = *std::move(opened);
    execution_id_ = *writer_->AddExecution(FakeExecution());
  }
  int64_t Add(const NewJob& job) {
    auto added = writer_->AddJob(job);
    EXPECT_TRUE(added.ok()) << added.status();
    return added->job_id;
  }
  std::unique_ptr<Reader> Read() {
    auto reader = Reader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  FakeClock clock_;
  std::unique_ptr<Writer> writer_;
  int64_t execution_id_ = 0;
};

}  // namespace varifocal::db

// A JobManager on a database of its own, with models of a fake engine, in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/log.h"
#include "server/jobs/job_manager.h"
#include "tests/fakes/fake_engine.h"
#include "tests/fakes/wait_for_job.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/process.h"

namespace varifocal {

class JobManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    ASSERT_TRUE(host_.Load("a", "fake").ok());
    ASSERT_TRUE(host_.Load("learned", "fake-learned").ok());
    ASSERT_TRUE(host_.Load("bare", "fake-bare").ok());
    Open();
  }

  void Open() {
    options_.database_path = directory_.File("results.db");
    options_.in_flight = 4;
    ASSIGN_OR_FAIL(manager_, JobManager::Create(&host_, options_));
    manager_->LoadCalledModels();
    manager_->Start();
  }

  // 2 variants x 1 task x 2 lengths x 8 samples = 32 samples.
  static JobSpec SmallSpec() {
    JobSpec spec;
    spec.suite.name = "small";
    spec.suite.lengths = {256, 512};
    spec.suite.samples = 8;
    spec.suite.tasks = {{.kind = "recall_kv"}};
    spec.variants = {{"a"}, {"a", {{"t", {0.5}}}}};
    spec.in_flight = 0;
    return spec;
  }

  JobView WaitUntil(int64_t job_id, const std::function<bool(const JobView&)>& condition) {
    return WaitForJob(*manager_, job_id, condition);
  }
  JobView WaitForState(int64_t job_id, db::JobState state) {
    return WaitUntil(job_id, [&](const JobView& view) { return view.row.state == state; });
  }
  // A job whose engine answers so many requests and holds the others.
  int64_t SubmitHeldAfter(int answer_count, const JobSpec& spec = SmallSpec()) {
    control_->HoldAfter(answer_count);
    const int64_t job_id = Submit(spec);
    WaitUntil(job_id, [&](const JobView& view) { return view.row.answered_count >= answer_count; });
    return job_id;
  }
  int64_t Submit(const JobSpec& spec) {
    auto view = manager_->Submit(spec, {});
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? view->row.job_id : 0;
  }

  testing_support::TemporaryDirectory directory_;
  std::shared_ptr<FakeEngineControl> control_ = std::make_shared<FakeEngineControl>();
  ModelHost host_{MakeFakeModelFactory(control_)};
  JobManagerOptions options_;
  std::unique_ptr<JobManager> manager_;
};

}  // namespace varifocal

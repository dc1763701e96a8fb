// The sink over a real database: records that arrive together are all stored or, when one cannot be, those before it; an answer
// of other daemons has their execution.
#include "server/jobs/database_sink.h"

#include <gmock/gmock.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;

class DatabaseSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    const db::NewJob job = db::FakeJob({.variants = {"baseline"}, .planned_count = 8});
    options_.job_id = writer_->AddJob(job)->job_id;
    options_.execution_ids["baseline"] = *writer_->AddExecution(db::FakeExecution());
    tokenizer_ = job.variants[0].model.tokenizer_sha256;
  }
  SampleResult Answer(int index, int32_t token = 1) const {
    auto sample = std::make_shared<Sample>();
    sample->task = "recall";
    sample->context_length = 1024;
    sample->index = index;
    sample->question_id = absl::StrCat("q", index);
    sample->cluster = "c";
    sample->tokenizer_sha256 = tokenizer_;
    sample->prompt = "a prompt";
    sample->token_ids = {token, index};
    sample->gold = {"amber"};
    SampleResult result;
    result.cell = {"baseline", "recall", 1024};
    result.sample = sample;
    result.generation = Generation{.text = "amber", .finish_reason = FinishReason::kStop};
    result.scores = {{"exact_match", 1}, {"token_f1", 1}};
    return result;
  }
  std::unique_ptr<DatabaseSink> Make() {
    options_.on_recorded = [this](const SampleResult& record) { recorded_.push_back(record.sample->index); };
    return *DatabaseSink::Create(writer_.get(), options_);
  }
  std::unique_ptr<db::Reader> Read() { return *db::Reader::Open(path_); }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("r.db");
  std::unique_ptr<db::Writer> writer_ = *db::Writer::Open(path_);
  DatabaseSink::Options options_;
  std::string tokenizer_;
  std::vector<int> recorded_;
};

TEST_F(DatabaseSinkTest, StoresWhatComesBeforeARecordThatIsRefused) {
  const auto sink = Make();
  ASSERT_TRUE(sink->Record({Answer(0), Answer(1)}).ok());
  // Another prompt than before under the same index: the second half of the batch is not stored.
  std::vector<SampleResult> batch = {Answer(2), Answer(3), Answer(1, /*token=*/7), Answer(4)};
  EXPECT_EQ(sink->Record(batch).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(recorded_, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Read()->Job(1)->answered_count, 4);
  EXPECT_FALSE(*sink->IsPending(batch[1].cell, 3));
  EXPECT_TRUE(*sink->IsPending(batch[3].cell, 4));
}

TEST_F(DatabaseSinkTest, AnAnswerOfWorkersHasTheirExecution) {
  int asked_count = 0;
  options_.execution_of_workers = [&](const std::string& variant, const std::set<std::string>& workers) {
    EXPECT_EQ(variant, "baseline");
    ++asked_count;
    db::ExecutionRecord execution = db::FakeExecution();
    execution.device = absl::StrJoin(workers, "+");
    return writer_->AddExecution(execution);
  };
  const auto sink = Make();
  SampleResult remote = Answer(1);
  remote.generation->workers = {"b:1", "a:1"};
  ASSERT_TRUE(sink->Record({Answer(0), remote}).ok());
  EXPECT_EQ(asked_count, 1);
  const std::vector<db::ExecutionRow> executions = *Read()->Executions(1);
  ASSERT_EQ(executions.size(), 2u);
  EXPECT_EQ(executions[0].execution.device, "a processor");
  EXPECT_EQ(executions[1].execution.device, "a:1+b:1");
  EXPECT_EQ(executions[1].generation_count, 1);
}

}  // namespace
}  // namespace varifocal

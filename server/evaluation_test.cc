// The Evaluation service through a client: codes and reasons (table-driven), watching, cancelling, paging, idempotency.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "db/reader.h"
#include "server/rpc/limits.h"
#include "tests/fakes/server_fixture.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class EvaluationTest : public ServerTest {};

TEST_F(EvaluationTest, SubmitWatchAndGet) {
  control_->SetDelayMs(30);
  const v1::Job submitted = Submitted(SmallJob());
  EXPECT_EQ(submitted.variants_size(), 2);
  EXPECT_EQ(submitted.spec().suite().tasks(0).metrics(0), "exact_match") << "the spec comes back complete";

  const auto watch = Named<v1::WatchJobRequest>(submitted.name());
  grpc::ClientContext context;
  const auto reader = evaluation_->WatchJob(&context, watch);
  std::vector<v1::WatchJobResponse> messages;
  for (v1::WatchJobResponse message; reader->Read(&message);) messages.push_back(message);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_GE(messages.size(), 2u);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].sequence_number(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(messages[i].job().progress().cells_size(), 2);
    const int64_t before = i > 0 ? messages[i - 1].job().progress().done_count() : 0;
    EXPECT_GE(messages[i].job().progress().done_count(), before);
    EXPECT_EQ(messages[i].job().state() == v1::Job::SUCCEEDED, i + 1 == messages.size());
  }
  EXPECT_EQ(messages.back().job().progress().done_count(), 16);

  const v1::Job job = GetJob(submitted.name());
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(job.has_end_time());
  // Watching a finished job returns one message.
  grpc::ClientContext context2;
  const auto again = evaluation_->WatchJob(&context2, watch);
  v1::WatchJobResponse message;
  EXPECT_TRUE(again->Read(&message));
  EXPECT_FALSE(again->Read(&message));
  EXPECT_TRUE(again->Finish().ok());
}

class ImportScoresTest : public EvaluationTest {
 protected:
  // A job of two variants with eight answers each, and the hash of one prompt.
  void SetUp() override {
    EvaluationTest::SetUp();
    Submitted(SmallJob());
    while (GetJob("jobs/1").state() != v1::Job::SUCCEEDED) std::this_thread::sleep_for(milliseconds(5));
    const auto reader = *db::Reader::Open(options_.database_path);
    digest_ = *reader->Samples({.job_id = 1})->front().sample.token_ids_sha256;
  }
  v1::ImportScoresRequest Request() const {
    v1::ImportScoresRequest request;
    request.set_job("jobs/1");
    request.set_source("scores.jsonl");
    request.set_source_sha256(std::string(64, 'a'));
    v1::Judgment* judgment = request.add_judgments();
    judgment->set_token_ids_sha256(digest_);
    judgment->set_variant("a");
    (*judgment->mutable_scores())["mine"] = 0.25;
    return request;
  }
  grpc::Status Import(const v1::ImportScoresRequest& request, v1::ImportScoresResponse* response = nullptr) {
    v1::ImportScoresResponse unused;
    return Ask(*evaluation_, &v1::Evaluation::Stub::ImportScores, request, response == nullptr ? &unused : response);
  }

  std::string digest_;
};

TEST_F(ImportScoresTest, ScoresAreStoredWhileAJobRuns) {
  control_->Hold();
  v1::SubmitJobRequest other = SmallJob();
  other.mutable_spec()->mutable_suite()->set_seed(9);
  Submitted(other);
  control_->WaitUntilStarted();
  v1::ImportScoresRequest request = Request();
  v1::Judgment* unknown = request.add_judgments();
  *unknown = request.judgments(0);
  unknown->set_token_ids_sha256(std::string(64, '0'));
  v1::ImportScoresResponse response;
  const grpc::Status status = Import(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.job(), "jobs/1");
  EXPECT_EQ(response.value_count(), 1);
  EXPECT_EQ(response.unknown_count(), 1);
  ASSERT_EQ(response.metrics_size(), 1);
  EXPECT_EQ(response.metrics(0), "imported/mine");
  // A second value of the same answer replaces the first.
  request.mutable_judgments(0)->mutable_scores()->at("mine") = 1;
  ASSERT_TRUE(Import(request).ok());
  const auto reader = *db::Reader::Open(options_.database_path);
  const std::vector<db::ScoreRecord> scores =
      reader->Samples({.job_id = 1, .variant = "a", .sample_index = 0})->front().scores;
  EXPECT_EQ(scores.back().metric, "imported/mine");
  EXPECT_EQ(scores.back().value, 1);
  EXPECT_EQ(reader->ScoreImports(1)->size(), 2u);
  control_->Release();
}

TEST_F(ImportScoresTest, WithoutAJobItIsTheNewest) {
  v1::ImportScoresRequest request = Request();
  request.clear_job();
  v1::ImportScoresResponse response;
  ASSERT_TRUE(Import(request, &response).ok());
  EXPECT_EQ(response.job(), "jobs/1");
}

TEST_F(ImportScoresTest, RefusalsNameTheJudgmentAndStoreNothing) {
  struct Case {
    const char* name;
    std::function<void(v1::ImportScoresRequest&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"no such job", [](auto& r) { r.set_job("jobs/7"); }, "JOB_NOT_FOUND"},
      {"no job's name", [](auto& r) { r.set_job("7"); }, "BAD_RESOURCE_NAME"},
      {"no source", [](auto& r) { r.clear_source(); }, "BAD_SCORES"},
      {"a long source", [](auto& r) { r.set_source(std::string(kImportSourceBytesMax + 1, 'x')); }, "BAD_SCORES"},
      {"a long id", [](auto& r) { r.set_import_id(std::string(kImportIdBytesMax + 1, 'x')); }, "BAD_SCORES"},
      {"no hash of the source", [](auto& r) { r.set_source_sha256("a"); }, "BAD_SCORES"},
      {"no judgments", [](auto& r) { r.clear_judgments(); }, "BAD_SCORES"},
      {"no scores", [](auto& r) { r.mutable_judgments(0)->clear_scores(); }, "BAD_SCORES"},
      {"no hash", [](auto& r) { r.mutable_judgments(0)->set_token_ids_sha256("A"); }, "BAD_SCORES"},
      {"no variant", [](auto& r) { r.mutable_judgments(0)->clear_variant(); }, "BAD_SCORES"},
      {"another variant", [](auto& r) { r.mutable_judgments(0)->set_variant("c"); }, "BAD_SCORES"},
      {"a name", [](auto& r) { (*r.mutable_judgments(0)->mutable_scores())["a b"] = 1; }, "BAD_SCORES"},
      {"above 1", [](auto& r) { (*r.mutable_judgments(0)->mutable_scores())["mine"] = 1.5; }, "BAD_SCORES"},
      {"not a number",
       [](auto& r) { (*r.mutable_judgments(0)->mutable_scores())["mine"] = std::numeric_limits<double>::quiet_NaN(); },
       "BAD_SCORES"},
      {"two values",
       [](auto& r) {
         *r.add_judgments() = r.judgments(0);
         (*r.mutable_judgments(1)->mutable_scores())["mine"] = 1;
       },
       "BAD_SCORES"},
      {"another task", [](auto& r) { r.mutable_judgments(0)->set_task("other"); }, "NOT_FOUND"},
      {"another length", [](auto& r) { r.mutable_judgments(0)->set_context_length(512); }, "NOT_FOUND"},
  };
  for (const Case& c : cases) {
    v1::ImportScoresRequest request = Request();
    c.spoil(request);
    const grpc::Status status = Import(request);
    EXPECT_EQ(ReasonIn(status), c.reason) << c.name << ": " << status.error_message();
  }
  EXPECT_EQ((*db::Reader::Open(options_.database_path))->ScoreImports(1)->size(), 0u);
}

// At the limits, and one above.
TEST_F(ImportScoresTest, NumbersOfScoresAndNames) {
  v1::ImportScoresRequest names = Request();
  for (int i = 1; i < kImportedNamesMax; ++i)
    (*names.mutable_judgments(0)->mutable_scores())[absl::StrCat("s", i)] = 0.5;
  EXPECT_TRUE(Import(names).ok());
  (*names.mutable_judgments(0)->mutable_scores())["one_more"] = 0.5;
  EXPECT_EQ(ReasonIn(Import(names)), "BAD_SCORES");

  v1::ImportScoresRequest scores = Request();
  const v1::Judgment first = scores.judgments(0);
  while (scores.judgments_size() < kImportedScoresMax) *scores.add_judgments() = first;
  v1::ImportScoresResponse response;
  EXPECT_TRUE(Import(scores, &response).ok());
  EXPECT_EQ(response.value_count(), 1) << "the same answer each time";
  *scores.add_judgments() = first;
  EXPECT_EQ(ReasonIn(Import(scores)), "BAD_SCORES");
}

TEST_F(EvaluationTest, WatchersThatLeaveOrStallHurtNobody) {
  control_->SetDelayMs(10);
  const v1::Job submitted = Submitted(SmallJob());
  const auto watch = Named<v1::WatchJobRequest>(submitted.name());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>> stalled;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    stalled.push_back(evaluation_->WatchJob(contexts.back().get(), watch));  // and never read
    if (i % 2 == 0) contexts.back()->TryCancel();
  }
  for (int i = 0; i < 1000 && GetJob(submitted.name()).state() != v1::Job::SUCCEEDED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(submitted.name()).state(), v1::Job::SUCCEEDED);
  for (auto& context : contexts) context->TryCancel();
  for (auto& reader : stalled) reader->Finish();
}

TEST_F(EvaluationTest, CancelAndResume) {
  control_->SetDelayMs(20);
  const v1::Job submitted = Submitted(SmallJob());
  const std::string name = submitted.name();
  const auto cancel = Named<v1::CancelJobRequest>(name);
  v1::Job job;
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::CancelJob, cancel, &job).ok());
  EXPECT_TRUE(job.state() == v1::Job::CANCELLING || job.state() == v1::Job::CANCELLED);
  for (int i = 0; i < 500 && GetJob(name).state() != v1::Job::CANCELLED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(name).state(), v1::Job::CANCELLED);
  const auto resume = Named<v1::ResumeJobRequest>(name);
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::ResumeJob, resume, &job).ok());
  for (int i = 0; i < 1000 && GetJob(name).state() != v1::Job::SUCCEEDED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(name).progress().done_count(), 16);
  EXPECT_EQ(ReasonIn(Ask(*evaluation_, &v1::Evaluation::Stub::CancelJob, cancel, &job)), "JOB_FINISHED");
}

TEST_F(EvaluationTest, AJobIsDeletedOnceItHasEnded) {
  control_->SetDelayMs(20);
  const v1::Job submitted = Submitted(SmallJob());
  const auto request = Named<v1::DeleteJobRequest>(submitted.name());
  const auto remove = [&](v1::DeleteJobResponse* response) {
    return Ask(*evaluation_, &v1::Evaluation::Stub::DeleteJob, request, response);
  };
  v1::DeleteJobResponse deleted;
  EXPECT_EQ(remove(&deleted).error_code(), grpc::FAILED_PRECONDITION) << "it is queued or running";
  for (int i = 0; i < 1000 && GetJob(request.name()).state() != v1::Job::SUCCEEDED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  grpc::Status status = remove(&deleted);
  for (int i = 0; i < 100 && status.error_code() == grpc::UNAVAILABLE; ++i) {  // until the job thread is done with it
    std::this_thread::sleep_for(milliseconds(10));
    status = remove(&deleted);
  }
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(deleted.suite(), submitted.suite());
  EXPECT_EQ(deleted.generation_count(), 16);
  EXPECT_EQ(ReasonIn(remove(&deleted)), "JOB_NOT_FOUND");
  const v1::Job next = Submitted(SmallJob());
  EXPECT_EQ(next.name(), "jobs/2") << "its name is not given again";
}

TEST_F(EvaluationTest, SubmitRefusesByReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* name;
    std::function<void(v1::SubmitJobRequest&)> spoil;
    grpc::StatusCode code;
    const char* reason;
  };
  using R = v1::SubmitJobRequest;
  const auto suite = [](R& r) { return r.mutable_spec()->mutable_suite(); };
  const auto variant = [](R& r) { return r.mutable_spec()->mutable_variants(0); };
  const Case cases[] = {
      {"empty", [](R& r) { r.clear_spec(); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown model", [=](R& r) { variant(r)->set_model("models/c"); }, grpc::NOT_FOUND, "MODEL_NOT_FOUND"},
      {"sql as model", [=](R& r) { variant(r)->set_model("models/a'; DROP TABLE jobs; --"); }, grpc::INVALID_ARGUMENT,
       "BAD_RESOURCE_NAME"},
      {"variant twice", [=](R& r) { variant(r)->set_model("models/b"); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown task", [=](R& r) { suite(r)->mutable_tasks(0)->set_kind("recall"); }, grpc::INVALID_ARGUMENT,
       "BAD_JOB_SPEC"},
      {"unknown metric", [=](R& r) { suite(r)->mutable_tasks(0)->add_metrics("f2"); }, grpc::INVALID_ARGUMENT,
       "BAD_JOB_SPEC"},
      {"unknown parameter", [=](R& r) { (*suite(r)->mutable_tasks(0)->mutable_parameters())["dept"] = "1"; },
       grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"zero length", [=](R& r) { suite(r)->set_lengths(0, 0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"negative length", [=](R& r) { suite(r)->set_lengths(0, -8); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"too long", [=](R& r) { suite(r)->set_lengths(0, 4097); }, grpc::INVALID_ARGUMENT, "CONTEXT_TOO_LONG"},
      {"no samples", [=](R& r) { suite(r)->set_samples(0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"in flight", [](R& r) { r.mutable_spec()->set_in_flight(2000); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"focal zero", [=](R& r) { variant(r)->add_focal_temperatures(0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"focal nan", [=](R& r) { variant(r)->add_focal_temperatures(nan); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"variant as text and otherwise", [=](R& r) { variant(r)->set_name("a@t=0.5"); }, grpc::INVALID_ARGUMENT,
       "BAD_JOB_SPEC"},
      {"variant as a wrong text",
       [=](R& r) {
         variant(r)->clear_model();
         variant(r)->set_name("a@t=0.5@t=0.6");
       },
       grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"focal zero of the map", [=](R& r) { (*variant(r)->mutable_overrides())["t"].add_values(0); },
       grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"sampling nan", [=](R& r) { r.mutable_spec()->set_sampling_temperature(nan); }, grpc::INVALID_ARGUMENT,
       "BAD_JOB_SPEC"},
  };
  for (const Case& c : cases) {
    for (const bool validate_only : {false, true}) {
      v1::SubmitJobRequest request = SmallJob();
      c.spoil(request);
      request.set_validate_only(validate_only);
      v1::SubmitJobResponse response;
      const grpc::Status status = Submit(request, &response);
      EXPECT_EQ(status.error_code(), c.code) << c.name << ": " << status.error_message();
      EXPECT_EQ(ReasonIn(status), c.reason) << c.name << ": " << status.error_message();
    }
  }
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::ListJobs, {}, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0) << "nothing was stored";
}

TEST_F(EvaluationTest, RequestIdAndDryRun) {
  v1::SubmitJobRequest request = SmallJob();
  request.set_validate_only(true);
  v1::SubmitJobResponse response;
  ASSERT_TRUE(Submit(request, &response).ok());
  EXPECT_FALSE(response.has_job());
  EXPECT_EQ(response.estimate().sample_count(), 16);
  EXPECT_GT(response.estimate().duration_seconds(), 0);

  request = SmallJob();
  request.set_request_id("9b2f");
  ASSERT_TRUE(Submit(request, &response).ok());
  const std::string name = response.job().name();
  ASSERT_TRUE(Submit(request, &response).ok());
  EXPECT_EQ(response.job().name(), name);
  request.mutable_spec()->mutable_suite()->set_seed(2);
  EXPECT_EQ(ReasonIn(Submit(request, &response)), "REQUEST_ID_REUSED");
}

TEST_F(EvaluationTest, JobNamesAndPages) {
  for (const char* name :
       {"", "jobs/", "jobs/0", "jobs/-1", "jobs/01", "jobs/1x", "1", "jobs/99999999999999999999", "jobs/1 OR 1=1"}) {
    const auto request = Named<v1::GetJobRequest>(name);
    v1::Job job;
    EXPECT_EQ(ReasonIn(Ask(*evaluation_, &v1::Evaluation::Stub::GetJob, request, &job)), "BAD_RESOURCE_NAME") << name;
    const auto watch = Named<v1::WatchJobRequest>(name);
    grpc::ClientContext context2;
    EXPECT_EQ(ReasonIn(evaluation_->WatchJob(&context2, watch)->Finish()), "BAD_RESOURCE_NAME") << name;
  }
  const auto watch = Named<v1::WatchJobRequest>("jobs/12345");
  grpc::ClientContext context;
  EXPECT_EQ(ReasonIn(evaluation_->WatchJob(&context, watch)->Finish()), "JOB_NOT_FOUND");

  for (int i = 0; i < 5; ++i) Submitted(SmallJob());
  std::vector<std::string> names;
  v1::ListJobsRequest list;
  list.set_page_size(2);
  do {
    v1::ListJobsResponse page;
    ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::ListJobs, list, &page).ok());
    EXPECT_LE(page.jobs_size(), 2);
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"jobs/5", "jobs/4", "jobs/3", "jobs/2", "jobs/1"}));

  v1::ListJobsResponse page;
  list.set_page_token("forged");
  EXPECT_EQ(ReasonIn(Ask(*evaluation_, &v1::Evaluation::Stub::ListJobs, list, &page)), "BAD_PAGE_TOKEN");
  list.clear_page_token();
  list.set_page_size(-1);
  EXPECT_EQ(ReasonIn(Ask(*evaluation_, &v1::Evaluation::Stub::ListJobs, list, &page)), "BAD_PAGE_SIZE");
}

TEST_F(EvaluationTest, SuitesAndTasks) {
  v1::ListSuitesResponse suites;
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::ListSuites, {}, &suites).ok());
  ASSERT_GE(suites.suites_size(), 2);
  EXPECT_THAT(suites.suites(0).yaml(), HasSubstr("tasks:"));
  v1::ListTasksResponse tasks;
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::ListTasks, {}, &tasks).ok());
  EXPECT_GE(tasks.tasks_size(), 5);
}

}  // namespace
}  // namespace varifocal

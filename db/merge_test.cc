// Shards of one synthetic job, joined: equal to the job written by one process, row by row; and every pair of files that
// do not belong together is refused, with nothing written.
#include "db/merge.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "db/diff.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSampleCount = 12;  // three contexts of four

struct ShardOptions {
  int index = 0, count = 0;  // 0: the whole job
  std::function<void(NewJob&)> change_job = nullptr;
  std::function<void(ExecutionRecord&)> change_execution = nullptr;
  JobState state = JobState::kSucceeded;
  int first_context = 0;  // of the partition; another value overlaps
  std::string spec = R"({"in_flight":8,"seed":7,"suite":{"lengths":[1024]})";
};

class MergeTest : public ::testing::Test {
 protected:
  // Contexts of four samples are dealt to the shards in turn; the last sample of each fails.
  std::string Write(const std::string& name, const ShardOptions& options) {
    const std::string path = directory_.File(name);
    auto writer = *Writer::Open(path);
    ExecutionRecord execution = FakeExecution();
    if (options.change_execution) options.change_execution(execution);
    // Ids differ between the files.
    for (int i = 0; i < options.index; ++i) EXPECT_TRUE(writer->AddExecution(execution).ok());
    const int64_t execution_id = *writer->AddExecution(execution);
    NewJob job = FakeJob({.tasks = {"recall", "icl"}, .lengths = {1024, 2048}, .planned_count = kSampleCount});
    job.spec_json = options.spec;
    if (options.count > 0) {
      absl::StrAppend(&job.spec_json, R"(,"shard":{"count":)", options.count, R"(,"index":)", options.index, "}");
    }
    job.spec_json += "}";
    if (options.change_job) options.change_job(job);
    const int64_t job_id = writer->AddJob(job)->job_id;
    EXPECT_TRUE(writer->SetJobState(job_id, JobState::kRunning).ok());
    const std::vector<CellRow> cells = *writer->Cells(job_id);
    for (const CellRow& cell : cells) {
      for (int i = 0; i < kSampleCount; ++i) {
        if (options.count > 0 && (i / 4 + options.first_context) % options.count != options.index - 1) continue;
        EXPECT_TRUE(writer->RecordSample((i % 4 < 3 ? FakeOutcome : FakeFailure)(cell, job, execution_id, i)).ok());
      }
    }
    EXPECT_TRUE(writer->SetJobState(job_id, options.state, options.state == JobState::kFailed ? "x" : "").ok());
    return path;
  }
  std::string Out() const { return directory_.File("out.db"); }
  // Only the inputs are left in the directory: nothing half merged.
  void ExpectRefused(const std::vector<std::string>& paths, const std::string& expected,
                     const MergeOptions& options = {}) {
    const auto merged = MergeShards(paths, Out(), options);
    ASSERT_FALSE(merged.ok()) << expected;
    EXPECT_THAT(merged.status().message(), HasSubstr(expected));
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      EXPECT_EQ(entry.path().filename().string().rfind("out.db", 0), std::string::npos) << entry.path();
    }
  }

  testing_support::TemporaryDirectory directory_;
};

// A shard whose failed samples are answered meanwhile. Method: a thread answers them in order; whatever a merge reads is one
// state of the file, so the answers in its result are the first ones.
TEST_F(MergeTest, OfADatabaseThatIsWrittenHasTheFirstAnswers) {
  constexpr int kCount = 150;
  const std::string path = directory_.File("a.db");
  auto writer = *Writer::Open(path);
  const int64_t execution_id = *writer->AddExecution(FakeExecution());
  NewJob job = FakeJob({.variants = {"baseline"}, .planned_count = kCount});
  job.spec_json = R"({"shard":{"count":1,"index":1}})";
  const int64_t job_id = writer->AddJob(job)->job_id;
  const CellRow cell = writer->Cells(job_id)->at(0);
  ASSERT_TRUE(writer->SetJobState(job_id, JobState::kRunning).ok());
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(writer->RecordSample(FakeFailure(cell, job, execution_id, i)).ok());
  }
  ASSERT_TRUE(writer->SetJobState(job_id, JobState::kSucceeded).ok());

  std::atomic<bool> is_over{false};
  std::jthread answers([&] {
    for (int i = 0; i < kCount; ++i) {
      EXPECT_TRUE(writer->RecordSample(FakeOutcome(cell, job, execution_id, i)).ok());
    }
    is_over = true;
  });
  int64_t last = 0;
  for (bool is_last = false; !is_last;) {
    is_last = is_over;
    ASSIGN_OR_FAIL(const auto merged, MergeShards({path}, Out()));
    EXPECT_EQ(merged.generation_count, kCount);
    auto database = *sqlite::Database::Open(Out(), {.read_only = true});
    const int64_t answered = **database->QueryInt("SELECT count(*) FROM generations WHERE error_code IS NULL");
    EXPECT_GE(answered, last);
    last = answered;
    EXPECT_EQ(**database->QueryInt("SELECT count(*) FROM generations JOIN samples USING (sample_id)"
                                   " WHERE error_code IS NULL AND sample_index < ?",
                                   answered),
              answered);
    EXPECT_EQ(**database->QueryInt("SELECT count(*) FROM scores"), 2 * answered);
    std::filesystem::remove(Out());
  }
  answers.join();
  EXPECT_EQ(last, kCount);
}

TEST_F(MergeTest, EqualsTheSingleRun) {
  const std::string whole = Write("whole.db", {});
  const std::vector<std::string> shards = {Write("c.db", {3, 3}), Write("a.db", {1, 3}), Write("b.db", {2, 3})};
  ASSIGN_OR_FAIL(const auto merged, MergeShards(shards, Out()));
  EXPECT_FALSE(std::filesystem::exists(Out() + "-wal"));  // one file, complete
  EXPECT_EQ(merged.shard_count, 3);
  EXPECT_EQ(merged.sample_count, 2 * 2 * kSampleCount);          // tasks x lengths; one tokenizer
  EXPECT_EQ(merged.generation_count, 2 * 2 * 2 * kSampleCount);  // x variants
  ASSIGN_OR_FAIL(const auto diff, DiffDatabases(whole, Out()));
  EXPECT_EQ(diff.row_count_a, 2 * 2 * 2 * 2 * kSampleCount);  // x metrics
  EXPECT_EQ(diff.difference_count, 0);
  const auto reader = Reader::Open(Out());
  ASSIGN_OR_FAIL(const auto job, (*reader)->Job(1));
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.spec_json, (*(*Reader::Open(whole))->Job(1)).spec_json);
  EXPECT_EQ(job.planned_count, 2 * 2 * 2 * kSampleCount);
  EXPECT_FALSE(job.is_mixed);

  // A file in the way is not replaced.
  EXPECT_EQ(MergeShards(shards, Out()).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(MergeTest, RefusesWhatDoesNotBelongTogether) {
  const std::string a = Write("a.db", {1, 3}), b = Write("b.db", {2, 3}), c = Write("c.db", {3, 3});
  ExpectRefused({a, c}, "of 3 shards 1 is missing: 2");
  ExpectRefused({a, b, c, Write("b2.db", {2, 3})}, "are both shard 2/3");
  ExpectRefused({a, b, Write("c4.db", {3, 4})}, "are shards of 3 and of 4");
  ExpectRefused({a, Write("whole.db", {}), c}, "without --shard=I/N");
  ExpectRefused({a, Write("overlap.db", {.index = 2, .count = 3, .first_context = 1}), c},
                "overlaps with an earlier shard: both have sample 0");
  ExpectRefused(
      {a, Write("spec.db", {.index = 2, .count = 3, .spec = R"({"in_flight":8,"seed":7,"suite":{"lengths":[2048]})"}),
       c},
      "differ in \"suite.lengths[0]\"");
  ExpectRefused(
      {a,
       Write("weights.db",
             {.index = 2,
              .count = 3,
              .change_job = [](NewJob& job) { job.variants[1].model.weights_sha256 = std::string(64, 'c'); }}),
       c},
      "ran variant focal with another weights");
  ExpectRefused(
      {a,
       Write(
           "rope.db",
           {.index = 2,
            .count = 3,
            .change_job = [](NewJob& job) { job.variants[1].model.function_json = R"({"ropes":"linear factor=4"})"; }}),
       c},
      "ran variant focal with another configuration (ropes): \"default theta=10000\" and \"linear factor=4\"");
  ExpectRefused(
      {a,
       Write("unrecorded.db",
             {.index = 2, .count = 3, .change_job = [](NewJob& job) { job.variants[0].model.function_json.reset(); }}),
       c},
      "not recorded");
  ExpectRefused({a,
                 Write("tokenizer.db", {.index = 2,
                                        .count = 3,
                                        .change_job =
                                            [](NewJob& job) {
                                              for (auto& variant : job.variants)
                                                variant.model.tokenizer_sha256 = std::string(64, 'd');
                                            }}),
                 c},
                "another tokenizer");
  ExpectRefused(
      {a,
       Write("code.db", {.index = 2, .count = 3, .change_execution = [](ExecutionRecord& e) { e.code_version = "9"; }}),
       c},
      "code 9 on cpu/avx2");
  ExpectRefused({a, Write("failed.db", {.index = 2, .count = 3, .state = JobState::kFailed}), c}, "its job is failed");
  ExpectRefused({a, directory_.File("none.db"), c}, "none.db");
  ExpectRefused({}, "no shards");
}

TEST_F(MergeTest, JoinsMixedAndIncompleteOnesOnRequest) {
  const std::string a = Write("a.db", {1, 3});
  const std::string b = Write("b.db", {.index = 2,
                                       .count = 3,
                                       .change_execution = [](ExecutionRecord& e) { e.backend = "cuda"; },
                                       .spec = R"({"in_flight":64,"seed":7,"suite":{"lengths":[1024]})"});
  ExpectRefused({a, b}, "allow mixed executions", {.allow_missing = true});
  ASSIGN_OR_FAIL(const auto merged, MergeShards({a, b}, Out(), {.allow_missing = true, .allow_mixed = true}));
  EXPECT_THAT(merged.missing_shards, ElementsAre(3));
  const auto job = (*Reader::Open(Out()))->Job(1);
  EXPECT_TRUE(job->is_mixed);
  EXPECT_EQ(job->answered_count + job->failed_count, 2 * 2 * 2 * 8);
}

TEST_F(MergeTest, NamesTheDifferenceOfTwoShards) {
  const std::string a = Write("a.db", {1, 2});
  const auto second = [&](const std::string& name, const std::function<void(NewJob&)>& change) {
    return Write(name, {.index = 2, .count = 2, .change_job = change});
  };
  ExpectRefused({a, second("fewer.db",
                           [](NewJob& job) {
                             job.variants.pop_back();
                             std::erase_if(job.cells, [&](const auto& cell) { return cell.variant == "focal"; });
                           })},
                "have different variants");
  ExpectRefused({a, second("name.db",
                           [](NewJob& job) {
                             job.variants[1].name = "other";
                             for (auto& cell : job.cells)
                               cell.variant = cell.variant == "focal" ? "other" : cell.variant;
                           })},
                "have different variants");
  ExpectRefused({a, second("more.db",
                           [](NewJob& job) {
                             for (auto& cell : job.cells) cell.planned_count += cell.context_length == 2048;
                           })},
                "plans other samples of task recall at 2048");
  ExpectRefused({a, second("length.db",
                           [](NewJob& job) {
                             for (auto& cell : job.cells) cell.context_length += cell.context_length == 2048;
                           })},
                "plans other samples of task recall at 2049");
  ExpectRefused({a, second("key.db",
                           [](NewJob& job) {
                             job.spec_json =
                                 R"({"seed":7,"suite":{"lengths":[1024],"new":1},"shard":{"count":2,"index":2}})";
                           })},
                "differ in \"suite.new\"");
  ExpectRefused({a, second("none.db", [](NewJob& job) { job.spec_json = "[]"; })}, "without --shard=I/N");
  ExpectRefused({a, second("number.db", [](NewJob& job) { job.spec_json = R"({"shard":2})"; })}, "without --shard=I/N");
  ExpectRefused({a, second("no_count.db", [](NewJob& job) { job.spec_json = R"({"shard":{"index":2}})"; })}, "count");
  ExpectRefused({a, second("no_index.db", [](NewJob& job) { job.spec_json = R"({"shard":{"count":2}})"; })}, "index");
  // A database of a shard takes no other job, and one of a job no shard.
  for (const std::string& path : {Write("shard.db", {2, 2}), Write("job.db", {})}) {
    NewJob other = FakeJob();
    if (path != directory_.File("shard.db")) other.spec_json = R"({"shard":{"count":2,"index":1}})";
    const absl::Status added = (*Writer::Open(path))->AddJob(other).status();
    EXPECT_EQ(added.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(added).name, "BAD_JOB_SPEC");
    EXPECT_THAT(added.message(), HasSubstr("job 1 already"));
  }
  const std::string two = Write("two.db", {});
  ASSERT_TRUE((*Writer::Open(two))->AddJob(FakeJob()).ok());
  ExpectRefused({a, two}, "the database has 2 jobs; that of a shard has 1");
  const std::string older = Write("older.db", {2, 2});
  ASSERT_TRUE((*sqlite::Database::Open(older, {}))->Execute("UPDATE schema_version SET version = 3").ok());
  ExpectRefused({a, older}, "the database has schema version 3; shards of version ");
  ExpectRefused(
      {Write("many.db", {1, 40})},
      "of 40 shards 39 are missing: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, ..");
}

}  // namespace
}  // namespace varifocal::db

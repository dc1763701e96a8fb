// The verbs that read databases: a job written with known scores, the outputs' documented keys, exit codes, and numbers
// that a person can check.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kSampleCount = 48;  // 12 clusters of four

class ResultsTest : public testing::Test {
 protected:
  // Baseline is always wrong; the candidate is right at even clusters. `failures` samples of the candidate failed.
  std::string WriteDatabase(const std::string& name, int failures, double last_score = 0) {
    const std::string path = directory_.File(name);
    const auto writer = *db::Writer::Open(path);
    const db::NewJob job = db::FakeJob({.planned_count = kSampleCount});
    const int64_t execution = *writer->AddExecution(db::FakeExecution());
    const int64_t job_id = writer->AddJob(job)->job_id;
    const std::vector<db::CellRow> cells = *writer->Cells(job_id);
    for (const db::CellRow& cell : cells) {
      const bool is_candidate = cell.cell.variant == "focal";
      for (int64_t i = 0; i < kSampleCount; ++i) {
        const bool fails = is_candidate && i < failures;
        db::Outcome outcome =
            fails ? db::FakeFailure(cell, job, execution, i) : db::FakeOutcome(cell, job, execution, i);
        double score = is_candidate && i / 4 % 2 == 0 ? 1 : 0;
        if (is_candidate && i == kSampleCount - 1) score = last_score;
        if (!fails) outcome.scores = {{"exact_match", score}, {"token_f1", score / 2}};
        EXPECT_TRUE(writer->RecordSample(outcome).ok());
      }
    }
    return path;
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(ResultsTest, CompareHasTheDocumentedKeys) {
  const std::string path = WriteDatabase("a.db", 0);
  const Ran ran = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=jsonl"});
  ASSERT_EQ(ran.code, ExitCode::kDone) << ran.err;
  const auto row = ParseJson(ran.out.substr(0, ran.out.find('\n')));
  ASSERT_TRUE(row.ok()) << row.status();
  std::set<std::string> keys;
  for (const auto& [key, value] : row->items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"task",
                                         "metric",
                                         "context_length",
                                         "baseline",
                                         "candidate",
                                         "sample_count",
                                         "cluster_count",
                                         "failed_count",
                                         "baseline_mean",
                                         "candidate_mean",
                                         "difference",
                                         "low",
                                         "high",
                                         "p_value",
                                         "test",
                                         "draws",
                                         "seed",
                                         "baseline_job",
                                         "candidate_job",
                                         "baseline_left_out_count",
                                         "candidate_left_out_count",
                                         "imported"}));
  EXPECT_EQ(row->at("metric"), "exact_match");
  EXPECT_EQ(row->at("sample_count"), 48);
  EXPECT_EQ(row->at("cluster_count"), 12);
  EXPECT_EQ(row->at("baseline_mean"), 0.0);
  EXPECT_EQ(row->at("candidate_mean"), 0.5);
  EXPECT_EQ(row->at("difference"), 0.5);
  // Six clusters of twelve differ, all in one direction: 2 of the 2^6 sign assignments are as far out.
  EXPECT_EQ(row->at("p_value"), 2.0 / 64);
  EXPECT_EQ(row->at("test"), "sign_flip_exact");

  const Ran csv = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=csv"});
  EXPECT_THAT(csv.out,
              testing::StartsWith(
                  "task,metric,context_length,baseline,candidate,sample_count,cluster_count,"
                  "failed_count,baseline_mean,candidate_mean,difference,low,high,p_value,test,"
                  "draws,seed,baseline_job,candidate_job,baseline_left_out_count,"
                  "candidate_left_out_count,imported\nrecall,exact_match,1024,baseline,focal,48,12,0,0.0,0.5,0.5,"));
  const Ran json = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=json"});
  EXPECT_EQ(ParseJson(json.out)->size(), 2u) << "one row a metric";
}

TEST_F(ResultsTest, CompareForPeople) {
  const std::string path = WriteDatabase("a.db", 0);
  const Ran ran = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("0.000      0.500      +0.500"), HasSubstr("48/12"), HasSubstr("all tasks"),
                             Not(HasSubstr("incomplete")), Not(HasSubstr("token_f1"))));
  const Ran all = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--all-metrics"});
  EXPECT_THAT(all.out, HasSubstr("token_f1"));
  const Ran failed =
      Varifocal({"compare", "--db=" + WriteDatabase("b.db", 3), "--baseline=baseline", "--candidate=focal"});
  EXPECT_THAT(failed.out, AllOf(HasSubstr("incomplete, 3 failed"), HasSubstr("varifocal resume jobs/1")));
}

TEST_F(ResultsTest, CompareRefusesWhatIsNotThere) {
  const std::string path = WriteDatabase("a.db", 0);
  const Ran unknown = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=fokal"});
  EXPECT_EQ(unknown.code, ExitCode::kFailed);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("fokal"), HasSubstr("focal")));
  EXPECT_EQ(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--job=7"}).code,
            ExitCode::kFailed);
  EXPECT_EQ(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--task=none"}).code,
            ExitCode::kFailed);
  testing_support::WriteFile(directory_.File("empty.db"), "");
  EXPECT_EQ(Varifocal({"compare", "--db=" + directory_.File("empty.db"), "--baseline=a", "--candidate=b"}).code,
            ExitCode::kFailed);
}

// Two jobs of the same questions: baseline's are all wrong, the other's first 24 (of 40) right; 8 were not asked of it,
// and 4 in other words.
TEST_F(ResultsTest, CompareTakesVariantsOfTwoJobs) {
  const std::string path = directory_.File("a.db");
  {
    const auto writer = *db::Writer::Open(path);
    const int64_t execution = *writer->AddExecution(db::FakeExecution());
    for (const bool is_candidate : {false, true}) {
      db::NewJob job = db::FakeJob({.variants = {is_candidate ? "other" : "baseline"},
                                    .planned_count = is_candidate ? kSampleCount - 8 : kSampleCount});
      if (is_candidate) job.variants[0].model.architecture = "imported";
      const std::vector<db::CellRow> cells = *writer->Cells(writer->AddJob(job)->job_id);
      for (int64_t i = 0; i < cells[0].cell.planned_count; ++i) {
        db::Outcome outcome = db::FakeOutcome(cells[0], job, execution, i);
        if (is_candidate && i >= 36) outcome.sample.token_ids_sha256 = std::string(64, '0');
        const double score = is_candidate && i < 24 ? 1 : 0;
        outcome.scores = {{"exact_match", score}, {"token_f1", score / 2}};
        ASSERT_TRUE(writer->RecordSample(outcome).ok());
      }
    }
  }
  for (const char* candidate : {"other", "2/other", "jobs/2/other"}) {
    const Ran ran = Varifocal(
        {"compare", "--db=" + path, "--baseline=baseline", absl::StrCat("--candidate=", candidate), "--format=json"});
    ASSERT_EQ(ran.code, ExitCode::kDone) << ran.err;
    const Json row = ParseJson(ran.out).value()[0];
    EXPECT_EQ(row["candidate"], "jobs/2/other");
    EXPECT_EQ(row["candidate_job"], 2);
    EXPECT_EQ(row["sample_count"], 36);
    EXPECT_EQ(row["candidate_mean"], 24.0 / 36);
    // Six clusters of nine differ, all in one direction: 2 of the 2^6 sign assignments are as far out.
    EXPECT_EQ(row["p_value"], 2.0 / 64);
    EXPECT_EQ(row["baseline_left_out_count"], 12);
    EXPECT_EQ(row["candidate_left_out_count"], 4);
    EXPECT_EQ(row["imported"], "candidate");
  }
  const Ran text = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=other"});
  EXPECT_THAT(
      text.out,
      AllOf(HasSubstr("jobs/2/other against baseline (jobs/1 and jobs/2)"), HasSubstr("36/9"),
            HasSubstr("Imported: the answers of other (jobs/2) came from another engine"),
            HasSubstr("Two jobs: 36 questions were asked in both with the same prompt; left out are 12 of jobs/1 "
                      "and 4 of jobs/2."),
            Not(HasSubstr("ncomplete"))));
  const Ran one_job = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=other", "--job=1"});
  EXPECT_EQ(one_job.code, ExitCode::kFailed);
  EXPECT_THAT(one_job.err, HasSubstr("job 1 has no variant \"other\", only baseline; a variant of another job is named "
                                     "with it, such as 3/other"));
}

TEST_F(ResultsTest, DiffAnswersByItsExitCode) {
  const std::string a = WriteDatabase("a.db", 0), b = WriteDatabase("b.db", 0), c = WriteDatabase("c.db", 0, 1);
  const Ran same = Varifocal({"diff", a, b});
  EXPECT_EQ(same.code, ExitCode::kDone);
  EXPECT_EQ(same.out, "0 differences; A has 192 rows, B has 192.\n");
  const Ran differs = Varifocal({"diff", a, c});
  EXPECT_EQ(differs.code, ExitCode::kFailed);
  EXPECT_THAT(differs.out, HasSubstr("2 differences"));  // one sample, two metrics
  EXPECT_EQ(differs.err, "") << "a difference is an answer, not an error";
  const Ran json = Varifocal({"diff", a, c, "--format=json", "--limit=1"});
  EXPECT_EQ(ParseJson(json.out)->at("difference_count"), 2);
  EXPECT_EQ(ParseJson(json.out)->at("differences").size(), 1u);
}

}  // namespace
}  // namespace varifocal::client

// The verbs that read databases: a job written with known scores, the outputs' documented keys, exit codes, and numbers
// that a person can check.
#include <set>
#include <string>

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
  EXPECT_EQ(keys, (std::set<std::string>{"task", "metric", "context_length", "baseline", "candidate", "sample_count",
                                         "cluster_count", "failed_count", "baseline_mean", "candidate_mean",
                                         "difference", "low", "high", "p_value", "test", "draws", "seed"}));
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
  EXPECT_THAT(csv.out, testing::StartsWith("task,metric,context_length,baseline,candidate,sample_count,cluster_count,"
                                           "failed_count,baseline_mean,candidate_mean,difference,low,high,p_value,test,"
                                           "draws,seed\nrecall,exact_match,1024,baseline,focal,48,12,0,0.0,0.5,0.5,"));
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

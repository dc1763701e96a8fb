// The verbs that read databases: a job written with known scores, the outputs' documented keys, exit codes, and numbers
// verified by hand.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "client/report/data/result_rows.h"
#include "client/testing_run.h"
#include "db/fakes/fake_results.h"
#include "db/stats/labels.h"
#include "db/stats/special.h"
#include "db/stats/tested_lengths.h"
#include "db/writer.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/ruler/kinds.h"
#include "eval_tasks/ruler/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
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
  std::string WriteDatabase(const std::string& name, int failures, double last_score = 0, bool inspects = false,
                            const std::string& candidate = "focal", const std::string& function_json = "{}") {
    const std::string path = directory_.File(name);
    const db::NewJob job = db::FakeJob(
        {.variants = {"baseline", candidate}, .planned_count = kSampleCount, .function_json = function_json});
    db::AddFakeJob(**db::Writer::Open(path), job, [&](const db::CellRow& cell, int64_t i, db::Outcome& outcome) {
      const bool is_candidate = cell.cell.variant == candidate;
      double score = is_candidate && i / 4 % 2 == 0 ? 1 : 0;
      if (is_candidate && i == kSampleCount - 1) score = last_score;
      outcome.scores = {{"exact_match", score}, {"token_f1", score / 2}};
      if (is_candidate && i < failures) db::Fail(outcome);
      if (inspects && is_candidate && i == 1) {
        outcome.attention = {{.layer = 2,
                              .head = 3,
                              .scale = 0.5,
                              .entropy = std::log(8.0),
                              .largest_weight = 0.5,
                              .first_mass = 0.25,
                              .evidence_mass = 0.125,
                              .distractor_mass = std::nullopt,
                              .question_mass = 0,
                              .strip = candidate == "focal" ? "ff00" : "ef00"}};
      }
      return true;
    });
    return path;
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(ResultsTest, CompareNamesWhatThereIs) {
  const std::string path = WriteDatabase("names.db", 0);
  const auto error = [&](const std::string& flag) {
    return Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", flag}).err;
  };
  EXPECT_EQ(error("--task=recal"), "varifocal: the job compares no task \"recal\"; did you mean \"recall\"?\n");
  EXPECT_EQ(error("--metric=f1"), "varifocal: the job has no metric \"f1\"; known are exact_match, token_f1.\n");
  EXPECT_EQ(error("--job=99"), absl::StrCat("varifocal: ", path, ": no job 99; its jobs are 1.\n"));
}

TEST_F(ResultsTest, CompareAdjustsByMaxTWhenAsked) {
  const std::string path = WriteDatabase("adjust.db", 0);
  const auto run = [&](const std::string& flag) {
    return Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", flag});
  };
  EXPECT_THAT(run("--adjust=holm").out, MessageIn("Holm"));
  EXPECT_THAT(run("--adjust=max-t").out, MessageIn("max-t", "Holm"));
  EXPECT_EQ(run("--adjust=bonferroni").code, ExitCode::kWrongUsage);
}

TEST_F(ResultsTest, DeleteRemovesAJobWithItsAnswers) {
  const std::string path = WriteDatabase("delete.db", 0);
  const Ran done = Done(Varifocal({"delete", "jobs/1", "--db=" + path}));
  EXPECT_THAT(done.out, Message("jobs/1", "fake", "96"));
  EXPECT_EQ(Varifocal({"delete", "1", "--db=" + path}).code, ExitCode::kFailed);
  EXPECT_EQ(Varifocal({"delete", "x", "--db=" + path}).code, ExitCode::kWrongUsage);
  EXPECT_EQ(Varifocal({"delete", "1", "--db=" + path, "--daemon=127.0.0.1:1"}).code, ExitCode::kWrongUsage);
  EXPECT_THAT(Varifocal({"delete", "1", "--daemon=127.0.0.1:1", "--connect-timeout=0"}).err, MessageIn("127.0.0.1:1"));
}

TEST_F(ResultsTest, CompareHasTheDocumentedKeys) {
  const std::string path = WriteDatabase("a.db", 0);
  for (const auto& [margin, words] :
       {std::pair("1", "is within 1 point. "), std::pair("1.5", "is within 1.5 points. ")}) {
    EXPECT_THAT(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal",
                           absl::StrCat("--margin=", margin)})
                    .out,
                HasSubstr(words));
  }
  const Ran ran =
      Done(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=jsonl"}));
  const auto row = ParseJson(ran.out.substr(0, ran.out.find('\n')));
  ASSERT_TRUE(row.ok()) << row.status();
  std::set<std::string> keys;
  for (const auto& [key, value] : row->items()) keys.insert(key);
  const std::vector<std::string>& documented = report::ResultKeys();
  EXPECT_EQ(keys, (std::set<std::string>{documented.begin(), documented.end()}));
  for (const char* key : {"kind", "context_length", "difference", "low", "high", "p_value", "p_adjusted", "test_count",
                          "p_sign_flip", "fragile", "outcome", "margin", "detectable_difference"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
  EXPECT_EQ(row->at("metric"), "exact_match");
  EXPECT_EQ(row->at("sample_count"), 48);
  EXPECT_EQ(row->at("cluster_count"), 12);
  EXPECT_EQ(row->at("baseline_mean"), 0.0);
  EXPECT_EQ(row->at("candidate_mean"), 0.5);
  EXPECT_EQ(row->at("difference"), 0.5);
  // Six clusters of twelve are at 1, six at 0: t = 0.5 / (sqrt(12 / 11) / 2 / sqrt(12)) = sqrt(11), 11 degrees of freedom.
  EXPECT_NEAR(row->at("p_value").get<double>(), 2 * stats::StudentTCdf(-std::sqrt(11.0), 11), 1e-9);
  EXPECT_GT(row->at("low").get<double>(), 0);
  EXPECT_EQ(row->at("p_adjusted"), row->at("p_value")) << "one primary cell in the job";
  EXPECT_EQ(row->at("test_count"), 1);
  EXPECT_EQ(row->at("outcome"), "better");
  EXPECT_EQ(row->at("margin"), 0.03);
  EXPECT_EQ(row->at("fragile"), false);
  // All six in one direction: 2 of the 2^6 sign assignments are as far out.
  EXPECT_EQ(row->at("p_sign_flip"), 2.0 / 64);
  EXPECT_EQ(row->at("sign_flip_test"), "sign_flip_exact");

  const Ran csv = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=csv"});
  EXPECT_THAT(csv.out, testing::StartsWith(absl::StrCat(absl::StrJoin(documented, ","), "\ncell,recall,exact_match,")));
  const Ran json = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--format=json"});
  const Json rows = ParseJson(json.out).value();
  ASSERT_EQ(rows.size(), 3u) << "one row a metric, and the mean over tasks";
  EXPECT_EQ(rows[2]["kind"], "suite_mean");
  EXPECT_EQ(rows[2]["task"], Json());
  EXPECT_EQ(rows[2]["outcome"], "better");
  EXPECT_EQ(rows[2]["task_count"], 1);
  const Ran report = Varifocal({"report", "--db=" + path, "--out=-", "--format=json"});
  const Json reported = ParseJson(report.out).value();
  ASSERT_GT(reported.size(), rows.size()) << "what else is on the page";
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(reported[i], rows[i]) << "one contract";
  for (size_t i = rows.size(); i < reported.size(); ++i)
    EXPECT_THAT(reported[i]["kind"].get<std::string>(), testing::AnyOf("work", "verdict"));
}

TEST_F(ResultsTest, AttentionOfAnAnswer) {
  const std::string path = WriteDatabase("attention.db", 0, 0, /*inspects=*/true), db = "--db=" + path;
  const Ran ran = Done(Varifocal({"attention", "recall/1024/1/focal", db, "--format=jsonl"}));
  const Json row = *ParseJson(ran.out);
  EXPECT_EQ(row["layer"], 2);
  EXPECT_EQ(row["head"], 3);
  EXPECT_NEAR(row["effective_keys"].get<double>(), 8, 1e-9);
  EXPECT_EQ(row["evidence_mass"], 0.125);
  EXPECT_TRUE(row["distractor_mass"].is_null());
  EXPECT_TRUE(row["strip"].is_array() && !row["strip"].empty() && row["strip"][0].is_number()) << row["strip"];
  EXPECT_THAT(Varifocal({"attention", "recall/1024/1/focal", db}).out, HasSubstr("12.50"));
  EXPECT_FALSE(row.contains("sink_mass")) << "no head has a sink";
  const std::string out = directory_.File("strip.svg");
  EXPECT_EQ(Varifocal({"attention", "recall/1024/1/focal", db, "--out=" + out}).code, ExitCode::kDone);
  EXPECT_THAT(testing_support::ReadFile(out), AllOf(HasSubstr("<svg"), HasSubstr("L2 H3"), HasSubstr("12.5 %")));
  EXPECT_EQ(Varifocal({"attention", "recall/1024/1/focal", db, "--out=-"}).out, testing_support::ReadFile(out));

  EXPECT_EQ(Varifocal({"attention", "recall/1K/1/focal", db}).out,
            Varifocal({"attention", "recall/1024/1/focal", db}).out);
  EXPECT_EQ(Varifocal({"attention", "recall/1024/focal", db}).code, ExitCode::kWrongUsage);
  EXPECT_EQ(Varifocal({"attention", "recall/1X/1/focal", db}).code, ExitCode::kWrongUsage);
  EXPECT_THAT(Varifocal({"attention", "recall/1024/2/focal", db}),
              FailsWith(Message("recall/1024/2/focal", "--inspect")));
  EXPECT_THAT(Varifocal({"attention", "recall/1024/99/focal", db}).err, Message("recall/1024/99/focal"));
}

// A sink has what the keys do not have: the strip "ef00" is 2^-1 of the weight.
TEST_F(ResultsTest, AttentionOfASink) {
  const std::string db = "--db=" + WriteDatabase("sink.db", 0, 0, /*inspects=*/true, "focal@sink=0");
  const Ran ran = Done(Varifocal({"attention", "recall/1024/1/focal@sink=0", db, "--format=jsonl"}));
  EXPECT_NEAR((*ParseJson(ran.out))["sink_mass"].get<double>(), 0.5, 1e-9);
  EXPECT_THAT(Varifocal({"attention", "recall/1024/1/focal@sink=0", db}).out, HasSubstr("SINK %"));
}

// Settings of attention do not act in every layer of a hybrid, and packed weights are computed with in another format.
TEST_F(ResultsTest, AttentionOfAHybridWithPackedWeights) {
  const std::string path =
      WriteDatabase("hybrid.db", 0, 0, /*inspects=*/true, "focal",
                    R"({"layers":[{"attention":false,"count":1},{"count":1,"mlp":false,"recurrent":true},
                    {"attention":true,"count":1,"recurrent":true},{"count":1,"recurrent":true},{"count":1}],
          "packed_weights":{"scheme":"gptq","bits":4,"values":"f16"},"adapter":{"rank":8,"alpha":16}})");
  const Ran ran = Done(Varifocal({"attention", "recall/1024/1/focal", "--db=" + path}));
  EXPECT_EQ(ran.err,
            "weights from gptq 4 bit, read to f16; LoRA of rank 8, alpha 16; computed in f32\n"
            "layers 0 to 1 and 3 have no attention: temperatures, caps and sinks do not act there\n");
  const Ran report = Done(Varifocal({"report", "--db=" + path, "--out=-", "--format=html"}));
  EXPECT_THAT(report.out, AllOf(HasSubstr("focal: layers 0 to 1 and 3 have"), HasSubstr("gptq 4 bit, read to f16"),
                                HasSubstr("rank 8, alpha 16"), HasSubstr(" in layers 0 to 1 and 3</small>")));
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

TEST_F(ResultsTest, TheGateFailsOnWhatIsWorse) {
  const std::string path = WriteDatabase("a.db", 0);
  const auto gate = [&](const char* baseline, const char* candidate, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {
        "compare", "--db=" + path, absl::StrCat("--baseline=", baseline), absl::StrCat("--candidate=", candidate),
        "--gate",  "--format=csv"};
    args.insert(args.end(), more.begin(), more.end());
    return Varifocal(args);
  };
  EXPECT_EQ(gate("baseline", "focal").code, ExitCode::kDone);
  const Ran worse = gate("focal", "baseline");
  EXPECT_EQ(worse.code, ExitCode::kFailed);
  EXPECT_THAT(worse.err, Message("worse", "1,024"));
  EXPECT_THAT(gate("focal", "baseline", {"--task=recall"}).err, Message("worse", "recall", "1,024"));
}

TEST_F(ResultsTest, TheGateIsNotPassedByFailures) {
  const std::string db = "--db=" + WriteDatabase("failed.db", kSampleCount);  // every answer of focal
  for (const std::vector<std::string>& sides : {std::vector<std::string>{"--baseline=baseline", "--candidate=focal"},
                                                {"--baseline=focal", "--candidate=baseline"}}) {
    const Ran ran = Varifocal({"compare", db, sides[0], sides[1], "--gate"});
    EXPECT_THAT(ran, FailsWith(Message("--gate", "1,024")));
    EXPECT_THAT(ran.out, AllOf(HasSubstr("failures decide"), HasSubstr("48 failed"), Not(HasSubstr("  better  ")),
                               HasSubstr(stats::LabelOf("failures").sentence)));
  }
}

TEST_F(ResultsTest, VariantsAreFoundByWhatTheyRunAs) {
  const std::string path = directory_.File("sweep.db");
  {
    const auto writer = *db::Writer::Open(path);
    ASSERT_TRUE(writer->AddJob(db::FakeJob({.variants = {"baseline", "baseline@t=0.7"}})).ok());
  }
  const auto compare = [&](const std::string& candidate, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"compare", "--db=" + path, "--baseline=baseline", "--candidate=" + candidate};
    args.insert(args.end(), more.begin(), more.end());
    return Varifocal(args).err;
  };
  EXPECT_THAT(compare("baseline@t=0.70"), Message("\"baseline@t=0.70\"", "baseline@t=0.7"));
  EXPECT_THAT(compare("baseline@t=1", {"--job=1"}), Message("\"baseline@t=1\"", "baseline"));
  EXPECT_THAT(compare("baseline@t=0.5"), Not(HasSubstr("is stored")));
  EXPECT_THAT(Varifocal({"report", "--db=" + path, "--job=1", "--out=-", "--baseline=baseline@t=1.0"}).err,
              Message("\"baseline@t=1.0\"", "baseline"));
}

TEST_F(ResultsTest, ASuiteFileIsNotAskedOfADaemon) {
  EXPECT_THAT(Varifocal({"suites", "./mine.yaml", "--daemon=127.0.0.1:1"}),
              IsWrongUsage(Message("./mine.yaml", "--daemon")));
}

TEST_F(ResultsTest, ReportGoesWhereItIsSent) {
  const std::string path = WriteDatabase("a.db", 0), target = directory_.File("target.html"),
                    link = directory_.File("link.html"), pipe = directory_.File("pipe.csv");
  EXPECT_THAT(Varifocal({"report", "--db=" + path, "--out=" + directory_.File("x.pdf")}),
              IsWrongUsage(Message("x.pdf", ".html", ".csv", ".json", ".md", ".txt", ".tex")));
  EXPECT_FALSE(std::filesystem::exists(directory_.File("x.pdf")));
  testing_support::WriteFile(target, "orig");
  std::filesystem::create_symlink(target, link);
  ASSERT_EQ(Varifocal({"report", "--db=" + path, "--out=" + link}).code, ExitCode::kDone);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(testing_support::ReadFile(target), testing::StartsWith("<!doctype html>"));
  std::filesystem::remove(target);
  ASSERT_EQ(Varifocal({"report", "--db=" + path, "--out=" + link}).code, ExitCode::kDone) << "a target that is missing";
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(testing_support::ReadFile(target), testing::StartsWith("<!doctype html>"));
  const std::string circle = directory_.File("circle.html");
  std::filesystem::create_symlink(circle, circle);
  EXPECT_THAT(Varifocal({"report", "--db=" + path, "--out=" + circle}).err, Message("circle.html"));
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK);  // so that neither side waits for the other
  ASSERT_GE(reader, 0);
  const Ran piped = Varifocal({"report", "--db=" + path, "--out=" + pipe});
  std::string received(1 << 16, '\0');
  received.resize(std::max<ssize_t>(0, read(reader, received.data(), received.size())));
  close(reader);
  EXPECT_EQ(piped.code, ExitCode::kDone);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THAT(received, testing::StartsWith("kind,task,metric,"));
  EXPECT_EQ(Varifocal({"report", "--db=" + path, "--out=-", "--format=csv"}).out, received);
}

TEST_F(ResultsTest, CompareRefusesWhatIsNotThere) {
  const std::string path = WriteDatabase("a.db", 0);
  EXPECT_THAT(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=fokal"}),
              FailsWith(AllOf(HasSubstr("fokal"), HasSubstr("focal"))));
  EXPECT_EQ(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--job=7"}).code,
            ExitCode::kFailed);
  EXPECT_EQ(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--task=none"}).code,
            ExitCode::kFailed);
  testing_support::WriteFile(directory_.File("empty.db"), "");
  EXPECT_EQ(Varifocal({"compare", "--db=" + directory_.File("empty.db"), "--baseline=a", "--candidate=b"}).code,
            ExitCode::kFailed);
}

// Two jobs of the same questions: baseline's are all wrong, the other's first 24 (of 40) right; 8 are missing from it,
// and 4 have another prompt.
TEST_F(ResultsTest, CompareTakesVariantsOfTwoJobs) {
  const std::string path = directory_.File("a.db");
  {
    const auto writer = *db::Writer::Open(path);
    for (const bool is_candidate : {false, true}) {
      db::NewJob job = db::FakeJob({.variants = {is_candidate ? "other" : "baseline"},
                                    .planned_count = is_candidate ? kSampleCount - 8 : kSampleCount});
      if (is_candidate) job.variants[0].model.architecture = "imported";
      db::AddFakeJob(*writer, job, [&](const db::CellRow&, int64_t i, db::Outcome& outcome) {
        if (is_candidate && i >= 36) outcome.sample.token_ids_sha256 = std::string(64, '0');
        const double score = is_candidate && i < 24 ? 1 : 0;
        outcome.scores = {{"exact_match", score}, {"token_f1", score / 2}};
        return true;
      });
    }
  }
  for (const char* candidate : {"other", "2/other", "jobs/2/other"}) {
    const Ran ran = Done(Varifocal(
        {"compare", "--db=" + path, "--baseline=baseline", absl::StrCat("--candidate=", candidate), "--format=json"}));
    const Json row = ParseJson(ran.out).value()[0];
    EXPECT_EQ(row["candidate"], "jobs/2/other");
    EXPECT_EQ(row["candidate_job"], 2);
    EXPECT_EQ(row["sample_count"], 36);
    EXPECT_EQ(row["candidate_mean"], 24.0 / 36);
    // Six clusters of nine differ, all in one direction: 2 of the 2^6 sign assignments are as far out.
    EXPECT_EQ(row["p_sign_flip"], 2.0 / 64);
    EXPECT_EQ(row["baseline_left_out_count"], 12);
    EXPECT_EQ(row["candidate_left_out_count"], 4);
    EXPECT_EQ(row["imported"], "candidate");
  }
  const Ran text = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=other"});
  EXPECT_THAT(text.out,
              AllOf(MessageIn("jobs/2/other", "baseline", "jobs/1"), HasSubstr("36/9"), MessageIn("other (jobs/2)"),
                    MessageIn(36, "12 of jobs/1", "4 of jobs/2"), Not(HasSubstr("ncomplete"))));
  EXPECT_THAT(Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=other", "--job=1"}),
              FailsWith(Message("job 1", "\"other\"", "baseline", "3/other")));
}

TEST_F(ResultsTest, DiffAnswersByItsExitCode) {
  const std::string a = WriteDatabase("a.db", 0), b = WriteDatabase("b.db", 0), c = WriteDatabase("c.db", 0, 1);
  const Ran same = Done(Varifocal({"diff", a, b}));
  EXPECT_EQ(same.out, "0 differences; A has 192 rows, B has 192.\n");
  const Ran differs = Varifocal({"diff", a, c});
  EXPECT_EQ(differs.code, ExitCode::kFailed);
  EXPECT_THAT(differs.out, HasSubstr("2 differences"));  // one sample, two metrics
  EXPECT_EQ(differs.err, "") << "a difference is an answer, not an error";
  const Ran json = Varifocal({"diff", a, c, "--format=json", "--limit=1"});
  EXPECT_EQ(ParseJson(json.out)->at("difference_count"), 2);
  EXPECT_EQ(ParseJson(json.out)->at("differences").size(), 1u);
}

// db/stats knows RULER's scorers by the beginning of their names alone.
TEST(RulerMetricsTest, HaveTheirPrefixAndNoOtherMetricHas) {
  std::set<std::string> of_tasks;
  for (const ruler::RulerTaskInfo& task : ruler::RulerTasks()) {
    for (const std::string& metric : RulerMetrics({{"task", std::string(task.name)}})) of_tasks.insert(metric);
  }
  std::set<std::string> with_prefix;
  for (const Metric& metric : Metrics()) {
    if (absl::StartsWith(metric.name, stats::kRulerMetricPrefix)) with_prefix.insert(metric.name);
  }
  EXPECT_EQ(with_prefix, of_tasks);
  EXPECT_EQ(of_tasks.size(), 2u);
}

}  // namespace
}  // namespace varifocal::client

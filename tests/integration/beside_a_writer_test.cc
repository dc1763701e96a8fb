// `export`, `merge`, `report` and `compare` while another program writes the database that they read. Method: each runs again
// and again until the job has ended. What `export` wrote must be the first answers that were stored, of all files
// together, the tables of `report` and of `compare` must count the same answers, and `merge` must refuse an unfinished
// shard without a file; then the job has every answer once.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

namespace fs = std::filesystem;

using Answer =
    std::tuple<std::string, std::string, int64_t, std::string>;  // variant, task, length, digest of the prompt

void ExpectWhole(const std::string& path, int64_t answer_count) {
  const auto database = sqlite::Database::Open(path, {.read_only = true});
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_TRUE((*database)->FullCheck().ok());
  EXPECT_EQ(**(*database)->QueryInt("SELECT count(*) FROM generations WHERE error_code IS NULL"), answer_count);
  EXPECT_EQ(**(*database)->QueryInt("SELECT sum(planned_count) FROM cells"), answer_count);
}

// In the order in which they were stored.
std::vector<Answer> StoredAnswers(const std::string& path) {
  const auto reader = *db::Reader::Open(path);
  const std::vector<db::SampleDetail> details = *reader->Samples({.job_id = 1, .limit = 10'000});
  std::vector<Answer> answers;
  for (const db::SampleDetail& detail : details) {
    answers.emplace_back(detail.variant, detail.sample.task, detail.sample.context_length,
                         detail.sample.token_ids_sha256.value_or(""));
  }
  return answers;
}

std::set<Answer> ExportedAnswers(const std::string& folder) {
  std::set<Answer> answers;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto result = ParseJson(ReadFile(entry.path().string()));
    EXPECT_TRUE(result.ok()) << entry.path() << ": " << result.status();
    const Json& of = result->at("varifocal");
    for (const Json& item : result->at("data"))
      answers.emplace(of["variant"], of["task"], of["context_length"].get<int64_t>(), item["token_ids_sha256"]);
  }
  return answers;
}

TEST(BesideAWriterTest, AnExportIsOneStateOfTheJob) {
  TemporaryDirectory directory;
  const std::string release = directory.File("release"), suites = directory.File("suites"),
                    path = directory.File("results.db");
  helmet::WriteRelease(release);
  const ProcessResult imported = RunProcess(
      "varifocal", {"suites", "import-helmet", absl::StrCat("--checkout=", release),
                    absl::StrCat("--data=", release, "/data"), absl::StrCat("--out=", suites), "--configs=rag",
                    absl::StrCat("--length-tokenizer=", helmet::kReleaseFolder, "/length_tokenizer")});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  DaemonProcess daemon({absl::StrCat("--db=", path), "--model=baseline=models/baseline",
                        "--model=focal=models/focal-constant", "--in-flight=2"});
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  const ProcessResult submitted =
      RunProcess("varifocal", {"submit", absl::StrCat(suites, "/helmet_rag.yaml"), absl::StrCat("--daemon=", address),
                               "--models=baseline,focal,baseline@t=0.7,focal@t=0.7", "--limit=3"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;

  std::vector<std::set<Answer>> exports;
  for (bool is_last = false; !is_last;) {
    is_last = db::IsSettled((*db::Reader::Open(path))->Job(1)->state);
    const std::string out = directory.File(absl::StrCat("export-", exports.size()));
    const ProcessResult exported = RunProcess(
        "varifocal", {"export", "--format=helmet", absl::StrCat("--db=", path), absl::StrCat("--out=", out)});
    if (exported.exit_code != 0) {
      EXPECT_TRUE(absl::StrContains(exported.err, "no answers")) << exported.err;
      EXPECT_FALSE(fs::exists(out));
      continue;
    }
    exports.push_back(ExportedAnswers(out));
  }
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(60), 0) << daemon.Errors();

  const std::vector<Answer> stored = StoredAnswers(path);
  ExpectWhole(path, std::ssize(stored));
  ASSERT_FALSE(exports.empty());
  EXPECT_LT(exports[0].size(), stored.size()) << "none ran beside the job";
  for (const std::set<Answer>& answers : exports) {
    const std::set<Answer> first(stored.begin(), stored.begin() + std::ssize(answers));
    EXPECT_TRUE(answers == first) << answers.size() << " answers are not the first ones";
  }
  EXPECT_EQ(exports.back().size(), stored.size());
}

TEST(BesideAWriterTest, AReportIsOneStateOfTheJob) {
  TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  BackgroundProcess writer("varifocal", {"run", "tests/integration/tiny.yaml", "--models=baseline",
                                         "--model=baseline=models/baseline", absl::StrCat("--db=", path)});
  ASSERT_TRUE(writer.WaitForFile(path, 60)) << writer.Errors();
  std::vector<int64_t> answer_counts;  // by report
  for (bool is_last = false; !is_last;) {
    is_last = !writer.IsRunning();
    const ProcessResult reported =
        RunProcess("varifocal", {"report", absl::StrCat("--db=", path), "--format=json", "--out=-"});
    if (reported.exit_code != 0) {
      EXPECT_TRUE(absl::StrContains(reported.err, "is empty") ||  // its tables are not made yet
                  absl::StrContains(reported.err, "no jobs"))
          << reported.err;
      continue;
    }
    // Each of these tables is read by another query.
    int64_t of_cells = 0, of_depths = 0, of_work = 0;
    const Json rows = ParseJson(reported.out).value();
    for (const Json& row : rows) {
      const std::string kind = row.value("kind", "");
      const bool is_of_a_task = row.contains("task") && row["task"].is_string() && row["task"] != "";
      if (kind == "work") {
        of_work += row["answer_count"].get<int64_t>();
      } else if (kind == "depth") {
        of_depths += is_of_a_task ? 0 : row["sample_count"].get<int64_t>();
      } else if (kind.empty() && is_of_a_task && row["is_primary_metric"] == true) {
        of_cells += row["answered_count"].get<int64_t>();
      }
    }
    EXPECT_EQ(of_cells, of_work) << reported.out;
    EXPECT_EQ(of_depths, of_work) << reported.out;
    answer_counts.push_back(of_work);
  }
  EXPECT_EQ(writer.Wait(60), 0) << writer.Errors();
  ASSERT_FALSE(answer_counts.empty());
  EXPECT_LT(answer_counts.front(), answer_counts.back()) << "none ran beside the job";
  EXPECT_EQ(answer_counts.back(), 80);
  ExpectWhole(path, 80);
}

// The pairs and the cut answers are read by two queries. Every answer is cut, and those of a question are stored one after
// the other, so there are as many pairs as cut answers of the variant with fewer.
TEST(BesideAWriterTest, AComparisonIsOneStateOfTheJob) {
  constexpr int kQuestionCount = 80;
  TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < kQuestionCount; ++i) {
    std::string question = "{\"rural mask\":\"lark\"} ";
    for (int word = 0; word < 100; ++word) absl::StrAppend(&question, "word", i, " ");
    question += "\n\n\"rural mask\":";  // a value follows, so the answer does not end before it is cut
    absl::StrAppend(&rows, Json{{"q", question}, {"a", "yes"}}.dump(), "\n");
  }
  std::ofstream(directory.File("rows.jsonl")) << rows;
  std::ofstream(directory.File("cut.yaml"))
      << "name: cut\nlengths: [1024]\nsamples: " << kQuestionCount
      << "\ntasks:\n  - kind: jsonl\n    name: mine\n    metrics: [exact_match]\n"
         "    parameters: {path: rows.jsonl, prompt: \"{q}\", gold: a, max_new_tokens: 1}\n";
  const std::string path = directory.File("results.db");
  BackgroundProcess writer("varifocal", {"run", directory.File("cut.yaml"), "--models=baseline,baseline@t=0.7",
                                         "--model=baseline=models/baseline", absl::StrCat("--db=", path)});
  ASSERT_TRUE(writer.WaitForFile(path, 60)) << writer.Errors();
  std::vector<int64_t> pair_counts;  // by comparison
  for (bool is_last = false; !is_last;) {
    is_last = !writer.IsRunning();
    const ProcessResult compared = RunProcess(
        "varifocal",
        {"compare", absl::StrCat("--db=", path), "--baseline=baseline", "--candidate=baseline@t=0.7", "--format=json"});
    if (compared.exit_code != 0) {
      EXPECT_TRUE(absl::StrContains(compared.err, "is empty") || absl::StrContains(compared.err, "no jobs") ||
                  absl::StrContains(compared.err, "that both"))
          << compared.err;
      continue;
    }
    const Json results = ParseJson(compared.out).value();
    for (const Json& row : results) {
      if (row["kind"] != "cell") continue;
      pair_counts.push_back(row["sample_count"].get<int64_t>());
      EXPECT_EQ(pair_counts.back(),
                std::min(row["baseline_cut_count"].get<int64_t>(), row["candidate_cut_count"].get<int64_t>()));
    }
  }
  EXPECT_EQ(writer.Wait(60), 0) << writer.Errors();
  ASSERT_FALSE(pair_counts.empty());
  EXPECT_LT(pair_counts.front(), pair_counts.back()) << "none ran beside the job";
  EXPECT_EQ(pair_counts.back(), kQuestionCount);
}

TEST(BesideAWriterTest, AMergeWaitsForTheLastShard) {
  TemporaryDirectory directory;
  const std::string whole = directory.File("whole.db"), first = directory.File("first.db"),
                    second = directory.File("second.db"), out = directory.File("out.db");
  const auto run = [](const std::string& path, const std::string& shard) {
    std::vector<std::string> arguments = {"run", "tests/integration/tiny.yaml", "--models=baseline,baseline@t=0.7",
                                          "--model=baseline=models/baseline", absl::StrCat("--db=", path)};
    if (!shard.empty()) arguments.push_back(absl::StrCat("--shard=", shard));
    return arguments;
  };
  for (const auto& [path, shard] : {std::pair{whole, ""}, {first, "1/2"}}) {
    const ProcessResult ran = RunProcess("varifocal", run(path, shard), {.seconds_max = 280});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
  }
  BackgroundProcess writer("varifocal", run(second, "2/2"));
  ASSERT_TRUE(writer.WaitForFile(second, 60)) << writer.Errors();
  int refusal_count = 0;
  for (bool is_last = false, is_merged = false; !is_last && !is_merged;) {
    is_last = !writer.IsRunning();
    const ProcessResult merged = RunProcess("varifocal", {"merge", absl::StrCat("--out=", out), first, second});
    is_merged = merged.exit_code == 0;
    if (is_merged) continue;
    refusal_count += absl::StrContains(merged.err, "is running");
    for (const auto& entry : fs::directory_iterator(directory.path()))
      EXPECT_FALSE(absl::StartsWith(entry.path().filename().string(), "out.db")) << entry.path();
  }
  EXPECT_GT(refusal_count, 0) << "none ran beside the job";
  EXPECT_EQ(writer.Wait(60), 0) << writer.Errors();
  ASSERT_TRUE(fs::exists(out));
  const int64_t answer_count = std::ssize(StoredAnswers(whole));
  ExpectWhole(whole, answer_count);
  ExpectWhole(out, answer_count);
  EXPECT_EQ(RunProcess("varifocal", {"diff", whole, out}).exit_code, 0);
}

}  // namespace
}  // namespace varifocal

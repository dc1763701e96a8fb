// HELMET end to end with the built programs: a synthetic release is imported, run by a daemon (with and without a chat
// format), exported under upstream's names, scored by a judge, and reported. The prompts must equal those of upstream's
// code for the same files, tokenizer and chat template (testdata/golden.json has digests of their token ids);
// recipes/helmet_side_by_side.py continues with upstream's program.
#include <signal.h>

#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

namespace fs = std::filesystem;

std::string HelmetFlag(const std::string& name, const std::string& value) {
  return absl::StrCat("--", name, "=", value);
}

// Exported files of one variant by "config dataset length", as golden.json calls them.
std::map<std::string, fs::path> Exported(const fs::path& folder, const std::string& config) {
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json args = ParseJson(ReadFile(entry.path().string()))->at("args");
    files[absl::StrCat(config, " ", args["datasets"].get<std::string>(), " ", args["input_max_length"].get<int>())] =
        entry.path();
  }
  return files;
}

TEST(HelmetJourneyTest, FromAReleaseToAJudgedReport) {
  TemporaryDirectory directory;
  const std::string release = directory.File("release"), suites = directory.File("suites"),
                    database = directory.File("results.db"), chat_model = directory.File("chat");
  helmet::WriteRelease(release);
  fs::copy("models/baseline", chat_model);
  WriteFile(chat_model + "/chat_format.json",
            Json{{"template_sha256", std::string(64, 'c')},
                 {"without_system", {{"prefix", "<|user|>\n"}, {"suffix", "\n<|assistant|>"}}},
                 {"with_system", nullptr}}
                .dump());
  const ProcessResult imported = RunProcess(
      "varifocal", {"suites", "import-helmet", HelmetFlag("checkout", release), HelmetFlag("data", release + "/data"),
                    HelmetFlag("out", suites), "--configs=rag,longqa",
                    HelmetFlag("length-tokenizer", absl::StrCat(helmet::kReleaseFolder, "/length_tokenizer"))});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;

  DaemonProcess daemon({HelmetFlag("db", database), "--model=plain=models/baseline",
                        HelmetFlag("model", "chatty=" + chat_model), HelmetFlag("model", "twin=" + chat_model)});
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  const auto submit = [&](const std::string& suite, const std::string& models) {
    return RunProcess("varifocal",
                      {"submit", absl::StrCat(suites, "/", suite, ".yaml"), HelmetFlag("daemon", address),
                       HelmetFlag("models", models), "--limit=3", "--wait"},
                      {.seconds_max = 280});
  };
  const ProcessResult rag = submit("helmet_rag", "plain");
  ASSERT_EQ(rag.exit_code, 0) << rag.err << rag.out;
  const ProcessResult longqa = submit("helmet_longqa", "chatty,twin");
  ASSERT_EQ(longqa.exit_code, 0) << longqa.err << longqa.out;
  const ProcessResult refused = submit("helmet_longqa", "plain");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE((refused.err + refused.out).find("chat_format.json"), std::string::npos) << refused.err << refused.out;
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(30), 0) << daemon.Errors();

  const Json golden = ParseJson(ReadFile(absl::StrCat(helmet::kReleaseFolder, "/golden.json"))).value();
  int prompt_count = 0;
  for (const auto& [job, variant, config] : {std::tuple{"1", "plain", "rag"}, std::tuple{"2", "chatty", "longqa"}}) {
    const std::string output = directory.File(absl::StrCat("output", job));
    const ProcessResult exported =
        RunProcess("varifocal", {"export", "--format=helmet", HelmetFlag("db", database), HelmetFlag("job", job),
                                 HelmetFlag("out", output), "--tag=v1", HelmetFlag("tokenizer", chat_model)});
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    const auto files = Exported(output + "/" + variant, config);
    EXPECT_EQ(files.size(), 6u) << "three datasets at two lengths";
    for (const auto& [cell, path] : files) {
      ASSERT_TRUE(golden.contains(cell)) << cell;
      const Json result = ParseJson(ReadFile(path.string())).value();
      ASSERT_EQ(result["data"].size(), 3u) << cell;
      for (size_t i = 0; i < 3; ++i) {
        const Json& item = result["data"][i];
        EXPECT_EQ(item["token_ids_sha256"].get<std::string>().substr(0, 16), golden[cell][i]["ids"]) << cell << i;
        EXPECT_EQ(item["input_len"], golden[cell][i]["count"]) << cell << i;
        const std::string begin = variant == std::string("chatty") ? "<|user|>\n" : "<|begin|>";
        EXPECT_EQ(item["input_text"].get<std::string>().substr(0, begin.size()), begin);
        ++prompt_count;
      }
      EXPECT_EQ(ParseJson(ReadFile(path.string() + ".score")).value(), result["averaged_metrics"]);
    }
  }
  EXPECT_EQ(prompt_count, 36);

  // Answers of another engine to the same prompts are compared with ours, although they are a separate job.
  std::string answers;
  for (const auto& [cell, path] : Exported(directory.File("output1/plain"), "rag")) {
    const Json result = ParseJson(ReadFile(path.string())).value();
    for (const Json& item : result["data"])
      answers += Json{{"token_ids_sha256", item["token_ids_sha256"]}, {"prediction", item["answer"][0]}}.dump() + "\n";
  }
  WriteFile(directory.File("answers.jsonl"), answers);
  const ProcessResult elsewhere = RunProcess(
      "varifocal", {"import", suites + "/helmet_rag.yaml", HelmetFlag("predictions", directory.File("answers.jsonl")),
                    "--name=elsewhere", "--tokenizer=models/baseline", "--limit=3", HelmetFlag("db", database)});
  ASSERT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  const ProcessResult compared = RunProcess("varifocal", {"compare", HelmetFlag("db", database), "--baseline=plain",
                                                          "--candidate=elsewhere", "--format=json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const Json rows = ParseJson(compared.out).value();
  int64_t pair_count = 0;
  for (const Json& row : rows) {
    if (row["kind"] != "cell" || row["metric"] != "helmet/default/substring_exact_match") continue;
    pair_count += row["sample_count"].get<int64_t>();
    EXPECT_EQ(row["candidate_mean"], 1.0) << row;
    EXPECT_EQ(row["imported"], "candidate");
    EXPECT_EQ(row["candidate_job"], 3);
    EXPECT_EQ(row["candidate_left_out_count"], 0);
  }
  EXPECT_EQ(pair_count, 18);

  // The output of upstream's judge: the exported file with added scores.
  const auto judged = Exported(directory.File("output2/chatty"), "longqa").at("longqa narrativeqa_700 1200");
  Json result = ParseJson(ReadFile(judged.string())).value();
  for (size_t i = 0; i < 3; ++i) result["data"][i]["gpt-4-scores"] = {{"fluency", 1}, {"correctness", i + 1}};
  const std::string judgments = directory.File("judged-gpt4eval_o.json");
  WriteFile(judgments, result.dump());
  const ProcessResult scored =
      RunProcess("varifocal", {"import", HelmetFlag("db", database), HelmetFlag("judgments", judgments)});
  ASSERT_EQ(scored.exit_code, 0) << scored.err;
  EXPECT_THAT(scored.out, MessageIn("jobs/2", 3, "imported/gpt-4-score"));
  const ProcessResult report = RunProcess(
      "varifocal", {"report", HelmetFlag("db", database), "--job=2", HelmetFlag("out", directory.File("r.html"))});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const std::string page = ReadFile(directory.File("r.html"));
  EXPECT_NE(page.find("judged-gpt4eval_o.json"), std::string::npos);
  EXPECT_NE(page.find("helmet/default/rougeL_f1"), std::string::npos);
}

}  // namespace
}  // namespace varifocal

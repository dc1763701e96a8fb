// The verbs that need a model, on a real daemon in another process and on the embedded server, with the smallest
// shipped checkpoint. Both must give the same answers.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "db/reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kModel[] = "models/baseline";

std::set<std::string> Keys(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

class DaemonVerbsTest : public testing::Test {
 protected:
  DaemonVerbsTest()
      : database_(directory_.File("results.db")),
        daemon_({"--db=" + database_, absl::StrCat("--model=baseline=", kModel), "--model=focal=models/focal-constant",
                 "--threads=1"}) {}
  void SetUp() override {
    const std::string address = daemon_.Address();
    ASSERT_NE(address, "") << daemon_.Errors();
    address_ = "--daemon=" + address;
  }
  Ran Ask(std::vector<std::string> args) {
    args.push_back(address_);
    return Varifocal(args);
  }

  testing_support::TemporaryDirectory directory_;
  std::string database_, address_;
  testing_support::DaemonProcess daemon_;
};

TEST_F(DaemonVerbsTest, ModelsComeAndGo) {
  EXPECT_THAT(Ask({"load", "learned=models/focal-learned"}), Prints(Message()));
  EXPECT_THAT(Ask({"models"}).out, HasSubstr("learned"));
  EXPECT_THAT(Ask({"load", "learned=models/baseline"}).err, HasSubstr("learned"));
  EXPECT_THAT(Ask({"unload", "learned"}), Prints(Message("learned")));
  EXPECT_EQ(Ask({"models"}).out.find("learned"), std::string::npos);
  EXPECT_EQ(Ask({"unload", "learned"}).code, ExitCode::kFailed);
  EXPECT_EQ(Ask({"load", "learned"}).code, ExitCode::kWrongUsage);
}

TEST_F(DaemonVerbsTest, ADryRunLeavesNoDatabase) {
  const std::string path = directory_.File("dry.db");
  EXPECT_THAT(Varifocal({"run", "quick", "--model=baseline=models/baseline", "--db=" + path, "--lengths=1K",
                         "--tasks=recall_kv", "--limit=4", "--dry-run"}),
              Prints(Message()));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

// A row that is too long fails for itself, also where it is not the first: the dry run names it and is not refused.
TEST_F(DaemonVerbsTest, ADryRunNamesRowsThatAreTooLong) {
  std::string rows;
  for (int row = 0; row < 6; ++row) {
    std::string text;
    for (int i = 0; i < (row == 0 || row == 4 ? 400 : 4); ++i) text += "some words. ";
    rows += absl::StrCat(R"({"text": ")", text, R"(", "answer": "words"})", "\n");
  }
  testing_support::WriteFile(directory_.File("rows.jsonl"), rows);
  const std::string suite = directory_.File("suite.yaml");
  testing_support::WriteFile(suite,
                             "name: mine\nlengths: [256]\ntasks:\n  - name: mine\n    kind: jsonl\n"
                             "    parameters: {path: rows.jsonl, prompt: \"{text}\", gold: answer}\n");
  EXPECT_THAT(
      Varifocal({"run", suite, "--model=baseline=models/baseline", "--db=" + directory_.File("dry.db"), "--dry-run"}),
      Prints(AllOf(HasSubstr("samples               6"), MessageIn("2 of 6", "\"mine\"", 256, "row 1"))));
}

// Rows of a file at two lengths, which no prompt reaches, are one row of the table, named by the prompts.
TEST_F(DaemonVerbsTest, ARunNamesALengthThatNoPromptReaches) {
  testing_support::WriteFile(directory_.File("rows.jsonl"), "{\"text\": \"some words\", \"answer\": \"words\"}\n");
  const std::string suite = directory_.File("suite.yaml");
  testing_support::WriteFile(suite,
                             "name: mine\nlengths: [256, 512]\ntasks:\n  - name: mine\n    kind: jsonl\n"
                             "    parameters: {path: rows.jsonl, prompt: \"{text}\", gold: answer}\n");
  EXPECT_THAT(Varifocal({"run", suite, "--model=baseline=models/baseline", "--db=" + directory_.File("short.db")}),
              Prints(AllOf(testing::ContainsRegex("exact_match +[0-9]+ prompt tokens "), Not(HasSubstr("256")),
                           Not(HasSubstr("512")))));
}

// `baseline` was trained at 1, `focal` at 0.4. What --models names is asked even so.
TEST_F(DaemonVerbsTest, ATemperatureOfTrainingIsNotAskedAgain) {
  const Ran submitted =
      Done(Ask({"submit", "quick", "--models=baseline,focal,focal@t=0.4", "--focal-temperatures=0.4,1",
                "--focal-layers=all,early,full", "--lengths=256", "--limit=1", "--tasks=recall_kv", "--format=json"}));
  EXPECT_THAT(submitted.err, Message("baseline@t=1", "baseline@early-t=1", "baseline@full-t=1", "focal@early-t=0.4"));
  const auto job = ParseJson(submitted.out);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)["variants"],
            Json({"baseline", "baseline@t=0.4", "baseline@early-t=0.4", "baseline@full-t=0.4", "focal", "focal@t=0.4",
                  "focal@t=1", "focal@early-t=1", "focal@full-t=0.4", "focal@full-t=1"}));
  EXPECT_EQ(Ask({"watch", "1"}).code, ExitCode::kDone);
  const Ran deleted = Ask({"delete", "1"});
  EXPECT_THAT(deleted.out, Message("jobs/1", "10")) << deleted.err;
  EXPECT_THAT(Ask({"delete", "1"}).err, Message("jobs/1"));
}

TEST_F(DaemonVerbsTest, AJobFromSubmitToCompare) {
  const std::vector<std::string> submit = {
      "submit", "quick", "--models=baseline,focal", "--lengths=256,512", "--limit=4", "--tasks=recall_kv,icl_labels"};
  std::vector<std::string> dry = submit;
  dry.push_back("--dry-run");
  EXPECT_THAT(Ask(dry), Prints(AllOf(HasSubstr("samples               32"), MessageIn("1 candidate", "2 lengths"),
                                     HasSubstr("Nothing was stored."))));
  EXPECT_THAT(Ask({"list"}).out, Message());

  EXPECT_THAT(Ask(submit), Prints(HasSubstr("jobs/1 ")));
  const Ran again = Ask(submit);
  EXPECT_THAT(again, Prints(HasSubstr("jobs/1 ")));
  EXPECT_THAT(again.err, Message("jobs/1"));
  EXPECT_THAT(Ask({"watch", "1"}), Prints(Message("jobs/1", "32")));
  const Ran shown = Ask({"show", "jobs/1", "--format=json"});
  const auto job = ParseJson(shown.out);
  ASSERT_TRUE(job.ok()) << shown.out << shown.err;
  EXPECT_EQ(job->at("cells").size(), 8u);
  EXPECT_EQ(job->at("cells")[0].at("missing_count"), 0);
  EXPECT_THAT(Ask({"list"}).out, HasSubstr("32/32"));
  EXPECT_EQ(Ask({"resume", "1"}).code, ExitCode::kDone) << "no missing samples: no effect";
  EXPECT_EQ(Ask({"watch", "2"}).code, ExitCode::kFailed);
  std::vector<std::string> other_job = submit;
  other_job.push_back("--new");
  EXPECT_THAT(Ask(other_job).out, HasSubstr("jobs/2 "));
  // Other weights under the same name are no repetition: refused with both values, and asked as a new job.
  EXPECT_EQ(Ask({"watch", "2"}).code, ExitCode::kDone);
  EXPECT_EQ(Ask({"unload", "focal"}).code, ExitCode::kDone);
  EXPECT_EQ(Ask({"load", "focal=models/focal-learned"}).code, ExitCode::kDone);
  const Ran changed = Ask(submit);
  EXPECT_THAT(changed, FailsWith(AllOf(HasSubstr("another weights"), HasSubstr("--new"))));
  EXPECT_EQ(changed.out, "");
  EXPECT_THAT(Ask(other_job).out, HasSubstr("jobs/3 "));
  EXPECT_EQ(Ask({"watch", "3"}).code, ExitCode::kDone);
  // While the daemon has the database open, readers are allowed.
  const Ran compared =
      Done(Varifocal({"compare", "--db=" + database_, "--baseline=baseline", "--candidate=focal", "--format=json"}));
  // A file gives the same as its daemon.
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"list"},
                                               {"list", "--limit=2"},
                                               {"list", "--all", "--format=json"},
                                               {"show", "1", "--format=json"},
                                               {"show", "jobs/3"}}) {
    std::vector<std::string> stored = verb;
    stored.push_back("--db=" + database_);
    const Ran from_file = Done(Varifocal(stored)), from_daemon = Ask(verb);
    EXPECT_EQ(from_file.out, from_daemon.out);
    EXPECT_EQ(from_file.err, from_daemon.err);
  }
  EXPECT_EQ(Ask({"list", "--db=" + database_}).code, ExitCode::kWrongUsage) << "two places";
  EXPECT_EQ(Varifocal({"show", "9", "--db=" + database_}).code, ExitCode::kFailed);
  // A second writer is refused.
  EXPECT_THAT(Varifocal({"run", "quick", absl::StrCat("--model=a=", kModel), "--db=" + database_, "--limit=1"}),
              FailsWith(HasSubstr(absl::StrCat(daemon_.pid()))));
}

TEST_F(DaemonVerbsTest, WhatTheDaemonRefusesIsOneSentence) {
  struct Case {
    std::vector<std::string> args;
    const char* words;
  };
  for (const Case& c : std::vector<Case>{
           {{"submit", "quick", "--models=basline"}, "baseline"},
           {{"show", "7"}, "jobs/7"},
           {{"cancel", "7"}, "jobs/7"},
           {{"models", "none"}, "none"},
           {{"tokenize", "--model=none", "--text=a"}, "none"},
           {{"generate", "--model=baseline", "--prompt=a", "--max-new-tokens=1000000"}, "1000000"},
           {{"generate", "--model=baseline", "--prompt=a", "--max-new-tokens=1", "--focal-temperature=0.5,0.5"}, "2"},
       }) {
    const Ran ran = Ask(c.args);
    EXPECT_THAT(ran, FailsWith(HasSubstr(c.words)));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST_F(DaemonVerbsTest, HereAndThereGiveTheSame) {
  const std::string prompt = directory_.File("prompt"), one = directory_.File("one"), two = directory_.File("two");
  testing_support::WriteFile(prompt, "Find the key in the JSON object and copy its value. ");
  testing_support::WriteFile(one, "The door");
  testing_support::WriteFile(two, "\n\n{\"");
  const std::vector<std::vector<std::string>> table = {
      {"tokenize", "--file=" + prompt},
      {"generate", "--prompt-file=" + prompt, "--max-new-tokens=8", "--ignore-eos"},
      {"generate", "--prompt-file=" + prompt, "--max-new-tokens=8", "--sampling-temperature=1", "--top-p=0.9",
       "--seed=3"},
      {"generate", "--prompt-file=" + prompt, "--max-new-tokens=4", "--focal-temperature=0.5"},
      {"score", "--prompt-file=" + prompt, "--per-token"},
      {"score", "--prompt-file=" + prompt, "--continuation-file=" + one, "--continuation-file=" + two, "--per-token"},
  };
  for (std::vector<std::string> args : table) {
    args.push_back("--format=json");
    std::vector<std::string> here = args;
    here.push_back(absl::StrCat("--model=", kModel));
    std::vector<std::string> there = args;
    there.push_back("--model=baseline");
    const Ran local = Done(Varifocal(here)), remote = Ask(there);
    EXPECT_EQ(local.out, remote.out) << args[0] << ": " << remote.err;
  }
}

// One answer in a new file.
void RunJob(const std::string& database) {
  const Ran ran = Done(Varifocal({"run", "quick", "--tasks=recall_kv", "--lengths=512", "--limit=1", "--db=" + database,
                                  absl::StrCat("--model=focal=", kModel)}));
}

TEST_F(DaemonVerbsTest, ScoresDoNotGoToAJobOfTheSameNumberElsewhere) {
  const std::string other = directory_.File("other.db");
  RunJob(other);
  testing_support::DaemonProcess owner({"--db=" + other, "--threads=1"});
  ASSERT_NE(owner.Address(), "") << owner.Errors();
  const auto rescore = [&](const std::string& address) {
    return Varifocal({"rescore", "--db=" + other, "--command=sed 's/.*/1/'", "--metric=mine", "--daemon=" + address});
  };
  EXPECT_THAT(rescore(daemon_.Address()), FailsWith(Message("jobs/1")));
  EXPECT_EQ(rescore(owner.Address()).code, ExitCode::kDone);
  RunJob(directory_.File("third.db"));
  testing_support::DaemonProcess third({"--db=" + directory_.File("third.db"), "--threads=1"});
  EXPECT_THAT(rescore(third.Address()), FailsWith(Message("jobs/1", other)));
}

TEST_F(DaemonVerbsTest, AFileAboveTheLimitOfACallGoesInParts) {
  const std::string other = directory_.File("other.db"), path = directory_.File("judgments.jsonl");
  RunJob(other);
  std::ofstream file(path);
  for (int i = 0; i < 100'001; ++i) {
    file << absl::StrFormat(R"({"token_ids_sha256": "%064x", "variant": "focal", "scores": {"mine": 1}})", i) << "\n";
  }
  const std::string known = *(*db::Reader::Open(other))->Samples({.job_id = 1})->front().sample.token_ids_sha256;
  file << R"({"token_ids_sha256": ")" << known << R"(", "variant": "focal", "scores": {"mine": 1}})"
       << "\n";
  file.close();
  testing_support::DaemonProcess owner({"--db=" + other, "--threads=1"});
  const Ran ran = Varifocal({"import", "--judgments=" + path, "--format=json", "--daemon=" + owner.Address()});
  EXPECT_EQ(ran.code, ExitCode::kFailed) << "some belong to no answer";
  const Json result = *ParseJson(ran.out);
  EXPECT_EQ(result["value_count"], 1) << ran.out;
  EXPECT_EQ(result["unknown_count"], 100'001);
}

TEST_F(DaemonVerbsTest, OutputsHaveTheDocumentedKeys) {
  const Ran generated = Ask(
      {"generate", "--model=baseline", "--prompt=Find the key", "--max-new-tokens=3", "--ignore-eos", "--format=json"});
  const Json generation = *ParseJson(generated.out);
  EXPECT_EQ(Keys(generation), (std::set<std::string>{"prompt_token_count", "token_ids", "text", "finish_reason"}));
  EXPECT_EQ(generation.at("token_ids").size(), 3u);
  EXPECT_EQ(generation.at("finish_reason"), "length");

  EXPECT_THAT(Ask({"generate", "--model=baseline", "--prompt=Find the key", "--max-new-tokens=1", "--ignore-eos"}).err,
              Message("1"));

  const Ran scored = Ask({"score", "--model=baseline", "--prompt=Find the key", "--per-token", "--format=json"});
  const Json score = *ParseJson(scored.out);
  EXPECT_EQ(Keys(score), (std::set<std::string>{"token_ids", "token_log_probs", "log_likelihood", "continuations"}));
  ASSERT_EQ(score.at("token_log_probs").size(), score.at("token_ids").size());
  EXPECT_TRUE(score.at("token_log_probs")[0].is_null());
  double sum = 0;
  for (const Json& value : score.at("token_log_probs")) sum += value.is_null() ? 0 : value.get<double>();
  EXPECT_NEAR(score.at("log_likelihood").get<double>(), sum,
              1e-9 * score.at("token_ids").size() * 20);  // double sums of < 20 each

  const Ran placed = Ask({"score", "--model=baseline", "--prompt=Find the key in the JSON object and copy its value.",
                          "--by-position", "--format=json"});
  const Json by_position = *ParseJson(placed.out);
  EXPECT_EQ(Keys(by_position), (std::set<std::string>{"token_ids", "positions", "log_likelihood", "continuations"}));
  double total = 0;
  int64_t next = 1;
  for (const Json& range : by_position.at("positions")) {
    EXPECT_EQ(range.at("first"), next);
    next = range.at("last").get<int64_t>() + 1;
    EXPECT_EQ(range.at("token_count"), next - range.at("first").get<int64_t>());
    total += range.at("log_likelihood_per_token").get<double>() * range.at("token_count").get<double>();
  }
  EXPECT_EQ(next, by_position.at("token_ids").size());
  EXPECT_NEAR(total, by_position.at("log_likelihood").get<double>(), 1e-6);
  EXPECT_THAT(Ask({"score", "--model=baseline", "--prompt=a", "--continuation=b", "--by-position"}).err,
              HasSubstr("--by-position"));

  const Ran continued = Ask({"score", "--model=baseline", "--prompt=Find the ", "--continuation=key", "--format=json"});
  const Json continuation = ParseJson(continued.out)->at("continuations")[0];
  EXPECT_EQ(Keys(continuation), (std::set<std::string>{"log_likelihood", "token_count", "is_greedy"}));
  // The prompt's trailing space is moved: " key" is one token of this tokenizer.
  EXPECT_EQ(continuation.at("token_count"), 1);
}

// The job was left running by a daemon that was killed, and the next one does not have its model.
TEST(ReasonsTest, ListAndShowSayWhyAJobFailed) {
  testing_support::TemporaryDirectory directory;
  const std::string database = directory.File("results.db");
  {
    testing_support::DaemonProcess first({"--db=" + database, "--model=gone=models/baseline", "--threads=1"});
    const std::string address = "--daemon=" + first.Address();
    ASSERT_EQ(Varifocal({"submit", "quick", "--models=gone", address}).code, ExitCode::kDone);
    first.Signal(SIGKILL);
    first.Wait(60);
  }
  testing_support::DaemonProcess daemon({"--db=" + database, "--model=other=models/baseline", "--threads=1"});
  const std::string address = "--daemon=" + daemon.Address();
  while (Varifocal({"list", address}).out.find("jobs/1 failed:") == std::string::npos) usleep(10'000);
  EXPECT_THAT(Varifocal({"list", address}).out, MessageIn("jobs/1 failed:", "no model", "gone"));
  const std::string shown = Varifocal({"show", "1", address}).out;
  const std::vector<std::string> lines = absl::StrSplit(shown, '\n');
  EXPECT_THAT(lines.at(1), HasSubstr("no model \"gone\"")) << shown;
}

bool Catches(pid_t pid, int signal) {
  const std::string status = testing_support::ReadFile(absl::StrCat("/proc/", pid, "/status"));
  const size_t at = status.find("SigCgt:");
  return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (signal - 1) & 1) != 0;
}

TEST(InterruptTest, SaysWhatHappensToTheJob) {
  testing_support::TemporaryDirectory directory;
  const std::string database = directory.File("results.db");
  // A program that was started in the background ignores them, and so would those that it starts.
  const auto interrupt = ::signal(SIGINT, SIG_DFL), hangup = ::signal(SIGHUP, SIG_DFL);
  for (const int signal : {SIGINT, SIGHUP}) {
    testing_support::BackgroundProcess run(
        "varifocal", {"run", "quick", "--model=a=models/baseline", "--models=a", "--lengths=2K", "--db=" + database});
    // Until the verb follows the job, the signal has its default action.
    while (run.IsRunning() && !Catches(run.pid(), signal)) usleep(5'000);
    run.Signal(signal);
    EXPECT_EQ(run.Wait(60), 128 + signal);
    EXPECT_THAT(run.Errors(), MessageIn("jobs/1", "same command"));
    EXPECT_THAT(Varifocal({"list", "--db=" + database}).out, HasSubstr("queued")) << "an orderly end, not a crash";
  }
  EXPECT_EQ(Varifocal({"delete", "1", "--db=" + database}).code, ExitCode::kDone);
  ::signal(SIGINT, interrupt);
  ::signal(SIGHUP, hangup);
}

// No tokenizer.json: loaded, with a warning that names the file in the log, and in `models`.
TEST(TokenizerTest, AModelWithoutOneIsNamedAtTheStart) {
  testing_support::TemporaryDirectory directory;
  const std::string model = directory.File("model");
  std::filesystem::create_directory(model);
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::absolute(absl::StrCat(kModel, "/", name)),
                                    absl::StrCat(model, "/", name));
  }
  testing_support::DaemonProcess daemon({"--db=" + directory.File("r.db"), "--model=bare=" + model, "--threads=1"});
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  EXPECT_THAT(daemon.Errors(), HasSubstr(model + "/tokenizer.json"));
  EXPECT_THAT(Varifocal({"models", "--daemon=" + address}).out, MessageIn("bare", "tokenizer.json", model));
}

TEST(RunTest, ASuiteWithoutADaemonGoesOnWhereItWas) {
  testing_support::TemporaryDirectory directory;
  const std::string database = directory.File("results.db");
  std::vector<std::string> args = {"run",           "quick",     "--model=a=models/baseline", "--models=a,a@t=0.7",
                                   "--lengths=256", "--limit=4", "--tasks=icl_labels",        "--db=" + database};
  EXPECT_THAT(Varifocal(args), Prints(AllOf(HasSubstr("jobs/1 succeeded: 8 of 8 samples answered"),
                                            HasSubstr("a@t=0.7"), HasSubstr("icl_labels"))));
  const Ran again = Done(Varifocal(args));
  EXPECT_THAT(again.err, Message("jobs/1", "8"));
  args.push_back("--seed=2");
  EXPECT_THAT(Varifocal(args).out, HasSubstr("jobs/2 succeeded"));
  EXPECT_EQ(Varifocal({"run", "quick", "--model=models/baseline", "--db=" + database}).code, ExitCode::kWrongUsage);
  EXPECT_EQ(Varifocal({"run", "quick", "--model=a=no/such", "--db=" + directory.File("b.db")}).code, ExitCode::kFailed);
}

}  // namespace
}  // namespace varifocal::client

// Several answers to each question, by the built program on a shipped model. Method: the same job twice with other batches and
// as two shards, whose contents must be equal bit for bit; with one epoch, whose answers are those of the first of four; then
// what `compare` and `report` state about the four.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

class EpochsTest : public testing::Test {
 protected:
  ProcessResult Ask(const std::string& database, std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"run", "quick", "--db=" + directory_.File(database), "--model=a=models/baseline",
                 "--model=b=models/focal-constant", "--tasks=recall_kv", "--lengths=512", "--limit=8", "--threads=1"});
    return RunProcess("varifocal", more, {.seconds_max = 200});
  }
  ProcessResult Read(const std::string& verb, const std::string& database, std::vector<std::string> more) const {
    more.insert(more.begin(), {verb, "--db=" + directory_.File(database)});
    return RunProcess("varifocal", more, {.seconds_max = 60});
  }
  std::string Query(const std::string& database, const std::string& sql) const {
    const ProcessResult ran = Read("query", database, {"--format=csv", sql});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.out;
  }
  ProcessResult Diff(const std::string& a, const std::string& b) const {
    return RunProcess("varifocal", {"diff", directory_.File(a), directory_.File(b)}, {.seconds_max = 60});
  }

  TemporaryDirectory directory_;
};

TEST_F(EpochsTest, AnswersDependOnQuestionAndEpochAlone) {
  const std::string sampled = "--sampling-temperature=2";
  const ProcessResult ran = Ask("many.db", {"--epochs=4", sampled, "--in-flight=16"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, MessageIn("64 of 64"));
  EXPECT_THAT(ran.out, MessageIn("4 answers", "mean"));
  ASSERT_EQ(Ask("one.db", {"--epochs=4", sampled, "--in-flight=1"}).exit_code, 0);
  EXPECT_EQ(Diff("many.db", "one.db").exit_code, 0) << Diff("many.db", "one.db").out;
  for (const char* shard : {"1/2", "2/2"}) {
    const ProcessResult part = Ask(std::string("shard") + shard[0] + ".db",
                                   {"--epochs=4", sampled, std::string("--shard=") + shard, "--in-flight=3"});
    ASSERT_EQ(part.exit_code, 0) << part.err;
  }
  const ProcessResult merged = RunProcess(
      "varifocal",
      {"merge", directory_.File("shard1.db"), directory_.File("shard2.db"), "--out=" + directory_.File("merged.db")});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(Diff("many.db", "merged.db").exit_code, 0);

  ASSERT_EQ(Ask("once.db", {sampled}).exit_code, 0);
  const std::string of_epoch_0 =
      "SELECT variant, question_id, answer FROM v_samples WHERE is_primary AND epoch = 0"
      " ORDER BY variant, question_id";
  EXPECT_EQ(Query("once.db", of_epoch_0), Query("many.db", of_epoch_0));
  EXPECT_EQ(Query("many.db", "SELECT epoch, count(*) AS n FROM v_samples WHERE is_primary GROUP BY epoch"),
            "epoch,n\n0,16\n1,16\n2,16\n3,16\n");
  const std::string differing =
      Query("many.db",
            "SELECT count(*) AS n FROM (SELECT 1 FROM v_samples WHERE is_primary GROUP BY variant, question_id HAVING "
            "count(DISTINCT answer) > 1)");
  EXPECT_GT(std::atoi(differing.substr(2).c_str()), 4) << differing;

  const ProcessResult compared =
      Read("compare", "many.db", {"--baseline=a", "--candidate=b", "--epochs-statistic=pass@4", "--format=json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const Json row = ParseJson(compared.out)->at(0);
  EXPECT_EQ(row.at("epochs_statistic"), "pass@4");
  EXPECT_EQ(row.at("baseline_epochs"), 4);
  EXPECT_EQ(row.at("candidate_epochs"), 4);
  EXPECT_EQ(row.at("sample_count"), 8);
  EXPECT_EQ(row.at("planned_count"), 8);
  // By hand: of four answers, any four have a right one when one is right.
  const std::string by_hand = Query(
      "many.db",
      "SELECT avg(best) AS mean FROM (SELECT max(value) AS best FROM v_samples WHERE is_primary AND variant = 'a' GROUP BY "
      "question_id)");
  EXPECT_DOUBLE_EQ(row.at("baseline_mean").get<double>(), std::atof(by_hand.substr(5).c_str()));
  for (const char* statistic : {"mean", "pass@2", "majority"}) {
    const std::string flag = std::string("--epochs-statistic=") + statistic;
    const ProcessResult text = Read("compare", "many.db", {"--baseline=a", "--candidate=b", flag});
    EXPECT_THAT(text.out, MessageIn("4 answers", statistic)) << text.err;
    const ProcessResult page = Read("report", "many.db", {"--out=-", flag});
    EXPECT_THAT(page.out, HasSubstr("Every question has 4 answers")) << page.err;
  }
  const ProcessResult too_many =
      Read("compare", "many.db", {"--baseline=a", "--candidate=b", "--epochs-statistic=pass@5"});
  EXPECT_EQ(too_many.exit_code, 1);
  EXPECT_THAT(too_many.err, Message("pass@5", "4"));
  const ProcessResult unknown =
      Read("compare", "many.db", {"--baseline=a", "--candidate=b", "--epochs-statistic=median"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, Message("median", "pass@4"));
}

// Another engine gets a prompt and a seed for each answer, and its answers come back by prompt and epoch.
TEST_F(EpochsTest, AnswersOfAnotherProgramHaveEpochsToo) {
  const std::vector<std::string> suite = {"quick",     "--tasks=recall_kv", "--lengths=512",
                                          "--limit=2", "--epochs=2",        "--tokenizer=models/baseline"};
  std::vector<std::string> arguments = {"samples", "--format=jsonl"};
  arguments.insert(arguments.end(), suite.begin(), suite.end());
  const ProcessResult samples = RunProcess("varifocal", arguments, {.seconds_max = 60});
  ASSERT_EQ(samples.exit_code, 0) << samples.err;
  std::istringstream lines(samples.out);
  std::string answers;
  std::set<uint64_t> seeds;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json row = ParseJson(line).value();
    EXPECT_EQ(row.at("index"), count);
    EXPECT_EQ(row.at("epoch"), count % 2);
    seeds.insert(row.at("sampling_seed").get<uint64_t>());
    answers += Json{{"token_ids_sha256", row.at("token_ids_sha256")},
                    {"epoch", row.at("epoch")},
                    {"prediction", count == 3 ? "wrong" : row.at("gold").at(0).get<std::string>()}}
                   .dump() +
               "\n";
  }
  EXPECT_EQ(count, 4);
  EXPECT_EQ(seeds.size(), 4u);
  WriteFile(directory_.File("answers.jsonl"), answers);
  arguments = {"import", "--predictions=" + directory_.File("answers.jsonl"), "--name=other",
               "--db=" + directory_.File("r.db")};
  arguments.insert(arguments.end(), suite.begin(), suite.end());
  const ProcessResult imported = RunProcess("varifocal", arguments, {.seconds_max = 60});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_EQ(Query("r.db", "SELECT epoch, sum(value) AS sum FROM v_samples WHERE is_primary GROUP BY epoch"),
            "epoch,sum\n0,2.0\n1,1.0\n");
  const ProcessResult exported = Read("export", "r.db", {"--out=" + directory_.File("out")});
  EXPECT_EQ(exported.exit_code, 1);
  EXPECT_THAT(exported.err, Message("2 answers"));
}

TEST_F(EpochsTest, EqualAnswersAreRefused) {
  const ProcessResult greedy = Ask("r.db", {"--epochs=4"});
  EXPECT_EQ(greedy.exit_code, 1);
  EXPECT_THAT(greedy.err, Message("epochs is 4", "--sampling-temperature"));
  const ProcessResult zero = Ask("r.db", {"--epochs=4", "--sampling-temperature=0"});
  EXPECT_EQ(zero.exit_code, 1);
  const ProcessResult too_many = Ask("r.db", {"--epochs=1001", "--sampling-temperature=1"});
  EXPECT_EQ(too_many.exit_code, 2);
  EXPECT_THAT(too_many.err, Message("1001", "1000"));
}

}  // namespace
}  // namespace varifocal

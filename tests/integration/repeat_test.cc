// A repeated command answers from the database only while it would ask the same questions of the same models. Method: the built
// program on a checkpoint and rows of its own; between two runs one thing changes (a gold answer, a row, the weights, one key
// of config.json, the end of a generation, the tokenizer), and the second run must be refused with exit 1 and both
// values, print no score, and ask again with --new. Unanswered samples are exit 1 unless they are allowed.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kRows[] = "{\"q\": \"The capital is\", \"a\": \"Rome\"}\n{\"q\": \"It is\", \"a\": \"Paris\"}\n";

class RepeatTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(model_);
    for (const auto& entry : std::filesystem::directory_iterator("models/baseline"))
      std::filesystem::copy_file(entry.path(), model_ + "/" + entry.path().filename().string());
    for (const auto& entry : std::filesystem::directory_iterator(model_))
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    WriteFile(rows_, kRows);
    WriteFile(suite_, "name: mine\nlengths: [64]\ntasks:\n  - kind: jsonl\n    parameters: {path: " + rows_ +
                          ", prompt: \"{q}\", gold: a, max_new_tokens: 2}\n");
  }
  ProcessResult Run(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"run", suite_, "--db=" + directory_.File("r.db"), "--model=m=" + model_, "--threads=1"});
    return RunProcess("varifocal", more, {.seconds_max = 120});
  }
  void EditConfig(const std::string& file, const std::string& key, const Json& value) const {
    Json json = *ParseJson(ReadFile(model_ + "/" + file));
    json[key] = value;
    WriteFile(model_ + "/" + file, json.dump());
  }

  TemporaryDirectory directory_;
  const std::string model_ = directory_.File("model"), rows_ = directory_.File("rows.jsonl"),
                    suite_ = directory_.File("suite.yaml");
};

TEST_F(RepeatTest, AsksAgainWhenAnythingHasChanged) {
  ProcessResult ran = Run();
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  ran = Run();
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, Message("jobs/1", "2"));

  struct Change {
    std::string what;
    std::function<void()> make;
  };
  const std::string weights = ReadFile(model_ + "/model.safetensors");
  std::string other_weights = weights;
  other_weights[other_weights.size() - 2] ^= 1;  // one bit of the last number's mantissa
  const std::string tokenizer = ReadFile(model_ + "/tokenizer.json");
  const std::vector<Change> changes = {
      {"SHA-256 of the data",
       [&] { WriteFile(rows_, std::string(kRows).replace(std::string(kRows).find("Rome"), 4, "Bern")); }},
      {"SHA-256 of the data",
       [&] { WriteFile(rows_, std::string(kRows).substr(0, std::string(kRows).find('\n') + 1)); }},
      {"weights", [&] { WriteFile(model_ + "/model.safetensors", other_weights); }},
      {"configuration (ropes)", [&] { EditConfig("config.json", "rope_theta", 1e6); }},
      {"configuration (blocks.norm_epsilon)", [&] { EditConfig("config.json", "rms_norm_eps", 1e-5); }},
      {"configuration (eos_token_ids", [&] { EditConfig("generation_config.json", "eos_token_id", 7); }},
      {"tokenizer", [&] { WriteFile(model_ + "/tokenizer.json", tokenizer + "\n"); }},
      {"attention",
       [&] {
         EditConfig("config.json", "focal_attention", {{"mode", "constant"}, {"temperature", 0.5}});
       }},
  };
  int job = 1;
  for (const Change& change : changes) {
    SCOPED_TRACE(change.what);
    change.make();
    ran = Run();
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_THAT(ran.err, HasSubstr(change.what));
    EXPECT_THAT(ran.err, HasSubstr("--new"));
    EXPECT_THAT(ran.out, Not(HasSubstr("exact_match"))) << "a table of old scores";
    ran = Run({"--new"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("jobs/" + std::to_string(++job) + " succeeded"));
    ran = Run();
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("jobs/" + std::to_string(job) + " is in the database already"));
  }
}

TEST_F(RepeatTest, UnansweredSamplesAreAFailure) {
  WriteFile(rows_, std::string(kRows) + "{\"q\": \"" + std::string(2000, 'x') + "\", \"a\": \"Rome\"}\n");
  ProcessResult ran = Run();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, Message("2", "3"));
  EXPECT_THAT(ran.err, Message("--allow-failed=1"));
  ran = Run({"--allow-failed=1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(Run({"--allow-failed=1", "--format=json"}).exit_code, 0);
  EXPECT_EQ(Run({"--format=json"}).exit_code, 1);
}

// One checkpoint under several rotations, on several data seeds, in one job.
TEST_F(RepeatTest, RotationsAndSeedsAreOneJob) {
  const ProcessResult ran =
      RunProcess("varifocal",
                 {"run", "quick", "--db=" + directory_.File("q.db"), "--model=m=" + model_, "--lengths=512",
                  "--tasks=recall_kv", "--limit=4", "--seeds=3", "--models=m,m@yarn=4,m@linear=2@t=0.7"},
                 {.seconds_max = 200});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, MessageIn("36 of 36"));
  const ProcessResult rows =
      RunProcess("varifocal",
                 {"query", "--db=" + directory_.File("q.db"), "--format=csv",
                  "SELECT variant, count(DISTINCT question_id) AS questions, count(DISTINCT cluster) AS contexts FROM "
                  "v_samples WHERE is_primary GROUP BY variant ORDER BY variant"});
  EXPECT_EQ(rows.out, "variant,questions,contexts\nm,12,3\nm@t=0.7@linear=2,12,3\nm@yarn=4,12,3\n") << rows.err;
}

}  // namespace
}  // namespace varifocal

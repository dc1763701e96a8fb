// `varifocal compare --baseline-arm`: text, JSON, filters, the gate and usage errors, on a job whose values are known
// (db/fakes/fake_arms.h).

#include "base/json.h"
#include "client/report/data/arm_rows.h"
#include "client/testing_run.h"
#include "db/fakes/fake_arms.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ArmsVerbTest : public testing::Test {
 protected:
  Ran Compare(std::vector<std::string> flags, const std::string& baseline = "plain",
              const std::string& candidate = "focal") {
    flags.insert(flags.begin(),
                 {"compare", "--db=" + path_, "--baseline-arm=" + baseline, "--candidate-arm=" + candidate});
    return Varifocal(flags);
  }
  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("arms.db");
};

TEST_F(ArmsVerbTest, TextHasPointsSeedsAndRatios) {
  db::WriteFakeArms(path_);
  const Ran ran = Compare({});
  EXPECT_THAT(ran, Prints(Message("jobs/1", "95", "3")));
  EXPECT_THAT(ran.out, HasSubstr("+0.250"));
  EXPECT_THAT(ran.out, HasSubstr("2K tokens"));
  EXPECT_THAT(ran.out, Message("1.41", "1.19", "1.68", "3", "1"));
}

TEST_F(ArmsVerbTest, JsonRowsHaveEveryKeyAndTheTextsNumbers) {
  db::WriteFakeArms(path_);
  const Ran ran = Done(Compare({"--format=json"}));
  ASSIGN_OR_FAIL(const auto rows, ParseJson(ran.out));
  int ratio_count = 0;
  for (const Json& row : rows) {
    EXPECT_EQ(row.size(), report::ArmResultKeys().size());
    ratio_count += row["kind"] == "equal_loss_ratio";
  }
  EXPECT_EQ(rows[0]["kind"], "arm_mean");
  EXPECT_NEAR(rows[0]["difference"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(ratio_count, 9) << "three endpoints at three places";
  const Ran filtered = Compare({"--format=json", "--metric=gold/log_likelihood"});
  ASSIGN_OR_FAIL(const auto of_metric, ParseJson(filtered.out));
  for (const Json& row : of_metric) EXPECT_EQ(row["metric"], "gold/log_likelihood");
}

TEST_F(ArmsVerbTest, TheGateFailsWhenTheCandidateIsWorse) {
  db::WriteFakeArms(path_, {.seed_count = 8, .question_count = 48, .answered_count = 48});
  EXPECT_EQ(Compare({"--gate"}).code, ExitCode::kDone);
  EXPECT_THAT(Compare({"--gate"}, "focal", "plain"), FailsWith(Message("1,024")));
}

TEST_F(ArmsVerbTest, OneRunAnArmCannotBeDecided) {
  db::WriteFakeArms(path_, {.seed_count = 1});
  const Ran ran = Compare({});
  EXPECT_THAT(ran.out, AllOf(MessageIn("one training run each: "), HasSubstr("no verdict")));
  EXPECT_THAT(Compare({"--gate"}), FailsWith(Message()));
}

TEST_F(ArmsVerbTest, AnUnfinishedJobSaysSo) {
  db::WriteFakeArms(path_, {.answered_count = 12});
  EXPECT_THAT(Compare({}).out, Message("12", "24"));
  EXPECT_THAT(Compare({"--gate"}).err, Message("--gate", "1,024"));
}

TEST_F(ArmsVerbTest, MistakesAreOneSentence) {
  db::WriteFakeArms(path_, {.seed_count = 2, .tokens = {1000}});
  EXPECT_THAT(Compare({}, "plain", "sharp").err, Message("\"sharp\""));
  EXPECT_THAT(Compare({"--task=recal"}).err, Message());
  EXPECT_THAT(Compare({"--baseline=a"}).err, Message("--baseline", "--candidate"));
  EXPECT_THAT(Compare({"--adjust=max-t"}).err, Message());
  EXPECT_THAT(Varifocal({"compare", "--db=" + path_, "--baseline-arm=plain"}).err, HasSubstr("belong together"));
  EXPECT_THAT(Varifocal({"compare", "--db=" + path_, "--baseline=plain-s1-1000"}),
              IsWrongUsage(Message("--baseline=A", "--candidate=B")));
}

}  // namespace
}  // namespace varifocal::client

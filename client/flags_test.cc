// Flags: a table of command lines with the values or the sentence they must give.
#include "client/flags.h"

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/files.h"
#include "client/judge_prompt.h"
#include "client/model_session.h"
#include "client/usage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Values {
  std::string suite, models, format = "text";
  std::vector<std::string> stops;
  std::optional<int64_t> limit;
  double temperature = 0;
  bool wait = false;
};

absl::Status Parse(const std::vector<std::string>& args, Values* values) {
  FlagSet flags;
  flags.AddPositional("SUITE", &values->suite, "a suite").Required();
  flags.Add("models", &values->models, "A,B", "who is asked").Required();
  flags.Add("limit", &values->limit, "N", "questions").AtLeast(1).AtMost(100);
  flags.Add("temperature", &values->temperature, "X", "of the sampler").AtLeast(0);
  flags.Add("stop", &values->stops, "STRING", "where to end");
  flags.Add("wait", &values->wait, "stay");
  flags.Add("format", &values->format, "FORMAT", "how").Among({"text", "json"});
  return flags.Parse(args);
}

TEST(FlagsTest, ValuesArriveAsTyped) {
  Values values;
  ASSERT_TRUE(Parse({"quick", "--models", "a,b", "--limit=7", "--temperature=0.1", "--wait", "--stop=\n",
                     "--stop=[x,y]", "--stop= two words ", "--format=json"},
                    &values)
                  .ok());
  EXPECT_EQ(values.suite, "quick");
  EXPECT_EQ(values.models, "a,b");
  EXPECT_EQ(values.limit, 7);
  EXPECT_EQ(values.temperature, 0.1);
  EXPECT_TRUE(values.wait);
  EXPECT_THAT(values.stops, ElementsAre("\n", "[x,y]", " two words "));
  EXPECT_EQ(values.format, "json");
}

TEST(FlagsTest, FlagsMayComeBeforeAndAfterPositionals) {
  Values values;
  ASSERT_TRUE(Parse({"--models=a", "--stop=x", "quick"}, &values).ok());
  EXPECT_EQ(values.suite, "quick");
  EXPECT_THAT(values.stops, ElementsAre("x"));
}

TEST(FlagsTest, AnEmptyValueIsAValue) {
  Values values;
  ASSERT_TRUE(Parse({"quick", "--stop=", "--models=", "--wait"}, &values).ok());
  EXPECT_THAT(values.stops, ElementsAre(""));
  EXPECT_EQ(values.models, "");
  EXPECT_TRUE(values.wait);
}

TEST(FlagsTest, MistakesAreOneSentence) {
  struct Bad {
    std::vector<std::string> args;
    const char* words;
  };
  const std::vector<Bad> table = {
      {{"quick", "--models=a", "--limt=3"}, "Unknown flag --limt; did you mean --limit?"},
      {{"quick", "--models=a", "--zzzzzz"}, "Unknown flag --zzzzzz."},
      {{"quick", "--models=a", "--hlep"}, "did you mean --help?"},
      {{"quick", "again", "--models=a"}, "Unexpected argument \"again\"."},
      {{"--models=a"}, "SUITE is missing: a suite."},
      {{"quick"}, "--models=A,B is missing: who is asked."},
      {{"quick", "--models"}, "--models needs a value: --models=A,B."},
      {{"quick", "--models=a", "--wait=false"}, "--wait takes no value; left out, it is off."},
      {{"quick", "--models=a", "--wait=maybe"}, "--wait takes no value; left out, it is off."},
      {{"quick", "--models=a", "--wait="}, "--wait takes no value; left out, it is off."},
      {{"quick", "--models=a", "--models=b"}, "--models is given 2 times"},
      {{"quick", "--models=a", "--limit=many"}, "--limit=many: must be a whole number from 1 to 100."},
      {{"quick", "--models=a", "--limit=1.5"}, "--limit=1.5: must be a whole number"},
      {{"quick", "--models=a", "--limit=0"}, "--limit=0: must be a whole number from 1 to 100."},
      {{"quick", "--models=a", "--limit=101"}, "from 1 to 100"},
      {{"quick", "--models=a", "--limit=99999999999999999999"}, "must be a whole number"},
      {{"quick", "--models=a", "--temperature=nan"}, "--temperature=nan: must be a finite number, at least 0."},
      {{"quick", "--models=a", "--temperature=inf"}, "must be a finite number"},
      {{"quick", "--models=a", "--temperature=-1"}, "must be a finite number, at least 0."},
      {{"quick", "--models=a", "--format=jsn"}, "must be one of text, json; did you mean json?"},
  };
  for (const Bad& bad : table) {
    Values values;
    const absl::Status status = Parse(bad.args, &values);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.words));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kWrongUsage) << bad.words;
  }
}

TEST(FlagsTest, SplitList) {
  EXPECT_THAT(SplitList(" a, b,,c "), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(SplitList("").empty());
}

// A flag has the grammar that settings of variants have: one table of texts (also read by eval_tasks/variant_test.cc).
TEST(FlagsTest, NumbersAreReadAsInVariants) {
  const Json table = *ParseJson(*ReadWholeFile("eval_tasks/testdata/numbers.json"));
  ASSERT_GE(table.size(), 25u);
  const std::string path = testing::TempDir() + "/flags_test_judge.yaml";
  for (const Json& row : table) {
    const std::string text = row.at("text").get<std::string>();
    Values values;
    const absl::Status status = Parse({"quick", "--models=a", absl::StrCat("--temperature=", text)}, &values);
    EXPECT_EQ(status.ok() ? Json(values.temperature) : Json(), row.at("number")) << text;
    // The score of a judge's choice; quotes make no difference there.
    if (!row.at("number").is_null() && row.at("number") > 1) continue;
    testing_support::WriteFile(
        path,
        absl::StrCat("name: j\nprompt: \"{answer}\"\nchoices:\n  a: ", DumpJson(Json(text)).value(), "\n  b: 0\n"));
    const auto prompt = ReadJudgePrompt(path);
    EXPECT_EQ(prompt.ok() ? Json(prompt->choices[0].second) : Json(), row.at("number")) << text;
  }
}

TEST(FlagsTest, WholeNumbersAreDigits) {
  for (const char* bad : {"+7", " 7", "0x7", "7.0", "7K"}) {
    Values values;
    EXPECT_FALSE(Parse({"quick", "--models=a", absl::StrCat("--limit=", bad)}, &values).ok()) << bad;
    EXPECT_FALSE(ParseContextLength(absl::StrCat(bad, bad == std::string("7K") ? "K" : "")).ok()) << bad;
  }
}

TEST(FlagsTest, BytesWithUnits) {
  EXPECT_EQ(ReadBytes("1000"), 1000);
  for (const char* text : {"4G", "4g", "4GB", "4GiB"}) EXPECT_EQ(ReadBytes(text), int64_t{4} << 30) << text;
  EXPECT_EQ(ReadBytes("512M"), int64_t{512} << 20);
  for (const char* bad : {"", "G", "-1", "1.5G", "4X", "9999999999T"}) EXPECT_FALSE(ReadBytes(bad).has_value()) << bad;
}

}  // namespace
}  // namespace varifocal::client

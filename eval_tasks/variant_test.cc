// Variants with run-time settings, parameters and suggestions, by literals.
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/suggest.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/overrides.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;

TEST(VariantTest, FurtherSettings) {
  ASSIGN_OR_FAIL(const auto variant, ParseVariant("m@log-n=4096@t=0.5,1@full-t=0.70"));
  EXPECT_EQ(variant.overrides, (OverrideMap{{"t", {0.5, 1}}, {"full-t", {0.7}}, {"log-n", {4096}}}));
  EXPECT_EQ(variant.Name(), "m@t=0.5,1@full-t=0.7@log-n=4096");
  EXPECT_EQ(*ParseVariant(variant.Name()), variant);
  EXPECT_EQ(ParseVariant("m@log-n=4K")->Name(), "m@log-n=4096");
  ASSIGN_OR_FAIL(const auto list, ParseVariantList("a@log-n=64,b@t=0.5,0.6@log-n=64,c"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1].Name(), "b@t=0.5,0.6@log-n=64");
  EXPECT_EQ(WithTemperatures({list[0]}, {0.5})[1].Name(), "a@t=0.5@log-n=64");
}

// The table that the test of the Python client reads, too: a text and the variant's name in results, or none where it is refused.
TEST(VariantTest, TheTableOfTexts) {
  std::ifstream file("eval_tasks/testdata/variants.json");
  const Json table = *ParseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  int refused_count = 0;
  for (const Json& row : table) {
    const std::string text = row.at("text").get<std::string>();
    const absl::StatusOr<Variant> variant = ParseVariant(text);
    if (row.at("name").is_null()) {
      ++refused_count;
      EXPECT_EQ(variant.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    ASSERT_TRUE(variant.ok()) << variant.status();
    EXPECT_EQ(variant->Name(), row.at("name").get<std::string>());
    EXPECT_EQ(*ParseVariant(variant->Name()), *variant);
  }
  EXPECT_GE(refused_count, 20);
  EXPECT_GE(std::ssize(table) - refused_count, 10);
}

// Every row of the table of overrides: its kind of value, and whether a list is one.
TEST(VariantTest, EveryOverrideChecksItsValue) {
  for (const OverrideInfo& info : OverrideTable()) {
    const auto is_read = [&](absl::string_view values) {
      return ParseVariant(absl::StrCat("m@", info.name, "=", values)).ok();
    };
    const bool is_switch = info.kind == OverrideKind::kChatSwitch;
    EXPECT_EQ(is_read("on"), is_switch) << info.name;
    EXPECT_EQ(is_read("2"), !is_switch) << info.name;
    EXPECT_EQ(is_read("2,3"), info.may_be_list) << info.name;
    EXPECT_EQ(is_read("2K"), info.is_token_count) << info.name;
    EXPECT_FALSE(is_read("0K") || is_read("K") || is_read("1.5K") || is_read("9007199254740993K")) << info.name;
    EXPECT_EQ(is_read("-2"), !IsAboveZero(info) && !is_switch) << info.name;
    EXPECT_EQ(info.layers_flag != nullptr, info.kind == OverrideKind::kTemperature) << info.name;
    EXPECT_EQ(info.focus_setting != nullptr, info.kind == OverrideKind::kGroups) << info.name;
    EXPECT_EQ(FindOverride(info.name), &info) << "names are unique";
    EXPECT_EQ(OverrideOfSetting(absl::StrCat(info.name, "=1")), &info);
    // The list of --attention has every setting of the attention without a flag of its own.
    const bool has_flag = info.may_be_list || is_switch || info.kind == OverrideKind::kGroups;
    EXPECT_EQ(info.help[0] == '\0', has_flag) << info.name;
    if (has_flag) continue;
    EXPECT_THAT(OverridesHelp(), ::testing::HasSubstr(absl::StrCat(info.name, "=", info.example)));
  }
  EXPECT_EQ(FindOverride("T"), nullptr);
}

TEST(VariantTest, ParsesAndWritesCanonically) {
  EXPECT_EQ(ParseVariant("m@t=0.1")->overrides.at("t")[0], 0.1);
  EXPECT_THAT(ParseVariant("m@t=-1").status().message(), Message("\"m@t=-1\"", "\"-1\"", 0));
  EXPECT_THAT(ParseVariant("m@t=inf").status().message(), Message("\"m@t=inf\"", "\"inf\"", 0));
  EXPECT_THAT(ParseVariant("m@log-n=1,2").status().message(), Message("\"m@log-n=1,2\"", "2 values", 1));
}

TEST(VariantTest, ANumberInAListContinuesTheTemperatures) {
  const auto list = ParseVariantList("a,b@t=0.5,0.6,c,d@t=2").value();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[1].Name(), "b@t=0.5,0.6");
  EXPECT_EQ(list[2].Name(), "c");
  EXPECT_FALSE(ParseVariantList("a,0.5").ok()) << "0.5 follows no temperature";
  EXPECT_FALSE(ParseVariantList("a,,b").ok());
  EXPECT_FALSE(ParseVariantList("").ok());
}

TEST(VariantTest, TemperaturesMultiplyPlainVariants) {
  const auto all = WithTemperatures({{"a"}, {"b", {{"t", {0.5}}}}}, {0.5, 0.7});
  std::vector<std::string> names;
  for (const Variant& variant : all) names.push_back(variant.Name());
  EXPECT_THAT(names, ElementsAre("a", "a@t=0.5", "a@t=0.7", "b@t=0.5"));
  EXPECT_EQ(WithTemperatures({{"a", {{"late-t", {2}}}}}, {0.5}, {"early-t"})[1].Name(), "a@early-t=0.5@late-t=2");
}

TEST(ParametersTest, NumbersAndListsAreCanonical) {
  EXPECT_EQ(FormatNumber(0.1), "0.1");
  EXPECT_EQ(FormatNumber(8), "8");
  const ParameterInfo stop = {"stop", ParameterType::kTextList, "[\"\\n\"]", false, 0, 0, {}, ""};
  EXPECT_EQ(ValidateParameters("t", {stop}, {})->at("stop"), "[\"\\n\"]");
  const Parameters one = ValidateParameters("t", {stop}, {{"stop", "END"}}).value();
  EXPECT_EQ(one.at("stop"), "[\"END\"]");
  EXPECT_THAT(GetTextList(one, "stop"), ElementsAre("END"));
  const Parameters two = ValidateParameters("t", {stop}, {{"stop", "[ \".\", \"\\n\" ]"}}).value();
  EXPECT_THAT(GetTextList(two, "stop"), ElementsAre(".", "\n"));
  EXPECT_FALSE(ValidateParameters("t", {stop}, {{"stop", "[1]"}}).ok());
}

// The table that tests of flags and of judges' prompts read, too.
TEST(ParametersTest, TheTableOfNumbers) {
  std::ifstream file("eval_tasks/testdata/numbers.json");
  const Json table = *ParseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_GE(table.size(), 25u);
  for (const Json& row : table) {
    const std::string text = row.at("text").get<std::string>();
    const absl::StatusOr<double> number = ParseNumber(text);
    EXPECT_EQ(number.ok() ? Json(*number) : Json(), row.at("number")) << text;
  }
  for (const char* bad : {"", "+8", " 8", "8 ", "1e3", "8.0", "0x8", "9223372036854775808", "\u0668"})
    EXPECT_FALSE(ParseInteger(bad).ok()) << bad;
  EXPECT_EQ(ParseInteger("-08").value(), -8);
}

TEST(SuggestTest, OnlyNearMatches) {
  const std::vector<std::string> words = {"report", "resume", "compare"};
  EXPECT_EQ(Nearest("reprot", words), "report");
  EXPECT_EQ(Nearest("resum", words), "resume");
  EXPECT_EQ(Nearest("comapre", words), "compare");
  EXPECT_EQ(Nearest("zebra", words), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), words), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

}  // namespace
}  // namespace varifocal

// Digests and generators against published vectors, draws against their definition, JSON and logs against literals that
// can be checked by hand.
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/json_strings.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/random.h"
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

TEST(Sha256Test, PublishedVectors) {  // FIPS 180-4 examples
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, HexIs64LowerCaseDigits) {
  const std::string hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(IsSha256Hex(hex));
  EXPECT_TRUE(IsSha256Hex(Sha256Hex("")));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(hex.substr(1)));
  EXPECT_FALSE(IsSha256Hex(hex + "0"));
  // The characters adjacent to digits and letters in ASCII, both cases, a zero byte, and a byte that is negative as a char.
  for (const char wrong : {'/', ':', '`', 'g', 'A', 'F', ' ', '\n', '\0', '\xE9'}) {
    std::string text = hex;
    for (const size_t at : {0, 31, 63}) {
      text[at] = wrong;
      EXPECT_FALSE(IsSha256Hex(text)) << static_cast<int>(wrong) << " at " << at;
      text[at] = hex[at];
    }
  }
}

TEST(Sha256Test, PiecesEqualTheWhole) {
  Sha256Stream stream;
  stream.Update("a");
  stream.Update("bc");
  EXPECT_EQ(stream.Finish(), Sha256("abc"));
}

TEST(RandomTest, NamedStreamsAreReproducible) {
  Random a("x"), b("x"), c("y");
  const uint64_t first = a.Next();
  EXPECT_EQ(first, b.Next());
  EXPECT_NE(first, c.Next());
}

TEST(RandomTest, BelowIsUniform) {
  Random random("uniform");
  int counts[7] = {};
  constexpr int kMean = 10'000;
  for (int i = 0; i < 7 * kMean; ++i) ++counts[random.Below(7)];
  // A binomial count of mean 10,000 has standard deviation 92.6; five of them is 463.
  for (int count : counts) EXPECT_NEAR(count, kMean, 463);
}

TEST(RandomTest, SampleGivesDistinctIndices) {
  Random random("sample");
  for (size_t bound : {1u, 2u, 5u, 100u}) {
    for (size_t count = 0; count <= bound; ++count) {
      const auto picked = random.Sample(bound, count);
      EXPECT_EQ(std::set<size_t>(picked.begin(), picked.end()).size(), count);
      for (size_t index : picked) EXPECT_LT(index, bound);
    }
  }
}

TEST(RandomTest, ShuffleIsUniformOverPermutations) {
  Random random("shuffle");
  std::map<std::vector<int>, int> counts;
  for (int i = 0; i < 6000; ++i) {
    std::vector<int> items = {1, 2, 3};
    random.Shuffle(items);
    ++counts[items];
  }
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [items, count] : counts) EXPECT_NEAR(count, 1000, 145);  // five standard deviations of 28.9
}

TEST(RandomTest, KeyedUniformDependsOnBothKeysOnly) {
  EXPECT_EQ(KeyedUniform(1, 2), KeyedUniform(1, 2));
  EXPECT_NE(KeyedUniform(1, 2), KeyedUniform(2, 1));
  double sum = 0;
  for (int i = 0; i < 10000; ++i) sum += KeyedUniform(7, i);
  EXPECT_NEAR(sum / 10000, 0.5, 5 * 0.2887 / 100);  // five standard errors of a uniform's mean
}

TEST(JsonTest, RejectsAmbiguousInput) {
  EXPECT_FALSE(ParseJson(R"({"a":1,"a":2})").ok());
  EXPECT_FALSE(ParseJson(R"({"a":1} x)").ok());
  EXPECT_FALSE(ParseJson("{\"a\":\"\xff\"}").ok());
  EXPECT_FALSE(ParseJson("").ok());
  EXPECT_FALSE(ParseJson(R"([NaN])").ok());
  EXPECT_FALSE(ParseJson(std::string(300, '[') + std::string(300, ']')).ok());
  EXPECT_TRUE(ParseJson(R"({"a":{"b":1},"c":{"b":2}})").ok()) << "the same key in two objects is fine";
  EXPECT_EQ(ParseJson(R"({"a":1,"a":2})").status().message(), "duplicate key \"a\"");
}

TEST(JsonTest, NamesTheFirstByteThatIsNotUtf8) {
  struct Case {
    absl::string_view text;
    int byte;
  };
  for (const Case& c : std::vector<Case>{{"\"caf\xE9\"", 5},           // Latin-1
                                         {"\"\xC3\xA9\xFF\"", 4},      // after a character of two bytes
                                         {"\"\xE2\x82\xAC\x80\"", 5},  // of three
                                         {"\"\xF0\x9F\x98\"", 2},      // three of four
                                         {"\"a\xE9", 3},
                                         {"{\"\xE9\": 1}", 3}}) {
    EXPECT_EQ(ParseJson(c.text).status().message(),
              absl::StrCat("not JSON at byte ", c.byte, ": it is not UTF-8, no character begins there"));
  }
}

TEST(JsonTest, NamesTheLineOfAnError) {
  EXPECT_EQ(ParseJson("{\n  \"a\": 1,\n  \"b\" 2\n}").status().message(), "not JSON at line 3, byte 7");
  EXPECT_EQ(ParseJson("[1,\n").status().message(), "not JSON at line 2, byte 1") << "the end";
  EXPECT_EQ(ParseJson(absl::string_view("[\n\0]", 4)).status().message(), "not JSON at line 2, byte 1");
  EXPECT_EQ(ParseJson("").status().message(), "not JSON at byte 1");
}

TEST(JsonTest, LongNumbersAreTextsWhereAskedFor) {
  const auto kept = [](const char* number) { return ParseJsonKeepingDigits(number).value(); };
  for (const char* number :
       {"12345678901234567890123", "-18446744073709551617", "18446744073709551617", "-9223372036854775809",
        "3.14159265358979323846", "100000000000000000000001e3", "100000000000000000000", "1e-400"}) {
    EXPECT_EQ(kept(number), Json(number)) << "as it is written";
    EXPECT_TRUE(ParseJson(number)->is_number_float());
  }
  EXPECT_EQ(kept("18446744073709551615").dump(), "18446744073709551615");
  EXPECT_EQ(kept("-9223372036854775808").dump(), "-9223372036854775808");
  for (const char* number : {"0", "1.0", "1.50", "0.1", "1e5", "-2.5e-3", "0.0", "5e-324", "1e22"}) {
    EXPECT_EQ(kept(number), *ParseJson(number)) << number << " has the digits of its double";
  }
  EXPECT_FALSE(ParseJsonKeepingDigits("1e999").ok());
}

TEST(JsonTest, KindsAreWordsOfASentence) {
  const Json list = *ParseJson(R"([[1], {"a": 1}, "a", 1, 1.5, true, null])");
  std::vector<std::string> kinds;
  for (const Json& value : list) kinds.emplace_back(JsonKind(value));
  EXPECT_EQ(kinds, (std::vector<std::string>{"a list", "an object", "a text", "a number", "a number", "a truth value",
                                             "null"}));
}

TEST(PluralTest, OneIsSingular) {
  EXPECT_EQ(Plural(1, "row", "rows"), "row");
  for (int64_t count : {0, 2, 11}) EXPECT_EQ(Plural(count, "row", "rows"), "rows");
}

TEST(JsonTest, ListsOfStrings) {
  const Json object = *ParseJson(R"({"two": ["a", "b"], "none": [], "mixed": ["a", 1], "text": "a"})");
  EXPECT_EQ(*GetStrings(object, "two"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(GetStrings(object, "none")->empty());
  EXPECT_EQ(GetNonEmptyStrings(object, "two")->size(), 2u);
  EXPECT_THAT(GetNonEmptyStrings(object, "none").status().message(), Message("\"none\""));
  for (const char* key : {"mixed", "text", "missing"}) {
    EXPECT_EQ(GetStrings(object, key).status().message(), absl::StrCat("\"", key, "\" must be a list of texts"));
    EXPECT_EQ(GetNonEmptyStrings(object, key).status().message(), GetStrings(object, key).status().message());
  }
}

TEST(JsonTest, GettersNameTheKey) {
  const Json object = ParseJson(R"({"n":3,"x":1.5,"s":"t","b":true,"z":null,"big":18446744073709551615})").value();
  EXPECT_EQ(GetInt(object, "n").value(), 3);
  EXPECT_EQ(GetDouble(object, "n").value(), 3.0);
  EXPECT_EQ(GetDouble(object, "x").value(), 1.5);
  EXPECT_EQ(GetString(object, "s").value(), "t");
  EXPECT_EQ(GetBool(object, "b").value(), true);
  EXPECT_EQ(FindInt(object, "z").value(), std::nullopt);
  EXPECT_EQ(GetInt(object, "q").status().message(), "\"q\" is missing");
  EXPECT_THAT(GetInt(object, "x").status().message(), Message("\"x\""));
  EXPECT_FALSE(GetInt(object, "big").ok());
}

TEST(JsonTest, DoublesReadBackTheSame) {
  for (double x : {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, -0.0}) {
    EXPECT_EQ(ParseJson(DumpJson(Json(x)).value())->get<double>(), x);
  }
  EXPECT_FALSE(DumpJson(Json(std::numeric_limits<double>::quiet_NaN())).ok());
  EXPECT_FALSE(DumpJson(Json::array({std::numeric_limits<double>::infinity()})).ok());
}

TEST(LogTest, EscapesNewlines) {
  EXPECT_EQ(FormatLogLine(LogLevel::kInfo, "done", {{"job", "jobs/1"}, {"n", 3}, {"text", "a b\n\"c\""}}),
            "I done job=jobs/1 n=3 text=\"a b\\n\\\"c\\\"\"");
}

TEST(ClockTest, FormatsUtc) {
  EXPECT_EQ(FormatUtc(1'000'000'000'123'456), "2001-09-09T01:46:40.123Z");
  EXPECT_EQ(FormatUtc(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(FormatUtc(-1'000'000), "1969-12-31T23:59:59.000Z");
  EXPECT_EQ(FormatUtc(9'223'372'036'854'776), "2262-04-11T23:47:16.854Z") << "the last one of the nanoseconds";
  EXPECT_EQ(FormatUtc(253'402'300'799'999'000), "9999-12-31T23:59:59.999Z");
}

TEST(ClockTest, ParsesUtc) {
  EXPECT_EQ(ParseUtc("2001-09-09T01:46:40Z"), 1'000'000'000'000'000);
  EXPECT_EQ(ParseUtc("2028-02-29T00:00:00Z"), 1'835'395'200'000'000);
  EXPECT_EQ(ParseUtc("9999-12-31T23:59:59Z"), 253'402'300'799'000'000);
  for (const char* other :
       {"", "2001-09-09", "2001-09-09T01:46:40", "2001-09-09 01:46:40Z", "2001-09-09T01:46:40.123Z",
        "2001-9-9T01:46:40Z", " 2001-09-09T01:46:40Z", "2001-09-09T01:46:40Z ", "2001-02-29T00:00:00Z",
        "2001-09-09T24:00:00Z", "2001-09-09T01:46:40+01:00", "99999-01-01T00:00:00Z"}) {
    EXPECT_EQ(ParseUtc(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace varifocal

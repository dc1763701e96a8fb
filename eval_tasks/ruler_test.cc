// The synthetic long tasks, parsed back from their prompts: needles and keys, chains, word counts, and hidden sentences
// between whole sentences of their haystack.
#include <algorithm>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/tasks/distinct_words.h"
#include "eval_tasks/tasks/fit.h"
#include "eval_tasks/tasks/haystack.h"
#include "eval_tasks/testing_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Context(const Sample& sample) { return sample.prompt.substr(0, sample.shared_prefix_bytes); }
std::string Line(const Sample& sample) { return sample.prompt.substr(sample.shared_prefix_bytes); }

// Every needle of a text: key -> values.
std::map<std::string, std::vector<std::string>> Needles(const std::string& text) {
  std::map<std::string, std::vector<std::string>> needles;
  const std::regex needle("A secret (word|number|code) of (\\S+) is (\\S+)\\.");
  for (std::sregex_iterator it(text.begin(), text.end(), needle), end; it != end; ++it) {
    needles[(*it)[2]].push_back((*it)[3]);
  }
  return needles;
}

struct NiahCase {
  std::map<std::string, std::string> parameters;
  int question_count, keys, golds;
};

TEST(NiahTest, GoldEqualsTheNeedles) {
  const NiahCase cases[] = {
      {{{"haystack", "lines"}}, 1, 1, 1},
      {{{"haystack", "story"}, {"value_type", "uuids"}}, 1, 1, 1},
      {{{"haystack", "story"}, {"keys", "4"}}, 4, 4, 1},
      {{{"haystack", "story"}, {"keys", "9"}, {"value_type", "words"}}, 4, 9, 1},
      {{{"haystack", "needles"}}, 4, 50, 1},
      {{{"haystack", "needles"}, {"key_type", "uuids"}, {"value_type", "uuids"}}, 4, 30, 1},
      {{{"haystack", "story"}, {"values", "4"}}, 1, 1, 4},
      {{{"haystack", "lines"}, {"queries", "4"}, {"key_type", "numbers"}}, 1, 4, 4},
  };
  for (const NiahCase& c : cases) {
    const auto task = Make("niah", c.parameters);
    for (int index : {0, 8}) {
      const std::vector<Sample> group = Group(*task, 8192, Shipped(), index);
      ASSERT_EQ(std::ssize(group), c.question_count);
      for (const Sample& sample : group) {
        const auto needles = Needles(Context(sample));
        const int key_count = needles.size();
        EXPECT_TRUE(key_count == c.keys || (c.parameters.at("haystack") == "needles" && key_count > c.keys));
        ASSERT_EQ(std::ssize(sample.gold), c.golds);
        // The question line has the asked keys; their values, in any order, are the gold.
        std::multiset<std::string> found;
        for (const auto& [key, values] : needles) {
          if (absl::StrContains(Line(sample), key)) found.insert(values.begin(), values.end());
        }
        EXPECT_EQ(found, std::multiset<std::string>(sample.gold.begin(), sample.gold.end())) << Line(sample);
        std::multiset<std::string> in_evidence;
        for (const auto& [key, values] : Needles(EvidenceText(sample)))
          in_evidence.insert(values.begin(), values.end());
        EXPECT_EQ(in_evidence, found);
        EXPECT_EQ(sample.max_new_tokens, 128);
        EXPECT_EQ(sample.metrics[0], "string_match_all");
      }
    }
  }
}

TEST(NiahTest, UuidsAreOfVersionFour) {
  const std::string text =
      Context(Group(*Make("niah", {{"haystack", "needles"}, {"key_type", "uuids"}}), 4096, Words(), 0)[0]);
  const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  int count = 0;
  for (const auto& [key, values] : Needles(text)) {
    if (key.size() != 36) continue;
    EXPECT_TRUE(std::regex_match(key, uuid)) << key;
    ++count;
  }
  EXPECT_GT(count, 20);
}

TEST(HaystackTest, HidesSentencesBetweenSentences) {
  for (const char* haystack : {"lines", "story"}) {
    for (const char* depth : {"0", "0.37", "1"}) {
      const auto task = Make("niah", {{"haystack", haystack}, {"keys", "4"}, {"depth", depth}});
      for (const Sample& sample : Group(*task, 2048, Shipped(), 4)) {
        const PromptSpan& span = sample.evidence[0];
        const std::string before = sample.prompt.substr(0, span.byte_begin);
        if (std::string(depth) != "1") {
          const std::string blanks = "\n ";
          const size_t end = before.find_last_not_of(blanks);
          EXPECT_EQ(before[end], '.') << before.substr(before.size() - 60);
        }
        const char after = sample.prompt[span.byte_end];
        EXPECT_TRUE(after == ' ' || after == '\n') << after;
      }
    }
  }
}

TEST(HaystackTest, ShorterContextsArePrefixesOfLongerOnes) {
  // The same stream: filler depends on the length, so it is read through the plan with one seed.
  class Plan : public HaystackPlan {
   public:
    explicit Plan(Haystack haystack) {
      haystack_ = std::move(haystack);
      hidden_ = {{"Here.", 0.5}, {"There.", 0.5}, {"First.", 0}};
    }
  };
  for (const char* name : {"lines", "story"}) {
    TaskSpec spec;
    spec.parameters = {{"haystack", name}};
    const Plan plan(MakeHaystack(spec).value());
    std::vector<std::string> texts;
    for (int count : {40, 400}) {
      Random filler("one");
      const std::vector<Unit> units = plan.Build(count, filler);
      ASSERT_EQ(std::ssize(units), count);
      std::string text;
      std::vector<int> planted;
      for (const Unit& unit : units) {
        if (unit.planted < 0) text += unit.text;
        if (unit.planted >= 0) planted.push_back(unit.planted);
      }
      EXPECT_THAT(planted, ElementsAre(2, 0, 1));
      EXPECT_EQ(units[0].text, "First.") << "no blank opens the context";
      texts.push_back(text);
    }
    Random filler("one");
    const std::string more = plan.MoreText(40, filler);
    EXPECT_GE(more.size(), 256u);
    EXPECT_TRUE(absl::StartsWith(texts[1], texts[0] + more));
  }
}

// Three tokens per byte, so that words are longer than the allowed shortfall. Ids depend on the position of a byte in the
// encoded text, so a suffix encoded alone never has the ids that it has in the whole.
class ThreePerByte : public TokenCounter {
 public:
  explicit ThreePerByte(bool knows_place) : knows_place_(knows_place) {}
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size(); ++i) {
      const int place = knows_place_ ? static_cast<int>(i) : 0;
      ids.insert(ids.end(), {static_cast<unsigned char>(text[i]) + 256 * place, 0, 0});
    }
    return ids;
  }
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override { return EncodePiece(text); }
  const std::string& sha256() const override { return sha256_; }

 private:
  bool knows_place_;
  std::string sha256_ = Sha256Hex("three per byte");
};

TEST(HaystackTest, EndsInsideAWordWhereNeeded) {
  const auto task = Make("niah", {{"haystack", "story"}});
  for (const ThreePerByte& tokenizer : {ThreePerByte(false), ThreePerByte(true)}) {
    for (int length = 4096; length < 4096 + 40; ++length) {
      const Sample sample = Group(*task, length, tokenizer, length)[0];
      EXPECT_EQ(sample.token_ids, tokenizer.EncodePrompt(sample.prompt).value());
      EXPECT_GE(sample.shortfall_tokens, 0);
      EXPECT_LE(sample.shortfall_tokens, kShortfallMax);
      EXPECT_THAT(EvidenceText(sample), HasSubstr(sample.gold[0]));
    }
  }
}

// Groups whose question lines differ by eight tokens and twelve, and that had up to 18 tokens left.
TEST(NiahTest, QuestionsOfDifferentTokenCountsFillTheLength) {
  const TaskSpec spec = {.name = "niah_multikey_3",
                         .kind = "niah",
                         .parameters = {{"haystack", "needles"}, {"key_type", "uuids"}, {"value_type", "uuids"}}};
  const auto task = MakeTask(Completed(spec, 8192).value()).value();
  for (const SampleRequest& request :
       {SampleRequest{503835235, 8192, 8}, SampleRequest{308735844, 5003, 4}, SampleRequest{1668823347, 5003, 24}}) {
    std::set<int> shortfalls;
    for (const auto& sample : task->MakeGroup(request, Shipped())) {
      EXPECT_EQ(sample->token_ids, Shipped().EncodePrompt(sample->prompt).value());
      shortfalls.insert(sample->shortfall_tokens);
    }
    EXPECT_GE(*shortfalls.begin(), 0);
    EXPECT_LE(*shortfalls.rbegin(), kShortfallMax);
  }
}

TEST(VariableTrackingTest, TheChainOfTheAskedNumberIsTheGold) {
  for (const auto& [chains, hops] : std::vector<std::pair<int, int>>{{1, 4}, {3, 2}, {1, 12}}) {
    const auto task = Make("variable_tracking", {{"chains", absl::StrCat(chains)}, {"hops", absl::StrCat(hops)}});
    for (int index : {0, 1, 2}) {
      const Sample sample = Group(*task, 4096, Shipped(), index)[0];
      const std::string context = Context(sample).substr(Context(sample).find("Text: "));
      std::map<std::string, std::string> holds;
      const std::regex fact("Box ([A-Z]{5}) holds (what box ([A-Z]{5}) holds|[0-9]{5})\\.");
      for (std::sregex_iterator it(context.begin(), context.end(), fact), end; it != end; ++it) {
        const std::string& value = (*it)[3].matched ? holds[(*it)[3]] : (*it)[2].str();
        EXPECT_FALSE(value.empty()) << "a box is defined before it is referenced";
        EXPECT_TRUE(holds.emplace((*it)[1], value).second);
      }
      EXPECT_EQ(std::ssize(holds), chains * (hops + 1));
      std::smatch asked;
      const std::string line = Line(sample);
      ASSERT_TRUE(std::regex_search(line, asked, std::regex("Which boxes hold ([0-9]+)\\?")));
      std::set<std::string> expected;
      for (const auto& [box, value] : holds) {
        if (value == asked[1].str()) expected.insert(box);
      }
      EXPECT_EQ(std::set<std::string>(sample.gold.begin(), sample.gold.end()), expected);
      EXPECT_EQ(std::ssize(sample.evidence), hops + 1);
    }
  }
}

TEST(CommonWordsTest, GoldWordsOccurThirtyTimesAndOthersAtMostThree) {
  const auto task = Make("common_words");
  for (int length : {8192, 32768}) {
    const Sample sample = Group(*task, length, Shipped(), 3)[0];
    const std::string list = EvidenceText(sample);
    std::map<std::string, int> counts;
    int number = 0;
    std::vector<std::string> items = absl::StrSplit(list, ' ');
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      EXPECT_EQ(items[i], absl::StrCat(++number, "."));
      ++counts[items[i + 1]];
    }
    std::set<std::string> thirty;
    int below_three = 0;
    for (const auto& [word, count] : counts) {
      EXPECT_TRUE(count == 30 || count <= 3) << word;
      if (count == 30) thirty.insert(word);
      below_three += count < 3 ? 1 : 0;
    }
    EXPECT_EQ(thirty, std::set<std::string>(sample.gold.begin(), sample.gold.end()));
    EXPECT_LT(below_three, 110) << "of the last block, and of words exchanged to fill the length";
    EXPECT_GT(number, length / 16);
  }
}

TEST(DistinctWordsTest, ReturnsEveryPairOnceThenWordsThatContainNone) {
  Random random("distinct");
  const size_t pair_count = TheLexicon().first.size() * TheLexicon().second.size();
  DistinctWords words;
  std::set<std::string> pairs, threes;
  for (size_t i = 0; i < pair_count; ++i) EXPECT_TRUE(pairs.insert(words.Draw(random)).second);
  for (int i = 0; i < 2000; ++i) {
    const std::string three = words.Draw(random);
    const std::vector<std::string> parts = absl::StrSplit(three, '-');
    ASSERT_EQ(parts.size(), 3u) << three;
    EXPECT_TRUE(threes.insert(three).second) << three;
    EXPECT_FALSE(pairs.count(absl::StrCat(parts[0], "-", parts[1]))) << three;
    EXPECT_FALSE(pairs.count(absl::StrCat(parts[1], "-", parts[2]))) << three;
  }
  // While pairs remain, they are those of plain rejection sampling: earlier prompts must not change.
  Random one("same"), other("same");
  DistinctWords drawn;
  std::set<std::string> used;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(drawn.Draw(one), DrawUnused(used, [&] { return DrawPair(other); }));
}

// The count of each word of a sample's list.
std::map<std::string, int> ListCounts(const Sample& sample) {
  std::map<std::string, int> counts;
  const std::vector<std::string> items = absl::StrSplit(EvidenceText(sample), ' ');
  for (size_t i = 1; i < items.size(); i += 2) ++counts[items[i]];
  return counts;
}

TEST(CommonWordsTest, DefaultRepeatsDependOnTheLengthAsUpstream) {
  // common_words_extraction.py: 6 and 1 below 4,096 tokens, otherwise 30 and 3.
  auto expect = [](const std::map<std::string, std::string>& parameters, int length, int common, int other) {
    const Sample sample = Group(*Make("common_words", parameters), length, Shipped(), 1)[0];
    std::map<int, int> words_of_count;
    const std::map<std::string, int> counts = ListCounts(sample);
    for (const auto& [word, count] : counts) ++words_of_count[count];
    EXPECT_EQ(words_of_count[common], 10) << length;
    EXPECT_GT(words_of_count[other], 20) << length;
    EXPECT_EQ(words_of_count.rbegin()->first, common);
    for (const std::string& word : sample.gold) EXPECT_EQ(counts.at(word), common);
  };
  expect({}, 2048, 6, 1);
  expect({}, 4095, 6, 1);
  expect({}, 4096, 30, 3);
  expect({{"common_repeats", "30"}, {"other_repeats", "3"}}, 4095, 30, 3);
  expect({{"common_repeats", "20"}}, 3000, 20, 3);
  expect({{"other_repeats", "2"}}, 4000, 30, 2);
}

TEST(CommonWordsTest, CommonRepeatsMustExceedOtherRepeats) {
  auto make = [](std::map<std::string, std::string> parameters) {
    return MakeTask(*Completed({.name = "list", .kind = "common_words", .parameters = std::move(parameters)}, 4096))
        .status();
  };
  EXPECT_THAT(make({{"common_repeats", "2"}, {"other_repeats", "100"}}).message(),
              Message("\"list\"", "\"2\"", "\"100\""));
  EXPECT_THAT(make({{"common_repeats", "3"}}).message(),
              Message("\"list\"", "common_repeats is \"3\"", "other_repeats, which is \"3\""));
  EXPECT_EQ(make({{"other_repeats", "30"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(make({{"common_repeats", "4"}}).ok());
  EXPECT_TRUE(make({{"other_repeats", "29"}}).ok());
}

TEST(CommonWordsTest, ExchangedWordsAreNeverAsFrequentAsCommonOnes) {
  // One token per byte leaves gaps filled by exchanging words, and the list has a tenth of all pairs.
  const auto task = Make("common_words", {{"common", "3"}, {"common_repeats", "2"}, {"other_repeats", "1"}});
  for (int index = 0; index < 24; ++index) {
    const Sample sample = Group(*task, 80'000, Bytes(), index)[0];
    int twice = 0;
    for (const auto& [word, count] : ListCounts(sample)) twice += count > 1 ? 1 : 0;
    EXPECT_EQ(twice, 3) << index;
  }
}

// One token per blank: long texts cost little.
class Blanks : public TokenCounter {
 public:
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    return std::vector<int32_t>(std::count(text.begin(), text.end(), ' '));
  }
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override { return EncodePiece(text); }
  const std::string& sha256() const override { return sha256_; }

 private:
  std::string sha256_ = Sha256Hex("blanks");
};

TEST(DistinctWordsTest, AContextMayNeedMoreThanAllPairs) {
  const size_t pair_count = TheLexicon().first.size() * TheLexicon().second.size();
  const Sample needles = Group(*Make("niah", {{"haystack", "needles"}}), 340'000, Blanks(), 0)[0];
  std::set<absl::string_view> keys;
  int needle_count = 0;
  for (absl::string_view line : absl::StrSplit(Context(needles), '\n')) {
    if (!absl::ConsumePrefix(&line, "A secret number of ")) continue;
    EXPECT_TRUE(keys.insert(line.substr(0, line.find(' '))).second) << line;
    ++needle_count;
  }
  EXPECT_GT(needle_count, static_cast<int>(pair_count) + 2000);

  const auto task = Make("common_words", {{"other_repeats", "1"}, {"common_repeats", "6"}});
  const Sample list = Group(*task, 120'000, Blanks(), 0)[0];
  std::map<absl::string_view, int> counts;
  const std::string text = EvidenceText(list);
  for (absl::string_view item : absl::StrSplit(text, ' ')) ++counts[item];
  EXPECT_GT(counts.size(), 2 * pair_count) << "words, and a number for each";
  for (const std::string& word : list.gold) EXPECT_EQ(counts[word], 6);
}

TEST(FrequentWordsTest, TheGoldWordsFollowTheDots) {
  for (const char* alpha : {"1.5", "2", "3.5"}) {
    const auto task = Make("frequent_words", {{"alpha", alpha}});
    for (int length : {4096, 6144, 32768}) {
      const Sample sample = Group(*task, length, Shipped(), 5)[0];
      std::map<std::string, int> counts;
      for (absl::string_view word : absl::StrSplit(EvidenceText(sample), ' ')) ++counts[std::string(word)];
      std::vector<std::pair<int, std::string>> order;
      for (const auto& [word, count] : counts) order.push_back({-count, word});
      std::sort(order.begin(), order.end());
      ASSERT_GT(order.size(), 4u);
      EXPECT_EQ(order[0].second, "...");
      EXPECT_THAT(sample.gold, ElementsAre(order[1].second, order[2].second, order[3].second))
          << alpha << " " << length;
      EXPECT_GT(-order[3].first, -order[4].first) << "the third is more frequent than the fourth";
    }
  }
}

TEST(StringMatchTest, CountsContainedGoldAnswersIgnoringCase) {
  auto score = [](const char* metric, const std::string& prediction, std::vector<std::string> gold) {
    return FindMetric(metric)->Score({prediction, std::move(gold), {}, {}, {}}).value();
  };
  // string_match_all and string_match_part of RULER's scripts/eval/synthetic/constants.py, one sample, as shares.
  EXPECT_EQ(score("string_match_all", "12, 34.", {"12", "56"}), 0.5);
  EXPECT_EQ(score("string_match_part", "12, 34.", {"12", "56"}), 1);
  EXPECT_EQ(score("string_match_all", "the AMBER-Owl", {"amber-owl", "The"}), 1);
  EXPECT_EQ(score("string_match_all", "12345", {"234"}), 1) << "inside a longer number as well";
  EXPECT_EQ(score("string_match_all", "\u00c9MILE", {"\u00e9mile"}), 1) << "in lower case as Python has it";
  EXPECT_EQ(score("string_match_part", "", {"a"}), 0);
  EXPECT_THAT(FindMetric("string_match_all")->Score({"x", {}, {}, {}, {}}).status().message(), Message(1));
}

TEST(FactTrackingTest, KeepsTheOrderOfFactsAndRejectsTooMany) {
  const auto task = Make("fact_tracking", {{"ask", "where_thing"}, {"facts", "60"}});
  const Sample sample = Group(*task, 8192, Shipped(), 0)[0];
  const Sample longer = Group(*task, 16384, Shipped(), 0)[0];
  auto facts = [](const Sample& from) {
    const std::string text = Context(from).substr(Context(from).find("Text: "));
    std::vector<std::string> found;
    const std::regex fact("\\w+ (went to the \\w+|picked up the \\w+|left the \\w+ there)\\.");
    for (std::sregex_iterator it(text.begin(), text.end(), fact), end; it != end; ++it) found.push_back(it->str());
    return found;
  };
  EXPECT_EQ(facts(sample).size(), 60u);
  EXPECT_EQ(facts(sample), facts(longer));
  const auto many = Completed({.kind = "fact_tracking", .parameters = {{"ask", "which_side"}, {"facts", "41"}}});
  EXPECT_EQ(MakeTask(*many).status().message(),
            "task \"fact_tracking\": facts is \"41\"; which_side has from 24 to 40");
}

TEST(HaystackTest, MissingProseIsOneSentence) {
  for (const char* kind : {"niah", "variable_tracking", "fact_tracking"}) {
    const auto spec = Completed({.kind = kind, .parameters = {{"haystack", "prose"}, {"novels", "no/such/place"}}});
    EXPECT_THAT(MakeTask(*spec).status(), IsError(absl::StatusCode::kNotFound, Message("deploy/get_novels.sh")));
  }
}

}  // namespace
}  // namespace varifocal

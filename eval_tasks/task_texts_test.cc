// What each family of native tasks guarantees of its texts, parsed back from the prompts.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "eval_tasks/tasks/fit.h"
#include "eval_tasks/testing_samples.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

TEST(RecallKvTest, KeysAreUniqueAndTheAskedOneHasTheGold) {
  for (const Sample& sample : Group(*Make("recall_kv"), 8192, Shipped(), 0)) {
    const size_t begin = sample.prompt.find('{');
    const size_t end = sample.prompt.find('}');
    const std::string object = sample.prompt.substr(begin, end - begin + 1);
    std::set<std::string> keys;
    int count = 0;
    for (absl::string_view pair : absl::StrSplit(object.substr(2, object.size() - 4), "\",\"")) {
      const std::vector<std::string> sides = absl::StrSplit(pair, "\":\"");
      ASSERT_EQ(sides.size(), 2u) << pair;
      EXPECT_TRUE(keys.insert(sides[0]).second) << sides[0];
      ++count;
    }
    EXPECT_GT(count, 1600) << "five tokens a pair";
    const std::string asked = sample.prompt.substr(end + 3);  // after "}\n\n"
    EXPECT_EQ(EvidenceText(sample), absl::StrCat(asked, sample.gold[0], "\""));
  }
}

TEST(IclLabelsTest, LabelsAreBalancedRemappedAndTheAskedLineIsNew) {
  for (const auto& [classes, noise_words] :
       std::vector<std::pair<std::string, std::string>>{{"2", "0"}, {"8", "0"}, {"12", "0"}, {"2", "1"}, {"8", "1"}}) {
    const int class_count = std::stoi(classes);
    for (int index : {0, 4}) {
      const auto task = Make("icl_labels", {{"classes", classes}, {"noise_words", noise_words}});
      for (const Sample& sample : Group(*task, 4096, Shipped(), index)) {
        std::vector<std::string> lines = absl::StrSplit(sample.prompt, '\n');
        ASSERT_EQ(lines[1], "");
        const std::string asked = lines.back();
        std::map<std::string, int> label_counts;
        std::map<std::string, std::set<std::string>> labels_of_word;
        std::vector<std::string> round;
        for (size_t i = 2; i + 1 < lines.size(); ++i) {
          EXPECT_FALSE(absl::StartsWith(lines[i], asked));
          const std::string label = lines[i].substr(lines[i].rfind(' ') + 1);
          ++label_counts[label];
          round.push_back(label);
          const std::vector<std::string> parts = absl::StrSplit(lines[i], ' ');  // - word word word = label
          for (int j = 1; j <= 3; ++j) labels_of_word[parts[j]].insert(label);
          if (std::ssize(round) == class_count) {
            EXPECT_EQ(std::set<std::string>(round.begin(), round.end()).size(), round.size())
                << "a round has each once";
            round.clear();
          }
        }
        EXPECT_EQ(std::ssize(label_counts), class_count);
        for (const auto& [label, count] : label_counts) {
          EXPECT_NEAR(count, static_cast<double>(lines.size() - 3) / class_count, 1) << label;
        }
        EXPECT_TRUE(label_counts.count(sample.gold[0]));
        // Without noise a word occurs only with its own label; with noise some word also occurs with another one.
        const bool is_mixed = std::any_of(labels_of_word.begin(), labels_of_word.end(),
                                          [](const auto& entry) { return entry.second.size() > 1; });
        EXPECT_EQ(is_mixed, noise_words == "1");
        // The evidence has the gold label and one of the asked words in each line.
        for (absl::string_view line : absl::StrSplit(EvidenceText(sample), '|')) {
          EXPECT_TRUE(absl::EndsWith(line, absl::StrCat("= ", sample.gold[0]))) << line;
        }
      }
    }
  }
}

// In version 2 each quarter of the depths has the same share of two-hop questions.
TEST(RagFactsTest, TwoHopQuestionsAlternate) {
  for (int group_index = 0; group_index < 8; ++group_index) {
    const auto through_friend = [&](const std::map<std::string, std::string>& parameters) {
      std::vector<int> found;
      const std::vector<Sample> group = Group(*Make("rag_facts", parameters), 1024, Shipped(), group_index * 4);
      for (size_t i = 0; i < group.size(); ++i) {
        if (absl::StrContains(group[i].prompt.substr(group[i].prompt.rfind("Question: ")), "friend of"))
          found.push_back(i);
      }
      return found;
    };
    EXPECT_EQ(through_friend({{"version", "2"}}), std::vector<int>{group_index % 4});
    EXPECT_EQ(through_friend({}), std::vector<int>{3});
    EXPECT_EQ(through_friend({{"version", "1"}}), std::vector<int>{3});
  }
}

TEST(RagFactsTest, TheAnswerIsInTheEvidenceAndDistractorsAreHard) {
  for (int index : {0, 4, 8}) {
    const std::vector<Sample> group = Group(*Make("rag_facts"), 8192, Shipped(), index);
    for (const Sample& sample : group) {
      const std::string asked = sample.prompt.substr(sample.prompt.rfind("Answer: ") + 8);  // "The color of x y is"
      const std::vector<std::string> words = absl::StrSplit(asked, ' ');
      const bool through_friend = &sample == &group[3];
      EXPECT_EQ(sample.evidence.size(), through_friend ? 2u : 1u);
      if (through_friend) {
        const std::string name = absl::StrCat(words[6], " ", words[7]);
        const std::string begin = absl::StrCat("The friend of ", name, " is ");
        const size_t at = sample.prompt.find(begin);
        ASSERT_NE(at, std::string::npos);
        const std::string whom =
            sample.prompt.substr(at + begin.size(), sample.prompt.find('.', at) - at - begin.size());
        EXPECT_TRUE(absl::StrContains(sample.prompt,
                                      absl::StrCat("The ", words[1], " of ", whom, " is ", sample.gold[0], ".")));
        EXPECT_TRUE(absl::StrContains(EvidenceText(sample), absl::StrCat(begin, whom, ".")));
      } else {
        EXPECT_EQ(EvidenceText(sample), absl::StrCat(asked, " ", sample.gold[0], "."));
      }
    }
    // Documents: one an entity; about half of the distractors share a name word with an asked entity.
    std::set<std::string> entities;
    const std::string shared = group[0].prompt.substr(0, group[0].shared_prefix_bytes);
    const std::vector<std::string> documents = absl::StrSplit(shared, "\n\n", absl::SkipEmpty());
    for (size_t i = 1; i < documents.size(); ++i) {
      const std::string entity = documents[i].substr(10, documents[i].find('\n') - 10);
      EXPECT_TRUE(entities.insert(entity).second) << entity;
      EXPECT_EQ(std::count(documents[i].begin(), documents[i].end(), '.'), 3) << documents[i];
    }
    std::set<std::string> asked_words;
    for (int j = 0; j < 4; ++j) {
      const std::vector<std::string> words =
          absl::StrSplit(group[j].prompt.substr(group[j].prompt.rfind("Answer: ") + 8), ' ');
      asked_words.insert(words.end() - 3, words.end() - 1);
    }
    int sharing = 0;
    for (const std::string& entity : entities) {
      for (const std::string& word : std::vector<std::string>(absl::StrSplit(entity, ' '))) {
        if (asked_words.count(word)) {
          ++sharing;
          break;
        }
      }
    }
    // Of the half that is hard, four targets in five are asked by name (the fifth is the friend).
    EXPECT_GT(sharing, std::ssize(entities) * 3 / 10);
  }
}

TEST(LongqaStoryTest, TheLastMoveIsTheAnswer) {
  for (int length : {512, 4096}) {
    for (const Sample& sample : Group(*Make("longqa_story"), length, Shipped(), 0)) {
      const size_t question = sample.prompt.rfind("Where is ") + 9;
      const std::string name = sample.prompt.substr(question, sample.prompt.find('?', question) - question);
      const std::string move = absl::StrCat(name, " went to the ");
      int moves = 0;
      size_t last = 0;
      for (size_t at = sample.prompt.find(move); at != std::string::npos; at = sample.prompt.find(move, at + 1)) {
        last = at;
        ++moves;
      }
      EXPECT_GE(moves, 2);
      EXPECT_EQ(sample.prompt.substr(last, sample.prompt.find('.', last) - last), absl::StrCat(move, sample.gold[0]));
      EXPECT_EQ(EvidenceText(sample), absl::StrCat(move, sample.gold[0], "."));
      for (absl::string_view paragraph :
           absl::StrSplit(sample.prompt.substr(0, sample.shared_prefix_bytes), "\n\n", absl::SkipEmpty())) {
        EXPECT_LE(std::count(paragraph.begin(), paragraph.end(), '.'), 8);
      }
    }
  }
}

TEST(LongqaStoryTest, HalfOfTheEventsAreMoves) {
  const std::string prompt = Group(*Make("longqa_story"), 32768, Shipped(), 0)[0].prompt;
  int moves = 0, sentences = 0;
  for (absl::string_view sentence : absl::StrSplit(prompt, '.')) {
    ++sentences;
    moves += absl::StrContains(sentence, " went to ") ? 1 : 0;
  }
  EXPECT_GT(sentences, 5000);
  // Asked people, 4 of 24, stop moving half-way on average: about 48 % of the sentences are moves.
  EXPECT_NEAR(static_cast<double>(moves) / sentences, 0.48, 0.03);
}

TEST(LongqaStoryTest, OptionsAreDistinctAndTheRightOneIsAtAnyIndex) {
  std::set<int> right;
  const auto task = Make("longqa_story", {{"format", "multiple_choice"}});
  for (int index = 0; index < 48; index += 4) {
    for (const Sample& sample : Group(*task, 1024, Shipped(), index)) {
      EXPECT_EQ(sample.continuations.size(), 4u);
      EXPECT_EQ(std::set<std::string>(sample.continuations.begin(), sample.continuations.end()).size(), 4u);
      ASSERT_EQ(sample.gold_continuation_indices.size(), 1u);
      EXPECT_EQ(sample.continuations[sample.gold_continuation_indices[0]], absl::StrCat(" ", sample.gold[0]));
      right.insert(sample.gold_continuation_indices[0]);
      // The prompt is that of the free form: only the scoring differs.
      EXPECT_TRUE(absl::EndsWith(sample.prompt, " in the"));
    }
  }
  EXPECT_EQ(right.size(), 4u);
}

TEST(LexiconTest, WordsAreUniqueAndErrorsNameTheLine) {
  EXPECT_EQ(TheLexicon().first.size(), 230u);
  EXPECT_EQ(TheLexicon().places.size(), 48u);
  EXPECT_THAT(ParseLexicon("[first]\na\na\n").status().message(), Message("line 3", "\"a\""));
  EXPECT_THAT(ParseLexicon("a\n").status().message(), Message("line 1", "\"a\""));
  EXPECT_EQ(ParseLexicon("[x]\n").status().message(), "line 1: unknown section [x]");
}

TEST(FitTest, PlacesAreDistinctAndInOrderOfDepth) {
  EXPECT_EQ(PlaceAtDepths({0.5, 0.0, 0.99, 0.5}, 100), (std::vector<int>{50, 0, 99, 51}));
  EXPECT_EQ(PlaceAtDepths({1, 1, 1}, 10), (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(PlaceAtDepths({0, 0, 0}, 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(PlaceAtDepths({0.9, 0.1}, 2), (std::vector<int>{1, 0}));
}

TEST(SampleTest, TokenIdsAreHashedAsAJsonArray) {
  Sample sample;
  sample.token_ids = {1, 2, 3};
  EXPECT_EQ(sample.TokenIdsSha256(), Sha256Hex("[1,2,3]"));
  sample.token_ids = {};
  EXPECT_EQ(sample.TokenIdsSha256(), Sha256Hex("[]"));
}

}  // namespace
}  // namespace varifocal

// The gold answer's text and tokens after a prompt, with tokenizers that merge across the boundary and that do not.
#include "eval_tasks/gold_answer.h"

#include "eval_tasks/testing_samples.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

Sample WithGold(const std::string& prompt, const std::string& gold, const TokenCounter& tokenizer) {
  Sample sample;
  sample.prompt = prompt;
  sample.token_ids = tokenizer.EncodePrompt(prompt).value();
  sample.gold = {gold, "another answer"};
  sample.max_new_tokens = 8;
  return sample;
}

std::vector<int32_t> Ids(const std::string& prompt, const std::string& gold, const TokenCounter& tokenizer,
                         bool is_chat = false) {
  return GoldTokenIds(WithGold(prompt, gold, tokenizer), std::nullopt, is_chat, tokenizer).value();
}

TEST(GoldAnswerTest, TextFollowsThePromptAsAnAnswerWould) {
  struct Row {
    const char *prompt, *gold, *text;
    bool is_chat = false;
  };
  for (const Row& row : std::vector<Row>{{"Answer:", "Paris", " Paris"},
                                         {"The colour of x is", "red \n", " red"},
                                         {"- a b c =", "3", " 3"},
                                         {"\"key\":\"", "value", "value"},
                                         {"(", "A", "A"},
                                         {"Answer:\n", "Paris", "Paris"},
                                         {"Answer: ", "Paris", "Paris"},
                                         {"Answer:", " Paris", " Paris"},
                                         {"", "Paris", "Paris"},
                                         {"What is it?", "Paris", "Paris", true},
                                         {"Answer:", " \n", ""},
                                         {"Answer:", "", ""}}) {
    EXPECT_EQ(GoldContinuation(row.prompt, {row.gold, "other"}, row.is_chat), row.text) << row.prompt;
  }
  EXPECT_EQ(GoldContinuation("Answer:", {}, false), "");
}

TEST(GoldAnswerTest, TokensArePromptsOwnThenTheAnswers) {
  const std::string prompt = "Document: a red door\n\nQuestion: What is the door?\nAnswer: The door is";
  for (const TokenCounter* tokenizer : {&Bytes(), &Words(), &Shipped()}) {
    std::vector<int32_t> whole = tokenizer->EncodePrompt(prompt).value();
    const std::vector<int32_t> ids = Ids(prompt, "red", *tokenizer);
    ASSERT_FALSE(ids.empty());
    whole.insert(whole.end(), ids.begin(), ids.end());
    EXPECT_EQ(whole, tokenizer->EncodePrompt(prompt + " red").value());
    EXPECT_NE(ids, Ids(prompt, "blue", *tokenizer));
  }
}

// Three bytes a token from the start: prompt and answer together have other tokens than the prompt that is run.
TEST(GoldAnswerTest, AMergeAcrossTheBoundaryLeavesThePromptAlone) {
  EXPECT_EQ(Ids("ab:", "xyz12", Triples()), Triples().EncodePiece(" xyz12").value()) << "the boundary is one of tokens";
  EXPECT_EQ(Ids("abc:", "xyz12", Triples()), Triples().EncodePiece(" xyz12").value());
  // A prompt that ends in a space has that space as a token; the shipped tokenizer would put it into the word.
  const std::vector<int32_t> bare = Ids("The door is ", "red", Shipped());
  EXPECT_EQ(bare, Shipped().EncodePiece("red").value());
  EXPECT_NE(bare, Ids("The door is", "red", Shipped()));
}

TEST(GoldAnswerTest, InAChatFormatTheAnswerBeginsATurn) {
  Sample sample = WithGold("What is the door?", "red", ShippedChat());
  const auto ids = GoldTokenIds(sample, std::nullopt, true, ShippedChat());
  ASSERT_TRUE(ids.ok());
  std::vector<int32_t> whole = sample.token_ids;
  whole.insert(whole.end(), ids->begin(), ids->end());
  EXPECT_EQ(whole, ShippedChat().EncodeAnswered(std::nullopt, sample.prompt, "red").value());
  EXPECT_EQ(*ids, Shipped().EncodePiece("red").value());
}

TEST(GoldAnswerTest, LongerThanMayBeGeneratedIsNotScored) {
  Sample sample = WithGold("Answer:", "1234567", Bytes());  // eight tokens with the space
  EXPECT_EQ(GoldTokenIds(sample, std::nullopt, false, Bytes())->size(), 8u);
  sample.max_new_tokens = 7;
  EXPECT_TRUE(GoldTokenIds(sample, std::nullopt, false, Bytes())->empty());
  sample.gold.clear();
  EXPECT_TRUE(GoldTokenIds(sample, std::nullopt, false, Bytes())->empty());
}

}  // namespace
}  // namespace varifocal

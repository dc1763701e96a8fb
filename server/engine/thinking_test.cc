// Thinking blocks of a generation: bounds and stop strings by feeding the tokens of texts written by hand, and on the shipped
// baseline that a forced end is the same computation as asking with the forced tokens, whatever else runs.
#include "server/engine/thinking.h"

#include <future>
#include <string>
#include <vector>

#include "base/reason.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/engine/engine_testing.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

const Tokenizer& Shipped() {
  static const std::shared_ptr<const Tokenizer> tokenizer = *Tokenizer::Load("models/baseline");
  return *tokenizer;
}

std::vector<int32_t> Ids(const std::string& text) { return *Shipped().Encode(text, {.add_special_tokens = false}); }

GenerateWork Work(int64_t thinking_tokens, int64_t answer_tokens, bool is_opened = false) {
  GenerateWork work;
  work.max_new_tokens = thinking_tokens + answer_tokens;
  work.stop = {"\n", "."};
  work.thinking = ThinkingWork{.rule = {{"<think>", "</think>"}, is_opened, ""},
                               .tokens_max = thinking_tokens,
                               .answer_tokens_max = answer_tokens};
  return work;
}

// As a model that would write `text`, and after forced tokens `after`.
EngineResult Feed(const GenerateWork& work, const std::string& text, const std::string& after = "") {
  ThinkingProgress progress = BeginThinking(Shipped(), *work.thinking);
  EngineResult result;
  std::vector<int32_t> ids = Ids(text);
  for (size_t i = 0; i < ids.size() && result.finish_reason == EngineFinishReason::kNone; ++i) {
    result.new_token_ids.push_back(ids[i]);
    const bool was_forced = result.is_thinking_forced;
    EXPECT_TRUE(FollowThinking(Shipped(), work, progress, result).ok());
    if (result.is_thinking_forced && !was_forced) {
      ids = Ids(after);
      i = -1;
    }
  }
  CompleteThinking(Shipped(), {}, work, progress, result);
  return result;
}

TEST(EngineThinking, StopStringsWaitForTheEndOfTheBlock) {
  const std::string block = "<think>\nRome? No.\nIt is old.\n</think>";
  const EngineResult result = Feed(Work(500, 100), block + "\n\nParis. And more");
  EXPECT_EQ(result.finish_reason, EngineFinishReason::kStop);
  EXPECT_EQ(result.matched_stop, ".");
  EXPECT_EQ(result.text, block + "\n\nParis");
  EXPECT_GE(result.thinking_token_count, std::ssize(Ids(block)));
  EXPECT_LE(result.thinking_token_count, std::ssize(Ids(block)) + 1) << "a token may have the end and what follows";
  // The same where the prompt has opened the block; without a block the first stop string ends the answer.
  EXPECT_EQ(Feed(Work(500, 100, true), "Rome? No.\n</think>\nParis. x").text, "Rome? No.\n</think>\nParis");
  const EngineResult plain = Feed(Work(500, 100), "Paris. More");
  EXPECT_EQ(plain.text, "Paris");
  EXPECT_EQ(plain.thinking_token_count, 0);
}

TEST(EngineThinking, EachPartHasItsOwnBound) {
  const EngineResult cut = Feed(Work(8, 100), "<think>a long thought that does not come to an end</think>Paris");
  EXPECT_EQ(cut.finish_reason, EngineFinishReason::kLength);
  EXPECT_EQ(cut.thinking_token_count, 8);
  EXPECT_EQ(cut.new_token_ids.size(), 8u);
  const std::string block = "<think>a</think>";
  const EngineResult answer = Feed(Work(500, 3), block + " one two three four five six seven");
  EXPECT_EQ(answer.finish_reason, EngineFinishReason::kLength);
  EXPECT_EQ(std::ssize(answer.new_token_ids) - answer.thinking_token_count, 3);
  EXPECT_EQ(std::ssize(Feed(Work(500, 3), "one two three four five").new_token_ids), 3)
      << "no block: an answer's bound";
}

TEST(EngineThinking, TheEndIsForcedOnceAndSaid) {
  GenerateWork work = Work(8, 100);
  work.thinking->rule.forced_answer = "\n\nAnswer:";
  work.thinking->forced_ids = Ids("\n</think>\n\nAnswer:");
  work.max_new_tokens += std::ssize(work.thinking->forced_ids);
  const EngineResult forced = Feed(work, "<think>a long thought that does not come to an end", " Paris. x");
  EXPECT_TRUE(forced.is_thinking_forced);
  EXPECT_EQ(forced.finish_reason, EngineFinishReason::kStop);
  EXPECT_EQ(forced.thinking_token_count, 8 + std::ssize(work.thinking->forced_ids));
  EXPECT_TRUE(forced.text.ends_with("\n</think>\n\nAnswer: Paris")) << forced.text;
  const EngineResult again =
      Feed(work, "<think>a long thought that does not come to an end", " Rome <think> again and");
  EXPECT_EQ(again.finish_reason, EngineFinishReason::kLength) << "a second block has no tokens left";
  work.thinking->tokens_max = 50;
  work.max_new_tokens += 42;
  EXPECT_FALSE(Feed(work, "<think>a</think>Paris.").is_thinking_forced);
}

TEST(EngineThinking, BadBoundsAndMarkersAreRefused) {
  const auto engine = StartEngine(LoadForTest("models/baseline"));
  const auto refusal = [&](GenerateWork work) {
    return engine->Run({.token_ids = Ids("Rome is"), .work = std::move(work)}).status();
  };
  GenerateWork empty = Work(8, 8), same = Work(8, 8), long_answer = Work(8, 8);
  empty.thinking->rule.markers.end = "";
  same.thinking->rule.markers.end = "<think>";
  long_answer.thinking->answer_tokens_max = 17;
  EXPECT_THAT(refusal(empty), RefusedFor("BAD_THINKING", Message("end", "0", "256")));
  EXPECT_THAT(refusal(same).message(), Message("<think>"));
  EXPECT_THAT(refusal(long_answer).message(), Message("17", "16"));
  GenerateWork forced = Work(8, 8);
  forced.thinking->forced_ids = {5, 6, 7};
  forced.max_new_tokens = 18;
  EXPECT_THAT(refusal(forced), RefusedFor("BAD_THINKING", Message("3", "16", "18")));
  forced.max_new_tokens = 19;
  EXPECT_TRUE(refusal(forced).ok()) << refusal(forced);
}

// Method: a block opened in the prompt that the baseline never closes, with the end forced after 5 tokens. The 5 are those of
// a plain request; the answer is that of a plain request whose prompt has them and the forced tokens, whose keys and values
// were computed as a prompt's there. Alone, and beside others in another order, every bit agrees.
TEST(EngineThinking, ForcedTokensAreWhatAPromptWithThemComputes) {
  const std::vector<int32_t> prompt = Ids("Question: where is the lamp? <think>");
  GenerateWork work = Work(5, 6, /*is_opened=*/true);
  work.stop.clear();
  work.ignore_eos = true;
  work.thinking->forced_ids = Ids("</think> The lamp is in the");
  work.thinking->rule.forced_answer = " The lamp is in the";
  work.max_new_tokens += std::ssize(work.thinking->forced_ids);
  const auto engine = StartEngine(LoadForTest("models/baseline"));
  const auto alone = engine->Run({.token_ids = prompt, .work = work});
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE(alone->is_thinking_forced);
  ASSIGN_OR_FAIL(const auto first,
                 engine->Run({.token_ids = prompt, .work = GenerateWork{.max_new_tokens = 5, .ignore_eos = true}}));
  std::vector<int32_t> expected = first.new_token_ids;
  expected.insert(expected.end(), work.thinking->forced_ids.begin(), work.thinking->forced_ids.end());
  std::vector<int32_t> whole = prompt;
  whole.insert(whole.end(), expected.begin(), expected.end());
  ASSIGN_OR_FAIL(const auto then,
                 engine->Run({.token_ids = whole, .work = GenerateWork{.max_new_tokens = 6, .ignore_eos = true}}));
  expected.insert(expected.end(), then.new_token_ids.begin(), then.new_token_ids.end());
  EXPECT_EQ(alone->new_token_ids, expected);
  EXPECT_EQ(alone->new_token_log_probs.size(), expected.size());
  EXPECT_EQ(alone->new_token_log_probs[5], 0);
  // Together with others.
  const auto busy = StartEngine(LoadForTest("models/baseline"), {.prefill_chunk_tokens = 16});
  std::vector<std::future<absl::StatusOr<EngineResult>>> results;
  for (int i = 0; i < 6; ++i) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
    results.push_back(promise->get_future());
    EngineRequest request{.token_ids = i % 2 == 0 ? prompt : RandomIds(std::to_string(i), 40), .work = work};
    ASSERT_TRUE(
        busy->Start(std::move(request), {.on_done = [promise](auto result) { promise->set_value(std::move(result)); }})
            .ok());
  }
  for (int i = 0; i < 6; ++i) {
    const absl::StatusOr<EngineResult> result = results[i].get();
    if (i % 2 == 1) continue;
    EXPECT_EQ(AnswerBits(result), AnswerBits(alone)) << i;
  }
}

}  // namespace
}  // namespace varifocal

// Windows of a text: the same scored tokens at every length, right before them the context, disjoint between windows.
#include "eval_tasks/tasks/context_gain.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "base/sha256.h"
#include "eval_tasks/testing_samples.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

std::string SomeText(size_t size) {
  Random random("some text");
  std::string text;
  while (text.size() < size) {
    absl::StrAppend(&text, random.Choose(TheLexicon().first), " ", random.Choose(TheLexicon().second), ". ");
  }
  text.resize(size);
  return text;
}

TaskSpec GainSpec(std::map<std::string, std::string> parameters = {}) {
  parameters.insert({{"path", "text.txt"}, {"scored_tokens", "64"}, {"short_context", "100"}, {"longest", "2000"}});
  return Completed({.kind = "context_gain", .parameters = parameters, .samples = 4}).value();
}

absl::StatusOr<std::unique_ptr<Task>> MakeGain(const std::string& text,
                                               std::map<std::string, std::string> parameters = {}) {
  return MakeContextGain(GainSpec(std::move(parameters)), "text.txt", text);
}

TEST(ContextGainTest, ScoresTheSameTokensAfterEveryContext) {
  const std::string text = SomeText(60'000);
  ASSIGN_OR_FAIL(const auto task, MakeGain(text));
  ASSERT_EQ(task->question_count(), (60'000 - 16'000) / 512 + 1);
  const size_t special_count = Shipped().EncodePrompt("")->size();
  std::set<int64_t> ends;
  for (int index = 0; index < 8; ++index) {
    std::vector<int32_t> scored;
    for (const int length : {165, 500, 2000}) {
      const Sample sample = task->MakeSample({kSeed, length, index}, Shipped()).value();
      ASSERT_EQ(sample.continuation_token_ids.size(), 2u);
      EXPECT_EQ(sample.continuation_token_ids[0], sample.continuation_token_ids[1]);
      if (scored.empty()) scored = sample.continuation_token_ids[0];
      EXPECT_EQ(sample.continuation_token_ids[0], scored) << "at every length";
      EXPECT_EQ(scored.size(), 64u);
      EXPECT_EQ(std::ssize(sample.token_ids), length - 64);
      EXPECT_EQ(sample.context_token_ids[0], sample.token_ids);
      EXPECT_EQ(sample.context_token_ids[1].size(), 100u);
      EXPECT_EQ(sample.shortfall_tokens, 0);
      // Both contexts end where the scored text begins, and the text is the file's.
      const std::vector<int32_t>& longer = sample.context_token_ids[0];
      const std::vector<int32_t>& shorter = sample.context_token_ids[1];
      const std::ptrdiff_t body = 100 - special_count;
      EXPECT_TRUE(std::equal(shorter.rbegin(), shorter.rbegin() + std::min(body, std::ptrdiff_t{99}), longer.rbegin()));
      int64_t end = 0;
      ASSERT_TRUE(absl::SimpleAtoi(sample.row_id, &end));
      const std::string whole = absl::StrCat(sample.prompt, sample.continuations[0]);
      EXPECT_EQ(text.substr(end - whole.size(), whole.size()), whole);
      EXPECT_EQ(sample.gold[0], sample.continuations[0]);
      ends.insert(end);
    }
  }
  ASSERT_EQ(ends.size(), 8u);
  for (auto it = ends.begin(); std::next(it) != ends.end(); ++it) EXPECT_GE(*std::next(it) - *it, 512 - 256);
  EXPECT_NE(task->Identify({kSeed, 500, 0}).row_id, task->Identify({kSeed + 1, 500, 0}).row_id);
  EXPECT_EQ(task->Identify({kSeed, 500, 0}).question_id, task->Identify({kSeed, 2000, 0}).question_id);
  EXPECT_EQ(task->data_sha256(), Sha256Hex(text));
}

TEST(ContextGainTest, RefusesWhatHasNoWindow) {
  const std::string text = SomeText(17'000);
  EXPECT_THAT(MakeGain(SomeText(15'999)).status().message(), Message("text.txt", 15999, 2000, 16000));
  ASSIGN_OR_FAIL(const auto task, MakeGain(text));
  for (const int length : {164, 2001}) {
    EXPECT_THAT(task->QuestionCountAt(length).status().message(), Message("\"context_gain\"", length, 164, 2000));
  }
  EXPECT_EQ(*task->QuestionCountAt(165), 2);
  EXPECT_EQ(MakeGain(text, {{"sha256", std::string(64, '0')}}).status().code(), absl::StatusCode::kFailedPrecondition);
  TaskSpec chat = GainSpec();
  chat.chat = true;
  EXPECT_EQ(MakeContextGain(chat, "text.txt", text).status().code(), absl::StatusCode::kInvalidArgument);
  std::string long_words;
  while (long_words.size() < 16'000) long_words += " abcdefghijklmnopqrst";
  ASSIGN_OR_FAIL(const auto sparse, MakeGain(long_words));
  EXPECT_EQ(sparse->MakeSample({kSeed, 2000, 0}, Words()).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(ContextGainTest, RefusesBytesThatAreNotText) {
  const std::string text = SomeText(17'000);
  const auto with = [&](size_t at, const std::string& bytes) {
    return std::string(text).replace(at, bytes.size(), bytes);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"\xFF\xFE" + text, "text.txt: is UTF-16; convert it to UTF-8 first"},
      {"\xFE\xFF" + text, "text.txt: is UTF-16; convert it to UTF-8 first"},
      {std::string("\xFF\xFE\0\0", 4) + text, "text.txt: is UTF-32; convert it to UTF-8 first"},
      {"\x1F\x8B" + text, "text.txt: is compressed (gzip); unpack it first"},
      {"PK\x03\x04" + text, "text.txt: is a ZIP archive; unpack it first"},
      {std::string("A\0n", 3) + text,
       "text.txt: has a NUL byte at offset 1, which no text has; is it UTF-16, or not text at all?"},
      {with(16'998, std::string(1, '\0')),
       "text.txt: has a NUL byte at offset 16998, which no text has; is it UTF-16, or not text at all?"},
      {with(9'000, "\xE9t"), "text.txt: is not UTF-8: no character begins at offset 9000; convert it to UTF-8 first"},
      {with(9'000, "\xC0\x80"),
       "text.txt: is not UTF-8: no character begins at offset 9000; convert it to UTF-8 first"},
      {text + "\xC3", "text.txt: is not UTF-8: no character begins at offset 17000; convert it to UTF-8 first"},
  };
  for (const auto& [bytes, message] : cases) {
    const auto task = MakeGain(bytes);
    EXPECT_EQ(task.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(task.status().message(), message);
  }
  EXPECT_TRUE(MakeGain("\xEF\xBB\xBF" + with(9'000, "\xC3\xA9\xF0\x9F\x98\x80")).ok()) << "a byte order mark of UTF-8";
}

}  // namespace
}  // namespace varifocal

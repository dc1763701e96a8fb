// The system message of an imported task: stored in its index, prepended to every prompt in a chat format only, and
// counted when a context is truncated. Token ids are compared with those of the literal text.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/helmet/task.h"
#include "eval_tasks/token_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::helmet {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kLength = 120;

class SystemMessageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string rows;
    for (const int sentence_count : {1, 40}) {  // the second is truncated
      ImportedRow row;
      row.id = row.question = row.cluster = absl::StrCat(sentence_count);
      for (int i = 0; i < sentence_count; ++i) absl::StrAppend(&row.context, "The city is number ", i, ". ");
      row.values = {{"question", " Which city? \n"}};
      row.gold = {"0"};
      row.reference = row.gold;
      rows += ToJson(row).dump() + "\n";
    }
    testing_support::WriteFile(folder_ / "rows.jsonl", rows);
    index_.kind = "default";
    index_.user_template = "{context}\n{question}";
    index_.system_template = "Answer:";
    index_.separator = "\n";
    index_.settings = {{"seed", 42}};
    index_.lengths[kLength] = {"rows.jsonl", Sha256Hex(rows), 2, 20, "d", "t", "d", ""};
    format_.without_system = {"<|begin|>user\n", "", "<|end|>\n"};
    format_.with_system = ChatFormat::Texts{"<|begin|>system\n", "<|end|><|begin|>user\n", "<|end|>\n"};
  }

  std::unique_ptr<Task> Open(bool chat) const {
    testing_support::WriteFile(folder_ / "index.json", DumpTaskIndex(index_));
    TaskSpec spec;
    spec.name = "t";
    spec.kind = "helmet";
    spec.chat = chat;
    spec.parameters["path"] = (folder_ / "index.json").string();
    return MakeHelmetTask(spec).value();
  }
  Sample Made(bool chat, int row = 0) const {
    const auto counter = MakeTokenCounter(tokenizer_, chat ? std::make_shared<ChatFormat>(format_) : nullptr);
    return Open(chat)->MakeSample({1, kLength, row}, *counter).value();
  }
  std::vector<int32_t> Ids(const std::string& text) const {
    return tokenizer_->Encode(text, {.add_special_tokens = false}).value();
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ = Tokenizer::Load("models/baseline").value();
  testing_support::TemporaryDirectory directory_;
  fs::path folder_ = directory_.path();
  TaskIndex index_;
  ChatFormat format_;
};

TEST_F(SystemMessageTest, IsStoredInTheIndex) {
  const std::string without = DumpTaskIndex(index_);
  EXPECT_FALSE(absl::StrContains(without, "system_message"));
  EXPECT_FALSE(ParseTaskIndex(without)->system_message.has_value());
  for (const char* message : {"Be brief.", ""}) {
    index_.system_message = message;
    EXPECT_EQ(ParseTaskIndex(DumpTaskIndex(index_))->system_message, message);
  }
  Json bad = ParseJson(without).value();
  bad["system_message"] = 3;
  EXPECT_THAT(std::string(ParseTaskIndex(bad.dump()).status().message()), HasSubstr("system_message"));
}

TEST_F(SystemMessageTest, PrecedesThePromptInAChatFormat) {
  const std::string prompt = "The city is number 0. \n Which city? \n";
  index_.system_message = " Be brief. ";
  EXPECT_EQ(Made(true).prompt, prompt);
  EXPECT_EQ(Made(true).token_ids,
            Ids(absl::StrCat("<|begin|>system\n Be brief. <|end|><|begin|>user\n", prompt, "<|end|>\n")));
  index_.system_message = "";
  EXPECT_EQ(Made(true).token_ids, Ids(absl::StrCat("<|begin|>system\n<|end|><|begin|>user\n", prompt, "<|end|>\n")));
  index_.system_message = " Be brief. ";
  format_.with_system->trim_user = format_.with_system->trim_system = {true, true};
  EXPECT_EQ(Made(true).token_ids,
            Ids("<|begin|>system\nBe brief.<|end|><|begin|>user\nThe city is number 0. \n Which city?<|end|>\n"));
  index_.system_message.reset();
  EXPECT_EQ(Made(true).token_ids, Ids(absl::StrCat("<|begin|>user\n", prompt, "<|end|>\n")));
}

TEST_F(SystemMessageTest, IsOmittedWhereUnsupported) {
  const std::vector<int32_t> plain = Made(false).token_ids, chat = Made(true).token_ids;
  index_.system_message = "Be brief.";
  EXPECT_EQ(Made(false).token_ids, plain);
  EXPECT_EQ(Open(false)->system_message(), std::nullopt);
  EXPECT_EQ(Open(true)->system_message(), "Be brief.");
  format_.with_system.reset();
  EXPECT_EQ(Made(true).token_ids, chat) << "the template rejects one";
}

TEST_F(SystemMessageTest, CountsTowardsTheLength) {
  const Sample shorter = Made(true, 1);
  index_.system_message = "Answer in one word, and if no city is named, say so.";
  const Sample longer = Made(true, 1);
  const auto added = std::ssize(Ids(absl::StrCat("<|begin|>system\n", *index_.system_message, "<|end|>")));
  EXPECT_GT(added, 10);
  EXPECT_EQ(longer.truncation.cut_token_count, shorter.truncation.cut_token_count + added);
  EXPECT_LT(longer.prompt.size(), shorter.prompt.size());
}

}  // namespace
}  // namespace varifocal::helmet

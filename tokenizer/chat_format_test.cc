// chat_format.json: what is accepted and refused, and that a wrapped prompt is encoded as one text whose own marks are
// single tokens and to which nothing is added. Ids are compared with those of the parts, which marks keep apart.
#include "tokenizer/chat_format.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

const std::string kDigest(64, 'a');

std::string File(const std::string& without, const std::string& with) {
  return absl::StrCat(R"({"template_sha256": ")", kDigest, R"(", "without_system": )", without, R"(, "with_system": )",
                      with, "}");
}
constexpr char kWithout[] = R"({"prefix": "<|begin|>user\n", "suffix": "<|end|>\nmodel\n"})";
constexpr char kWith[] = R"({"prefix": "<|begin|>user\n", "between": "\n\n", "suffix": "<|end|>\nmodel\n"})";

TEST(ChatFormatTest, WrapsWithAndWithoutASystemMessage) {
  const auto format = ParseChatFormat(File(kWithout, kWith));
  ASSERT_TRUE(format.ok()) << format.status();
  EXPECT_EQ(format->template_sha256, kDigest);
  EXPECT_EQ(*format->Wrap("Hi."), "<|begin|>user\nHi.<|end|>\nmodel\n");
  EXPECT_EQ(*format->Wrap("Hi.", "Be kind."), "<|begin|>user\nBe kind.\n\nHi.<|end|>\nmodel\n");
  EXPECT_EQ(*format->Wrap("Hi.", ""), "<|begin|>user\n\n\nHi.<|end|>\nmodel\n") << "an empty system message is one";
}

TEST(ChatFormatTest, ATemplateMayTakeNoSystemMessage) {
  for (const std::string& file : {File(kWithout, "null"), absl::StrCat(R"({"template_sha256": ")", kDigest,
                                                                       R"(", "without_system": )", kWithout, "}")}) {
    const auto format = ParseChatFormat(file);
    ASSERT_TRUE(format.ok()) << format.status();
    EXPECT_EQ(format->Wrap("Hi.", "Be kind.").status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(format->Wrap("Hi.").ok());
  }
}

TEST(ChatFormatTest, RefusesInOneSentence) {
  struct Bad {
    std::string file;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"[]", "not an object"},
           {"{", ""},
           {R"({"template_sha256": "aa", "without_system": {}})", "64 lower-case"},
           {absl::StrCat(R"({"template_sha256": ")", std::string(64, 'A'), R"(", "without_system": {}})"), "64 lower"},
           {R"({"without_system": {"prefix": "", "suffix": ""}})", "template_sha256"},
           {absl::StrCat(R"({"template_sha256": ")", kDigest, R"("})"), "\"without_system\" is missing"},
           {File(kWith, "null"), "\"without_system\" is {"},
           {File(kWithout, kWithout), "prefix, between, suffix"},
           {File(R"({"prefix": 3, "suffix": ""})", "null"), "{\"prefix\":3"},
           {File("null", "null"), "\"without_system\" is null"},
           {R"({"extra": [1]})", "unknown key \"extra\" with value [1]"},
       }) {
    const auto format = ParseChatFormat(bad.file);
    ASSERT_FALSE(format.ok()) << bad.file;
    EXPECT_EQ(format.status().code(), absl::StatusCode::kInvalidArgument) << format.status();
    EXPECT_THAT(std::string(format.status().message()), HasSubstr(bad.message));
  }
}

TEST(ChatFormatTest, IsReadFromADirectoryAndMayBeMissing) {
  const std::string directory = testing::TempDir();
  std::ofstream(directory + "/chat_format.json") << File(kWithout, kWith);
  const auto format = ReadChatFormat(directory);
  ASSERT_TRUE(format.ok() && *format != nullptr) << format.status();
  EXPECT_TRUE(CheckHasChatFormat(format->get(), "m").ok());
  std::ofstream(directory + "/chat_format.json") << "{}";
  EXPECT_THAT(std::string(ReadChatFormat(directory).status().message()), HasSubstr("/chat_format.json: "));
  std::remove((directory + "/chat_format.json").c_str());
  const auto missing = ReadChatFormat(directory);
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(*missing, nullptr);
  const absl::Status refused = CheckHasChatFormat(nullptr, "m");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("model \"m\" has no chat_format.json"));
}

TEST(ChatFormatTest, MarksAreTokensAndNothingIsAdded) {
  const auto tokenizer = Tokenizer::Load("models/baseline").value();
  const auto format = ParseChatFormat(File(kWithout, kWith)).value();
  const std::vector<int32_t> ids = EncodeChat(*tokenizer, *format.Wrap("The door is red.")).value();
  std::vector<int32_t> expected = {*tokenizer->TokenToId("<|begin|>")};
  auto add = [&](const char* text) {
    const auto piece = tokenizer->Encode(text, {.add_special_tokens = false}).value();
    expected.insert(expected.end(), piece.begin(), piece.end());
  };
  add("user\nThe door is red.");
  expected.push_back(*tokenizer->TokenToId("<|end|>"));
  add("\nmodel\n");
  EXPECT_EQ(ids, expected);
  int64_t invalid_count = 0;
  EXPECT_EQ(EncodeChat(*tokenizer, *format.Wrap("a\xE2\x82"), &invalid_count).value(),
            EncodeChat(*tokenizer, *format.Wrap("a\uFFFD")).value());
  EXPECT_EQ(invalid_count, 1) << "a character that breaks off at the end of what the user says";
}

}  // namespace
}  // namespace varifocal

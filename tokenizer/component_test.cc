// Components that no golden file has, and every small change of a file with every component: what is rejected names the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/json_changes.h"
#include "tokenizer/split_behavior.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

using testing::ElementsAre;
using testing_support::ForEachChange;
using testing_support::JsonChange;

constexpr char kWords[] = R"({"type": "WordLevel", "unk_token": "?",
  "vocab": {"?": 0, "ab": 1, "12": 2, "1": 3, "2": 4, "cd": 5, "!?": 6, "-ab": 7, "ab-": 8, "--": 9, "-": 10, "x": 11}})";

// A file of these parts; "" is null.
Json FileOf(const std::string& model, const std::string& normalizer = "", const std::string& pre_tokenizer = "",
            const std::string& decoder = "", const std::string& post_processor = "") {
  const auto parsed = [](const std::string& text) { return text.empty() ? Json() : *ParseJson(text); };
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", parsed(normalizer)},
          {"pre_tokenizer", parsed(pre_tokenizer)},
          {"decoder", parsed(decoder)},
          {"post_processor", parsed(post_processor)},
          {"model", parsed(model)}};
}

struct EncodeCase {
  const char* normalizer;
  const char* pre_tokenizer;
  const char* text;
  std::vector<int32_t> ids;
};

const EncodeCase kEncodeCases[] = {
    {"", R"({"type": "Digits", "individual_digits": false})", "ab12cd", {1, 2, 5}},
    {"", R"({"type": "Digits", "individual_digits": true})", "ab12cd", {1, 3, 4, 5}},
    {"", R"({"type": "Whitespace"})", "ab !? cd", {1, 6, 5}},
    {"", R"({"type": "WhitespaceSplit"})", "ab  ab-", {1, 8}},
    {"", R"({"type": "CharDelimiterSplit", "delimiter": "/"})", "ab//cd", {1, 5}},
    {"", R"({"type": "Punctuation"})", "ab--cd", {1, 10, 10, 5}},
    {"", R"({"type": "Punctuation", "behavior": "Contiguous"})", "ab--cd", {1, 9, 5}},
    {"", R"({"type": "Punctuation", "behavior": "MergedWithNext"})", "cd-ab", {5, 7}},
    {"", R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithPrevious"})", "ab-cd", {8, 5}},
    {"", R"({"type": "Split", "pattern": {"Regex": "-+"}, "behavior": "Removed", "invert": true})", "ab--cd", {9}},
    {"",
     R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": true}]})",
     "ab 12",
     {1, 3, 4}},
    {R"({"type": "Strip", "strip_left": true, "strip_right": false})", "", "  ab", {1}},
    {R"({"type": "Strip", "strip_left": false, "strip_right": true})", "", "ab  ", {1}},
    {R"({"type": "Strip", "strip_left": true, "strip_right": false})", "", "ab ", {0}},
    {R"({"type": "NFKD"})", "", "\xEF\xBD\x98", {11}},  // a fullwidth x
    {R"({"type": "NFKC"})", "", "\xEF\xBD\x98", {11}},
    {R"({"type": "NFC"})", "", "\xEF\xBD\x98", {0}},
    {R"({"type": "Prepend", "prepend": "a"})", "", "b", {1}},
    {R"({"type": "Prepend", "prepend": "a"})", "", "", {}},
    {R"({"type": "Replace", "pattern": {"String": "z"}, "content": ""})", "", "azb", {1}},
};

TEST(ComponentTest, Encodes) {
  for (const EncodeCase& c : kEncodeCases) {
    SCOPED_TRACE(absl::StrCat(c.normalizer, c.pre_tokenizer, " ", c.text));
    ASSIGN_OR_FAIL(const auto made, Tokenizer::FromJson(FileOf(kWords, c.normalizer, c.pre_tokenizer).dump()));
    EXPECT_EQ(*made->Encode(c.text), c.ids);
  }
}

struct DecodeCase {
  const char* decoder;
  std::vector<int32_t> ids;
  const char* text;
};

const DecodeCase kDecodeCases[] = {
    {"", {1, 2}, "ab 12"},
    {R"({"type": "Fuse"})", {1, 2}, "ab12"},
    {R"({"type": "Strip", "content": "-", "start": 0, "stop": 1})", {8, 9, 10}, "ab-"},
    {R"({"type": "Strip", "content": "-", "start": 1, "stop": 0})", {7, 9, 10}, "ab-"},
    {R"({"type": "WordPiece", "prefix": "-", "cleanup": false})", {1, 7, 5}, "abab cd"},
    {R"({"type": "WordPiece", "prefix": "-", "cleanup": true})", {1, 7, 5}, "abab cd"},
    {R"({"type": "BPEDecoder", "suffix": "b"})", {1, 1}, "a a"},
    {R"({"type": "Replace", "pattern": {"Regex": "[0-9]"}, "content": "0"})", {2, 5}, "00cd"},
    {R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "bc"}, "content": ""}]})",
     {1, 5},
     "ad"},
};

TEST(ComponentTest, Decodes) {
  for (const DecodeCase& c : kDecodeCases) {
    SCOPED_TRACE(c.decoder);
    ASSIGN_OR_FAIL(const auto made, Tokenizer::FromJson(FileOf(kWords, "", "", c.decoder).dump()));
    EXPECT_EQ(*made->Decode(c.ids), c.text);
  }
}

// The example of Hugging Face's documentation of `SplitDelimiterBehavior`, and one with matches at both ends.
TEST(SplitBehaviorTest, JoinsSegments) {
  const auto joined = [](const std::string& text, SplitBehavior behavior) {
    std::vector<Segment> segments;
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      while (text[at] != '-' && end < text.size() && text[end] != '-') ++end;
      segments.push_back({at, end, text[at] == '-'});
      at = end;
    }
    std::vector<std::string> parts;
    for (const Segment& s : JoinSegments(segments, behavior)) parts.push_back(text.substr(s.begin, s.end - s.begin));
    return parts;
  };
  const std::string text = "the-final--countdown";
  EXPECT_THAT(joined(text, SplitBehavior::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(joined(text, SplitBehavior::kIsolated), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(joined(text, SplitBehavior::kMergedWithPrevious), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(joined(text, SplitBehavior::kMergedWithNext), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(joined(text, SplitBehavior::kContiguous), ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(joined("-a-", SplitBehavior::kMergedWithPrevious), ElementsAre("-", "a-"));
  EXPECT_THAT(joined("-a-", SplitBehavior::kMergedWithNext), ElementsAre("-a", "-"));
}

constexpr char kBytes[] =
    R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "?": 3, "c##": 4}, "merges": [["a", "b"]],
  "unk_token": "?", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "dropout": null,
  "continuing_subword_prefix": null, "end_of_word_suffix": null})";
constexpr char kUnigram[] =
    R"({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["?", -9], ["a", -1], ["ab", -1.5]]})";
constexpr char kWordPiece[] = R"({"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 9, "vocab": {"?": 0, "a": 1, "##b": 2}})";

// One file for each model; together they have every component with every key.
std::vector<Json> Files() {
  std::vector<Json> files = {
      FileOf(
          kBytes,
          R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
             {"type": "Replace", "pattern": {"String": "x"}, "content": "y"},
             {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "y"}, {"type": "Lowercase"}, {"type": "Nmt"},
             {"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "NFC"}]})",
          R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true, "trim_offsets": true})",
          R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
          R"({"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": true, "add_prefix_space": true},
             {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "s", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"s": {"id": "s", "ids": [5], "tokens": ["s"]}}}]})"),
      FileOf(
          kUnigram,
          R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true})",
          R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true})",
          R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "add_prefix_space": false})",
          R"({"type": "RobertaProcessing", "cls": ["s", 3], "sep": ["s", 3], "trim_offsets": true, "add_prefix_space": true})"),
      FileOf(kWordPiece, R"({"type": "StripAccents"})",
             R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
             {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": false}, {"type": "Whitespace"},
             {"type": "Punctuation", "behavior": "Isolated"}, {"type": "CharDelimiterSplit", "delimiter": "/"},
             {"type": "BertPreTokenizer"}, {"type": "WhitespaceSplit"}]})",
             R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "x"}, "content": "y"},
             {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": "z", "start": 1, "stop": 1},
             {"type": "WordPiece", "prefix": "##", "cleanup": true}, {"type": "BPEDecoder", "suffix": "</w>"}]})",
             R"({"type": "BertProcessing", "cls": ["s", 3], "sep": ["s", 3]})"),
      FileOf(kWords, R"({"type": "Sequence", "normalizers": [{"type": "ByteLevel"}, {"type": "NFKD"}]})"),
      FileOf(kUnigram, R"({"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="})"),
  };
  for (size_t i = 0; i < 3; ++i) {
    const int id[] = {5, 3, 3};
    files[i]["added_tokens"].push_back(*ParseJson(absl::StrCat(
        R"({"content": "s", "single_word": true, "lstrip": true, "rstrip": true, "normalized": false, "special": true, "id": )",
        id[i], "}")));
  }
  return files;
}

TEST(ComponentTest, EveryChangeIsAcceptedOrRejectedByName) {
  int rejected_count = 0;
  for (const Json& file : Files()) {
    const auto valid = Tokenizer::FromJson(file.dump());
    ASSERT_TRUE(valid.ok()) << valid.status() << " " << file.dump();
    ForEachChange(file, [&](const JsonChange& change) {
      SCOPED_TRACE(absl::StrCat(change.path, ": ", change.what));
      const auto made = Tokenizer::FromJson(change.changed.dump());
      if (made.ok()) {
        const bool is_map =
            absl::StrContains(change.path, "vocab/") || absl::StrContains(change.path, "special_tokens/") ||
            absl::StrContains(change.path, "/SpecialToken/") || absl::StrContains(change.path, "/Sequence/");
        EXPECT_TRUE(change.what != "unknown key" || is_map);
        const auto ids = (*made)->Encode(" ab 12 xs \xC3\xA9!?");
        EXPECT_TRUE(!ids.ok() || (*made)->Decode(*ids).ok());
        return;
      }
      ++rejected_count;
      const std::string message(made.status().message());
      EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << message;
      EXPECT_FALSE(absl::StrContains(message, "\n")) << message;
      bool names_a_key = absl::StrContains(message, "the id ");  // of a token that another part needs
      for (absl::string_view key : absl::StrSplit(change.path, '/', absl::SkipEmpty())) {
        names_a_key = names_a_key || absl::StrContains(message, key);
      }
      EXPECT_TRUE(names_a_key) << message;
    });
  }
  EXPECT_GT(rejected_count, 1000);
}

}  // namespace
}  // namespace varifocal

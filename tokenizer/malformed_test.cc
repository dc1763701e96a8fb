// A malformed or unsupported tokenizer.json is rejected with one sentence that names the key and the value. Method: a
// small valid file, one change at a time, and substrings of the expected message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/messages.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

Json Valid() {
  return *ParseJson(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": [["a", "b"]]}})");
}

struct Case {
  const char* name;
  const char* pointer;              // where the change is made
  const char* value;                // JSON put there; "" removes the key
  std::vector<std::string> values;  // contained in the message
};

const Case kCases[] = {
    {"no_model", "/model", "", {"\"model\""}},
    {"model_is_a_list", "/model", "[]", {}},
    {"no_model_type", "/model", R"({"vocab": {"a": 0}})", {"\"type\""}},
    {"model_type", "/model/type", "\"Sparkle\"", {"model", "\"Sparkle\"", "BPE"}},
    {"no_vocab", "/model/vocab", "", {"\"vocab\""}},
    {"vocab_is_a_list", "/model/vocab", "[\"a\"]", {"\"vocab\""}},
    {"empty_vocab", "/model/vocab", "{}", {"\"vocab\""}},
    {"id_is_text", "/model/vocab/a", "\"0\"", {"\"a\""}},
    {"id_is_a_fraction", "/model/vocab/a", "0.5", {"\"a\""}},
    {"negative_id", "/model/vocab/a", "-1", {"\"a\"", "-1", "0", "16777215"}},
    {"huge_id", "/model/vocab/a", "16777216", {"\"a\"", "16777216", "0", "16777215"}},
    {"id_beyond_64_bits", "/model/vocab/a", "18446744073709551615", {"18446744073709551615"}},
    {"duplicate_id", "/model/vocab/b", "0", {"0", "\"a\"", "\"b\""}},
    {"no_merges", "/model/merges", "", {"\"merges\""}},
    {"merges_is_an_object", "/model/merges", "{}", {"\"merges\""}},
    {"merge_of_unknown_token", "/model/merges/0", "[\"a\", \"z\"]", {"0", "\"z\"", "\"vocab\""}},
    {"merge_into_unknown_token", "/model/merges/0", "[\"b\", \"a\"]", {"0", "\"ba\""}},
    {"merge_of_three", "/model/merges/0", "\"a b c\"", {"0", "\"a b c\""}},
    {"merge_of_one", "/model/merges/0", "\"ab\"", {"0", "\"ab\""}},
    {"merge_with_empty_side", "/model/merges/0", "\"a \"", {"0"}},
    {"merge_of_numbers", "/model/merges/0", "[1, 2]", {"0", "1,2"}},
    {"dropout", "/model/dropout", "0.1", {"\"dropout\"", "0.1"}},
    {"unknown_unk", "/model/unk_token", "\"<unk>\"", {"\"unk_token\"", "\"<unk>\"", "\"vocab\""}},
    {"unk_is_a_number", "/model/unk_token", "3", {"\"unk_token\""}},
    {"ignore_merges_is_a_number", "/model/ignore_merges", "1", {"\"ignore_merges\""}},
    {"unknown_model_key", "/model/sparkle", "1", {"\"sparkle\""}},
    {"unknown_top_key", "/sparkle", "1", {"\"sparkle\""}},
    {"normalizer_type", "/normalizer", "{\"type\": \"Sparkle\"}", {"normalizer", "\"Sparkle\"", "NFC"}},
    {"normalizer_text", "/normalizer", "\"NFC\"", {}},
    {"normalizer_in_sequence",
     "/normalizer",
     R"({"type": "Sequence", "normalizers": [{"type": "Sparkle"}]})",
     {"\"Sparkle\""}},
    {"replace_without_pattern", "/normalizer", R"({"type": "Replace", "content": ""})", {"\"pattern\""}},
    {"replace_with_two_patterns",
     "/normalizer",
     R"({"type": "Replace", "content": "", "pattern": {"Regex": "a", "String": "a"}})",
     {"\"Regex\"", "\"String\""}},
    {"replace_with_a_bad_pattern",
     "/normalizer",
     R"({"type": "Replace", "content": "", "pattern": {"Regex": "(a"}})",
     {"\"(a\"", "2"}},
    {"pre_tokenizer_type", "/pre_tokenizer", "{\"type\": \"UnicodeScripts\"}", {"pre_tokenizer", "\"UnicodeScripts\""}},
    {"pre_tokenizer_key", "/pre_tokenizer/sparkle", "1", {"pre_tokenizer", "\"sparkle\""}},
    {"pre_tokenizer_flag", "/pre_tokenizer/add_prefix_space", "\"no\"", {"\"add_prefix_space\""}},
    {"split_behavior",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Gone", "invert": false})",
     {"\"Gone\"", "Isolated"}},
    {"decoder_type", "/decoder", "{\"type\": \"CTC\"}", {"decoder", "\"CTC\""}},
    {"post_processor_type", "/post_processor", "{\"type\": \"Sparkle\"}", {"post_processor", "\"Sparkle\""}},
    {"template_without_sequence", "/post_processor/single", "[]", {"\"A\""}},
    {"template_with_b", "/post_processor/single/1/Sequence/id", "\"B\"", {"\"A\""}},
    {"template_of_unknown_special", "/post_processor/special_tokens", "{}", {"\"special_tokens\"", "\"<s>\""}},
    {"template_of_unknown_id", "/post_processor/special_tokens/<s>/ids/0", "9", {"9"}},
    {"unigram_vocab", "/model", R"({"type": "Unigram", "vocab": {"a": 0}})", {"\"vocab\""}},
    {"unigram_without_entries", "/model", R"({"type": "Unigram", "vocab": []})", {"\"vocab\""}},
    {"unigram_entry", "/model", R"({"type": "Unigram", "vocab": [["a", -1], ["b"]]})", {"1", "\"vocab\"", "\"b\""}},
    {"unigram_score", "/model", R"({"type": "Unigram", "vocab": [["a", "0"]]})", {"0", "\"token\""}},
    {"unigram_unk_id",
     "/model",
     R"({"type": "Unigram", "vocab": [["a", -1.5]], "unk_id": 1})",
     {"\"unk_id\"", "1", "\"vocab\"", "0"}},
    {"unigram_key", "/model", R"({"type": "Unigram", "vocab": [["a", -1]], "alpha": 0.1})", {"\"alpha\""}},
    {"word_piece_unk",
     "/model",
     R"({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 100})",
     {"\"unk_token\"", "\"[UNK]\""}},
    {"word_level_without_unk", "/model", R"({"type": "WordLevel", "vocab": {"a": 0}})", {"\"unk_token\""}},
    {"metaspace_replacement",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "__"})",
     {"pre_tokenizer", "\"replacement\"", "\"__\""}},
    {"metaspace_scheme",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     {"\"prepend_scheme\"", "\"last\""}},
    {"metaspace_contradiction",
     "/decoder",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})",
     {"\"add_prefix_space\""}},
    {"charsmap_not_base64", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "?"})", {"base64"}},
    {"charsmap_cut", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAEAAAAA"})", {"256", "6"}},
    {"bert_flag",
     "/normalizer",
     R"({"type": "BertNormalizer", "clean_text": 1, "handle_chinese_chars": true, "lowercase": true})",
     {"\"clean_text\""}},
    {"punctuation_behavior",
     "/pre_tokenizer",
     R"({"type": "Punctuation", "behavior": "Gone"})",
     {"pre_tokenizer", "\"Gone\""}},
    {"empty_delimiter", "/pre_tokenizer", R"({"type": "CharDelimiterSplit", "delimiter": ""})", {"\"delimiter\""}},
    {"word_end_suffix", "/decoder", R"({"type": "BPEDecoder", "suffix": ""})", {"\"suffix\""}},
    {"roberta_pair",
     "/post_processor",
     R"({"type": "RobertaProcessing", "cls": ["<s>", "4"], "sep": ["<s>", 4]})",
     {"post_processor", "\"cls\"", "\"<s>\"", "\"4\"", "\"token\""}},
    {"roberta_id", "/post_processor", R"({"type": "RobertaProcessing", "cls": ["<s>", 4], "sep": ["</s>", 9]})", {"9"}},
    {"added_tokens_is_an_object", "/added_tokens", "{}", {"\"added_tokens\""}},
    {"added_token_without_content", "/added_tokens/0/content", "", {"added_tokens[0]", "\"content\""}},
    {"added_token_empty", "/added_tokens/0/content", "\"\"", {"added_tokens[0]", "\"content\""}},
    {"added_token_id_in_use", "/added_tokens/0/id", "0", {"\"<s>\"", "0", "4"}},
    {"added_token_id_gap", "/added_tokens/0/id", "7", {"\"<s>\"", "7", "4"}},
    {"added_token_other_id", "/added_tokens/0/content", "\"ab\"", {"\"ab\"", "4", "\"vocab\"", "2"}},
    {"added_token_twice",
     "/added_tokens/1",
     R"({"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
         "special": true})",
     {"added_tokens", "1", "\"<s>\""}},
    {"added_token_huge_id", "/added_tokens/0/id", "4294967296", {"\"id\"", "4294967296"}},
    {"added_token_flag", "/added_tokens/0/lstrip", "null", {"\"lstrip\""}},
};

class MalformedTest : public testing::TestWithParam<Case> {};

TEST_P(MalformedTest, IsRejectedInOneSentence) {
  Json json = Valid();
  const Json::json_pointer pointer(GetParam().pointer);
  if (GetParam().value[0] == '\0') {
    json[pointer.parent_pointer()].erase(pointer.back());
  } else {
    json[pointer] = *ParseJson(GetParam().value);
  }
  const auto made = Tokenizer::FromJson(json.dump());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(made.status().message());
  EXPECT_THAT(message, MessageMatcher(GetParam().values));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MalformedBytesTest, IsRejected) {
  const auto message = [](absl::string_view text) {
    const auto made = Tokenizer::FromJson(text);
    return made.ok() ? std::string("accepted") : std::string(made.status().message());
  };
  EXPECT_THAT(message(""), Message("JSON"));
  EXPECT_THAT(message("[]"), Message());
  EXPECT_THAT(message("{\"model\": {\"vocab\": {\"\xff\": 0}}}"), Message("JSON"));
  EXPECT_THAT(message(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}}})"), Message("\"a\""));
  EXPECT_THAT(message(std::string(100'000, '[')), Message("256"));
  EXPECT_EQ(message(Valid().dump()), "accepted");
}

TEST(LoadTest, NamesThePathThatCannotBeRead) {
  const auto missing = Tokenizer::Load("tests/testdata/no-such-directory");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), testing::HasSubstr("tests/testdata/no-such-directory"));
  const auto without = Tokenizer::Load("tests");
  EXPECT_EQ(without.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(without.status().message()), testing::HasSubstr("tests/tokenizer.json"));
}

}  // namespace
}  // namespace varifocal

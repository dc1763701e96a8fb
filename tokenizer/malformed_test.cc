// A malformed or unsupported tokenizer.json is rejected with one sentence that names the key and the value. Method: a
// small valid file, one change at a time, and substrings of the expected message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
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
  const char* pointer;  // where the change is made
  const char* value;    // JSON put there; "" removes the key
  std::vector<const char*> words;
};

const Case kCases[] = {
    {"no_model", "/model", "", {"\"model\" is missing"}},
    {"model_is_a_list", "/model", "[]", {"model must be an object, not array"}},
    {"no_model_type", "/model", R"({"vocab": {"a": 0}})", {"\"type\" is missing"}},
    {"model_type",
     "/model/type",
     "\"Sparkle\"",
     {"model", "\"Sparkle\" is not supported", "BPE, Unigram, WordPiece, WordLevel"}},
    {"no_vocab", "/model/vocab", "", {"\"vocab\" is missing"}},
    {"vocab_is_a_list", "/model/vocab", "[\"a\"]", {"\"vocab\" must be an object, not array"}},
    {"empty_vocab", "/model/vocab", "{}", {"\"vocab\" has no entries"}},
    {"id_is_text", "/model/vocab/a", "\"0\"", {"\"a\" must be an integer, not string"}},
    {"id_is_a_fraction", "/model/vocab/a", "0.5", {"\"a\" must be an integer, not number"}},
    {"negative_id", "/model/vocab/a", "-1", {"\"a\" is -1, not between 0 and 16777215"}},
    {"huge_id", "/model/vocab/a", "16777216", {"\"a\" is 16777216, not between 0 and 16777215"}},
    {"id_beyond_64_bits", "/model/vocab/a", "18446744073709551615", {"18446744073709551615"}},
    {"duplicate_id", "/model/vocab/b", "0", {"id 0 is given to both \"a\" and \"b\""}},
    {"no_merges", "/model/merges", "", {"\"merges\" is missing"}},
    {"merges_is_an_object", "/model/merges", "{}", {"\"merges\" must be a list, not object"}},
    {"merge_of_unknown_token",
     "/model/merges/0",
     "[\"a\", \"z\"]",
     {"merge 0", "needs \"z\", which is not in \"vocab\""}},
    {"merge_into_unknown_token", "/model/merges/0", "[\"b\", \"a\"]", {"merge 0", "needs \"ba\""}},
    {"merge_of_three", "/model/merges/0", "\"a b c\"", {"merge 0 is \"a b c\""}},
    {"merge_of_one", "/model/merges/0", "\"ab\"", {"merge 0 is \"ab\""}},
    {"merge_with_empty_side", "/model/merges/0", "\"a \"", {"merge 0 has an empty side"}},
    {"merge_of_numbers", "/model/merges/0", "[1, 2]", {"merge 0 is [1,2]"}},
    {"dropout", "/model/dropout", "0.1", {"\"dropout\" is 0.1"}},
    {"unknown_unk", "/model/unk_token", "\"<unk>\"", {"\"unk_token\" is \"<unk>\", which is not in \"vocab\""}},
    {"unk_is_a_number", "/model/unk_token", "3", {"\"unk_token\" must be a string"}},
    {"ignore_merges_is_a_number", "/model/ignore_merges", "1", {"\"ignore_merges\" must be true or false"}},
    {"unknown_model_key", "/model/sparkle", "1", {"\"sparkle\" is not supported"}},
    {"unknown_top_key", "/sparkle", "1", {"\"sparkle\" is not supported"}},
    {"normalizer_type", "/normalizer", "{\"type\": \"Sparkle\"}", {"normalizer", "\"Sparkle\"", "NFC"}},
    {"normalizer_text", "/normalizer", "\"NFC\"", {"normalizer must be an object, not string"}},
    {"normalizer_in_sequence",
     "/normalizer",
     R"({"type": "Sequence", "normalizers": [{"type": "Sparkle"}]})",
     {"\"Sparkle\""}},
    {"replace_without_pattern", "/normalizer", R"({"type": "Replace", "content": ""})", {"\"pattern\" is missing"}},
    {"replace_with_two_patterns",
     "/normalizer",
     R"({"type": "Replace", "content": "", "pattern": {"Regex": "a", "String": "a"}})",
     {"either \"Regex\" or \"String\""}},
    {"replace_with_a_bad_pattern",
     "/normalizer",
     R"({"type": "Replace", "content": "", "pattern": {"Regex": "(a"}})",
     {"\"(a\" does not compile", "offset 2"}},
    {"pre_tokenizer_type", "/pre_tokenizer", "{\"type\": \"UnicodeScripts\"}", {"pre_tokenizer", "\"UnicodeScripts\""}},
    {"pre_tokenizer_key", "/pre_tokenizer/sparkle", "1", {"pre_tokenizer ByteLevel", "\"sparkle\""}},
    {"pre_tokenizer_flag", "/pre_tokenizer/add_prefix_space", "\"no\"", {"\"add_prefix_space\" must be true or false"}},
    {"split_behavior",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Gone", "invert": false})",
     {"\"Gone\"", "Isolated"}},
    {"decoder_type", "/decoder", "{\"type\": \"CTC\"}", {"decoder", "\"CTC\""}},
    {"post_processor_type", "/post_processor", "{\"type\": \"Sparkle\"}", {"post_processor", "\"Sparkle\""}},
    {"template_without_sequence", "/post_processor/single", "[]", {"\"A\" once"}},
    {"template_with_b", "/post_processor/single/1/Sequence/id", "\"B\"", {"\"A\" once"}},
    {"template_of_unknown_special", "/post_processor/special_tokens", "{}", {"\"special_tokens\" lacks \"<s>\""}},
    {"template_of_unknown_id", "/post_processor/special_tokens/<s>/ids/0", "9", {"no token has the id 9"}},
    {"unigram_vocab", "/model", R"({"type": "Unigram", "vocab": {"a": 0}})", {"\"vocab\" must be a list, not object"}},
    {"unigram_without_entries", "/model", R"({"type": "Unigram", "vocab": []})", {"\"vocab\" has no entries"}},
    {"unigram_entry",
     "/model",
     R"({"type": "Unigram", "vocab": [["a", -1], ["b"]]})",
     {"entry 1 of \"vocab\" is [\"b\"]"}},
    {"unigram_score", "/model", R"({"type": "Unigram", "vocab": [["a", "0"]]})", {"entry 0", "not [\"token\", score]"}},
    {"unigram_unk_id",
     "/model",
     R"({"type": "Unigram", "vocab": [["a", -1.5]], "unk_id": 1})",
     {"model Unigram", "\"unk_id\" is 1, but \"vocab\" has the ids 0 to 0"}},
    {"unigram_key",
     "/model",
     R"({"type": "Unigram", "vocab": [["a", -1]], "alpha": 0.1})",
     {"\"alpha\" is not supported"}},
    {"word_piece_unk",
     "/model",
     R"({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 100})",
     {"model WordPiece", "\"unk_token\" is \"[UNK]\""}},
    {"word_level_without_unk", "/model", R"({"type": "WordLevel", "vocab": {"a": 0}})", {"\"unk_token\" is missing"}},
    {"metaspace_replacement",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "__"})",
     {"pre_tokenizer Metaspace", "\"replacement\" is \"__\", not one character"}},
    {"metaspace_scheme",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     {"\"prepend_scheme\" is \"last\", not always, first or never"}},
    {"metaspace_contradiction",
     "/decoder",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})",
     {"decoder Metaspace", "\"add_prefix_space\" is false"}},
    {"charsmap_not_base64",
     "/normalizer",
     R"({"type": "Precompiled", "precompiled_charsmap": "?"})",
     {"normalizer Precompiled", "not base64"}},
    {"charsmap_cut",
     "/normalizer",
     R"({"type": "Precompiled", "precompiled_charsmap": "AAEAAAAA"})",
     {"declares a table of 256 bytes, but has 6 bytes"}},
    {"bert_flag",
     "/normalizer",
     R"({"type": "BertNormalizer", "clean_text": 1, "handle_chinese_chars": true, "lowercase": true})",
     {"normalizer BertNormalizer", "\"clean_text\" must be true or false"}},
    {"punctuation_behavior",
     "/pre_tokenizer",
     R"({"type": "Punctuation", "behavior": "Gone"})",
     {"pre_tokenizer Punctuation", "\"Gone\""}},
    {"empty_delimiter",
     "/pre_tokenizer",
     R"({"type": "CharDelimiterSplit", "delimiter": ""})",
     {"\"delimiter\" is empty"}},
    {"word_end_suffix",
     "/decoder",
     R"({"type": "BPEDecoder", "suffix": ""})",
     {"decoder BPEDecoder", "\"suffix\" is empty"}},
    {"roberta_pair",
     "/post_processor",
     R"({"type": "RobertaProcessing", "cls": ["<s>", "4"], "sep": ["<s>", 4]})",
     {"post_processor RobertaProcessing", "\"cls\" is [\"<s>\",\"4\"], not [\"token\", id]"}},
    {"roberta_id",
     "/post_processor",
     R"({"type": "RobertaProcessing", "cls": ["<s>", 4], "sep": ["</s>", 9]})",
     {"no token has the id 9"}},
    {"added_tokens_is_an_object", "/added_tokens", "{}", {"\"added_tokens\" must be a list"}},
    {"added_token_without_content", "/added_tokens/0/content", "", {"added_tokens[0]", "\"content\" is missing"}},
    {"added_token_empty", "/added_tokens/0/content", "\"\"", {"added_tokens[0]", "\"content\" is empty"}},
    {"added_token_id_in_use", "/added_tokens/0/id", "0", {"\"<s>\" the id 0, but the next free id is 4"}},
    {"added_token_id_gap", "/added_tokens/0/id", "7", {"\"<s>\" the id 7, but the next free id is 4"}},
    {"added_token_other_id", "/added_tokens/0/content", "\"ab\"", {"\"ab\" the id 4, but \"vocab\" gives it 2"}},
    {"added_token_twice",
     "/added_tokens/1",
     R"({"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
         "special": true})",
     {"added_tokens[1] repeats the content \"<s>\""}},
    {"added_token_huge_id", "/added_tokens/0/id", "4294967296", {"\"id\" is 4294967296"}},
    {"added_token_flag", "/added_tokens/0/lstrip", "null", {"\"lstrip\" is missing"}},
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
  for (const char* word : GetParam().words) EXPECT_THAT(message, testing::HasSubstr(word));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MalformedBytesTest, IsRejected) {
  const auto message = [](absl::string_view text) {
    const auto made = Tokenizer::FromJson(text);
    return made.ok() ? std::string("accepted") : std::string(made.status().message());
  };
  EXPECT_THAT(message(""), testing::HasSubstr("not JSON at byte"));
  EXPECT_THAT(message("[]"), testing::HasSubstr("must be an object"));
  EXPECT_THAT(message("{\"model\": {\"vocab\": {\"\xff\": 0}}}"), testing::HasSubstr("not JSON at byte"));
  EXPECT_THAT(message(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}}})"),
              testing::HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(message(std::string(100'000, '[')), testing::HasSubstr("nested deeper than 256"));
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

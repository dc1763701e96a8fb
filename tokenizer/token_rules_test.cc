// Files beside tokenizer.json: ids and decoded texts must equal those of two versions of transformers
// (tests/testdata/goldens/token_rules.json, written by recipes/goldens/make_token_rules.py) when one is chosen, and when
// none is, the two must agree or the directory is refused. The identity changes exactly where tokens do.
#include "tokenizer/token_rules.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/read_json.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

const Json& TokenRuleGoldens() {
  static const Json goldens = testing_support::ReadJson("tests/testdata/goldens/token_rules.json");
  return goldens;
}

SideFiles FilesOf(const Json& golden) {
  const auto file = [&](const char* key) { return golden.contains(key) ? golden[key] : Json(); };
  return {file("config"), file("special_tokens_map"), file("added_tokens"), file("model")};
}

std::string TokenizerOf(const Json& golden) {
  return TokenRuleGoldens()["tokenizers"][golden["tokenizer"].get<std::string>()].dump();
}

// What differs from the golden ids and texts; "" when nothing.
std::string DifferenceOf(const absl::StatusOr<std::shared_ptr<const Tokenizer>>& tokenizer, const Json& ids,
                         const Json& decoded) {
  if (ids.is_null()) return tokenizer.ok() ? "not refused" : "";
  if (!tokenizer.ok()) return std::string(tokenizer.status().message());
  const Json& texts = TokenRuleGoldens()["texts"];
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto got = (*tokenizer)->Encode(texts[i].get<std::string>());
    if (!got.ok() || Json(*got) != ids[i]) {
      return absl::StrCat("ids of ", texts[i].dump(), ": ", got.ok() ? Json(*got).dump() : got.status().ToString(),
                          " not ", ids[i].dump());
    }
    const auto text = (*tokenizer)->Decode(*got);
    if (!text.ok() || Json(*text) != decoded[i]) {
      return absl::StrCat("text of ", ids[i].dump(), ": ", text.value_or("none"), " not ", decoded[i].dump());
    }
  }
  return "";
}

TEST(TokenRulesTest, EqualsTheTwoVersions) {
  int refused_count = 0;
  for (const Json& golden : TokenRuleGoldens()["cases"]) {
    const std::string json = TokenizerOf(golden);
    const SideFiles files = FilesOf(golden);
    const bool agreed = golden.contains("agreed");
    const char* const ids5 = agreed ? "ids4" : "ids5";
    const char* const decoded5 = agreed ? "decoded4" : "decoded5";
    const auto four = Tokenizer::FromJson(json, files, TokenizerRules::kTransformers4);
    const auto five = Tokenizer::FromJson(json, files, TokenizerRules::kTransformers5);
    const auto both = Tokenizer::FromJson(json, files);
    EXPECT_EQ(DifferenceOf(four, golden["ids4"], golden["decoded4"]), "") << "with 4: " << golden["name"];
    EXPECT_EQ(DifferenceOf(five, golden[ids5], golden[decoded5]), "") << "with 5: " << golden["name"];
    if (!agreed && !golden["ids4"].is_null() && !golden["ids5"].is_null()) {
      ++refused_count;
      EXPECT_FALSE(both.ok()) << golden["name"];
      EXPECT_THAT(both.status().message(), Message("--tokenizer-rules=4", "--tokenizer-rules=5"));
      EXPECT_NE((*four)->sha256(), (*five)->sha256()) << golden["name"];
      continue;
    }
    const bool has_four = !golden["ids4"].is_null();
    EXPECT_EQ(DifferenceOf(both, golden[has_four ? "ids4" : ids5], golden[has_four ? "decoded4" : decoded5]), "")
        << golden["name"];
  }
  EXPECT_GE(refused_count, 30);
}

TEST(TokenRulesTest, TheIdentityIsTheFilesUnlessTokensChange) {
  int same_count = 0, other_count = 0;
  for (const Json& golden : TokenRuleGoldens()["cases"]) {
    const std::string json = TokenizerOf(golden);
    const auto alone = Tokenizer::FromJson(json).value();
    EXPECT_EQ(alone->sha256(), Sha256Hex(json));
    const Json ids = golden["ids4"];
    if (ids.is_null()) continue;
    const auto made = Tokenizer::FromJson(json, FilesOf(golden), TokenizerRules::kTransformers4).value();
    const bool is_same = DifferenceOf(alone, ids, golden["decoded4"]).empty();
    (made->sha256() == alone->sha256() ? same_count : other_count) += 1;
    EXPECT_TRUE(is_same || made->sha256() != alone->sha256()) << golden["name"];
    EXPECT_EQ(made->notes().empty(), made->sha256() == alone->sha256());
  }
  EXPECT_GE(same_count, 20);
  EXPECT_GE(other_count, 60);
}

struct Refusal {
  const char* tokenizer;
  const char* config;
  std::vector<std::string> message;  // contained in the message
};

TEST(TokenRulesTest, RefusalsNameTheKey) {
  for (const Refusal& c : {
           Refusal{"distill",
                   R"({"tokenizer_class":"LlamaTokenizer","add_bos_token":true,"unk_token":null})",
                   {"tokenizer_config.json", "\"add_bos_token\"", "\"bos_token\"", "4.57", "261", "5.24"}},
           Refusal{"llama3",
                   R"({"tokenizer_class":"LlamaTokenizer","add_eos_token":true,"unk_token":null})",
                   {"\"add_eos_token\"", "\"eos_token\"", "4.57", "262"}},
           Refusal{"neox", R"({"tokenizer_class":"GPTNeoXTokenizer","add_bos_token":true})", {"\"add_bos_token\""}},
           Refusal{"qwen",
                   R"({"tokenizer_class":"Qwen2Tokenizer","image_token":"<image>"})",
                   {"\"<image>\"", "\"image_token\"", "tokenizer_config.json"}},
           Refusal{"gpt2",
                   R"({"tokenizer_class":"PreTrainedTokenizerFast","add_prefix_space":true})",
                   {"add_prefix_space"}},
           Refusal{"qwen", R"({"eos_token":3})", {"tokenizer_config.json", "\"eos_token\"", "3"}},
           Refusal{"qwen", R"({"added_tokens_decoder":[]})", {"\"added_tokens_decoder\""}},
           Refusal{"qwen", R"({"added_tokens_decoder":{"x":{}}})", {"\"x\""}},
           Refusal{"qwen", R"({"added_tokens_decoder":{"7":{"lstrip":true}}})", {"\"content\""}},
           Refusal{"qwen", R"({"additional_special_tokens":"<a>"})", {}},
           Refusal{"qwen", R"({"extra_special_tokens":{"b":"<1>","a":"<2>"}})", {}},
       }) {
    const Json golden = {{"tokenizer", c.tokenizer}, {"config", *ParseJson(c.config)}};
    const auto made = Tokenizer::FromJson(TokenizerOf(golden), FilesOf(golden));
    ASSERT_FALSE(made.ok()) << c.config;
    EXPECT_THAT(made.status(), IsError(absl::StatusCode::kInvalidArgument, MessageMatcher(c.message)));
  }
}

TEST(TokenRulesTest, RulesAreFourOrFive) {
  EXPECT_EQ(*ParseTokenizerRules(""), TokenizerRules::kAgreed);
  EXPECT_EQ(*ParseTokenizerRules("4"), TokenizerRules::kTransformers4);
  EXPECT_EQ(*ParseTokenizerRules("5"), TokenizerRules::kTransformers5);
  EXPECT_THAT(ParseTokenizerRules("6").status().message(), Message("\"6\"", "4", "5"));
}

}  // namespace
}  // namespace varifocal

// Checkpoints that the engine loads or refuses: tensors that do not match, tokens beyond the vocabulary, rules of tokenizers,
// ignored keys, directories that are not written.
#include "server/engine/engine.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "server/engine/engine_testing.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

struct Edit {
  const char* key;
  int value;
  std::vector<std::string> message;  // contained in the message
};

TEST(LoadTest, TensorsMustMatchTheConfig) {
  for (const Edit& edit : {Edit{"num_hidden_layers", 3, {"9", "model.layers.2.input_layernorm.weight"}},
                           Edit{"num_hidden_layers", 1, {"9"}}, Edit{"intermediate_size", 64, {"64", "32"}},
                           Edit{"vocab_size", 121, {"120", "32", "121"}},
                           Edit{"num_key_value_heads", 4, {"self_attn.k_proj.weight", "32"}}}) {
    TemporaryCheckpoint checkpoint("tied-d16-f32", "edited");
    checkpoint.EditConfig(edit.key, edit.value);
    const auto model = LoadModel(checkpoint.directory(), {.cache_directory = testing::TempDir()});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << edit.key;
    EXPECT_THAT(model.status().message(), MessageMatcher(edit.message)) << edit.key;
  }
}

// 120 ids of the model, and tokens beyond them, as an image token or a padding token that was added without resizing.
std::string TokenizerWithMoreIds() {
  Json vocabulary = Json::object();
  for (int id = 0; id < 120; ++id)
    vocabulary[id < 26 ? std::string(1, static_cast<char>('a' + id)) : absl::StrCat("#", id)] = id;
  const Json token = {{"id", 120},       {"content", "<image>"}, {"single_word", false}, {"lstrip", false},
                      {"rstrip", false}, {"normalized", false},  {"special", false}};
  return Json({{"added_tokens", {token}},
               {"truncation", {{"max_length", 4}}},
               {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}})
      .dump();
}

TEST(LoadTest, TokensBeyondTheVocabularyAreRefusedWhereTheyOccur) {
  const TemporaryCheckpoint checkpoint("tied-d16-f32", "more_tokens");
  checkpoint.Write("tokenizer.json", TokenizerWithMoreIds());
  const auto model = LoadForTest(checkpoint.directory());
  ASSERT_EQ(model->tokenizer()->vocab_size(), 121);
  EXPECT_THAT(model->config().notes,
              testing::ElementsAre(Message("\"truncation\""), Message("up to 120", "vocab_size is 120")));
  auto engine = StartEngine(model);
  EXPECT_TRUE(engine->Run({.token_ids = *model->tokenizer()->Encode("abba"), .work = Tokens(2)}).ok());
  const std::vector<int32_t> ids = *model->tokenizer()->Encode("ab<image>");
  for (const EngineRequest& request :
       {EngineRequest{.token_ids = ids, .work = Tokens(2)}, EngineRequest{.token_ids = ids, .work = ScoreTextWork{}},
        EngineRequest{.token_ids = {0, 1}, .work = ScoreContinuationsWork{{ids}}}}) {
    const absl::Status status = engine->Run(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status, RefusedFor("BAD_TOKEN_ID", Message("120", "\"<image>\"", "vocab_size")));
  }
  // An id that no token has.
  EXPECT_THAT(engine->Run({.token_ids = {7, 121}, .work = Tokens(2)}).status().message(),
              Message("1", "prompt_token_ids", "121", "0..119"));
}

TEST(LoadTest, RulesAndIgnoredKeysReachTheCheckpoint) {
  const TemporaryCheckpoint checkpoint("tied-d16-f32", "rules");
  checkpoint.Write("tokenizer.json", TokenizerWithMoreIds());
  checkpoint.Write("tokenizer_config.json", R"({"image_token": "<other>"})");
  Json config = *ParseJson(checkpoint.Read("config.json"));
  config["novel_key"] = 1;
  checkpoint.Write("config.json", config.dump());
  ModelOptions options{.cache_directory = testing::TempDir()};
  EXPECT_THAT(LoadModel(checkpoint.directory(), options).status().message(), Message("\"novel_key\"", "1"));
  options.ignored_config_keys = {"novel_key"};
  EXPECT_THAT(LoadModel(checkpoint.directory(), options).status().message(),
              Message("--tokenizer-rules=4", "--tokenizer-rules=5"));
  options.tokenizer_rules = TokenizerRules::kTransformers5;
  ASSIGN_OR_FAIL(const auto model, LoadModel(checkpoint.directory(), options));
  EXPECT_EQ(model->config().ignored_keys, std::vector<std::string>({"novel_key"}));
  EXPECT_EQ(model->tokenizer()->TokenToId("<other>"), 121);
  EXPECT_EQ(model->provenance().tokenizer_sha256, model->tokenizer()->sha256());
  EXPECT_NE(model->tokenizer()->sha256(), Sha256Hex(TokenizerWithMoreIds()));
}

TEST(LoadTest, MissingDirectoryAndBadOptions) {
  const std::string absent = absl::StrCat(testing::TempDir(), "/absent_", getpid());
  EXPECT_EQ(LoadModel(absent, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadModel(absent, {}).status().message()), testing::HasSubstr(absent + "/config.json"));
  EXPECT_FALSE(LoadModel(GoldenDirectory("tied-d16-f32"), {.dtype = "f64"}).ok());
  EXPECT_FALSE(LoadModel(GoldenDirectory("tied-d16-f32"), {.device = "tpu"}).ok());
  EXPECT_FALSE(LoadModel(GoldenDirectory("tied-d16-f32"), {.threads = -1}).ok());
}

TEST(LoadTest, ModelDirectoryIsNotWritten) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "read_only");
  checkpoint.SetWritable(false);
  EXPECT_NE(LoadForTest(checkpoint.directory()), nullptr);
  checkpoint.SetWritable(true);
}

}  // namespace
}  // namespace varifocal

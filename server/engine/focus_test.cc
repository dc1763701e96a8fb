// Focus through the engine: equivalences, causality, and rejected settings.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "server/engine/engine.h"
#include "server/engine/engine_testing.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;

std::string TextBits(Engine& engine, const std::vector<int32_t>& ids, const AttentionOverrides& overrides = {}) {
  return ComputedBits(engine.Run({.token_ids = ids, .attention_overrides = overrides, .work = ScoreTextWork{}}));
}

std::string GeneratedBits(Engine& engine, const std::vector<int32_t>& ids, const AttentionOverrides& overrides = {}) {
  return ComputedBits(engine.Run({.token_ids = ids,
                                  .attention_overrides = overrides,
                                  .work = GenerateWork{.max_new_tokens = 20, .ignore_eos = true}}));
}

TEST(FocusTest, EveryGroupIsDenseAttentionBitForBit) {
  for (const char* golden :
       {"focus/llama-calibrated", "focus/llama-paged", "focus/llama-prompt", "focus/gemma3-newer"}) {
    const TemporaryCheckpoint dense_checkpoint(golden, "dense");
    RemoveFocus(dense_checkpoint);
    auto dense = StartEngine(LoadForTest(dense_checkpoint.directory()));
    auto model = LoadForTest(GoldenDirectory(golden));
    const Json setting = (*ParseJson(model->attention().json()))["focus_attention"];
    const int64_t group_count = setting["group_count"];
    auto focus = StartEngine(model);
    const std::vector<int32_t> ids = RandomIds("dense", 900);
    const std::string text = TextBits(*dense, ids), generated = GeneratedBits(*dense, ids);
    // Sets of more than half of the groups always intersect.
    for (const int64_t top_k : {group_count, group_count / 2 + 1}) {
      const AttentionOverrides overrides = {{"focus-top-k", top_k}};
      EXPECT_EQ(TextBits(*focus, ids, overrides), text) << golden << ", k = " << top_k;
      EXPECT_EQ(GeneratedBits(*focus, ids, overrides), generated) << golden << ", k = " << top_k;
    }
    EXPECT_EQ(TextBits(*focus, ids, {{"focus-top-k", 1}, {"focus-window", 4096}}), text) << golden << ", all near";
    // The control: one group per token is another model.
    EXPECT_NE(TextBits(*focus, ids, {{"focus-top-k", 1}, {"focus-window", 0}}), text) << golden;
  }
}

TEST(FocusTest, TemperatureOneChangesNoBit) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focus/llama-calibrated")));
  const std::vector<int32_t> ids = RandomIds("temperature", 900);
  for (const int64_t top_k : {1, 2}) {
    const AttentionOverrides alone = {{"focus-top-k", top_k}};
    AttentionOverrides with_t = RunTimeTemperature({1.0});
    with_t.push_back(alone[0]);
    EXPECT_EQ(TextBits(*engine, ids, alone), TextBits(*engine, ids, with_t));
    with_t[0].value = 0.7;
    EXPECT_NE(TextBits(*engine, ids, alone), TextBits(*engine, ids, with_t));
  }
}

// Log-probabilities before a changed token must not depend on it, except where b is of the whole prompt.
TEST(FocusTest, OnlyThePromptBiasIsNotCausal) {
  for (const char* golden : {"focus/llama-calibrated", "focus/llama-paged", "focus/llama-prompt"}) {
    auto engine = StartEngine(LoadForTest(GoldenDirectory(golden)));
    for (const int64_t top_k : {1, 2}) {
      const EngineRequest original{.token_ids = RandomIds("leak", 800),
                                   .attention_overrides = {{"focus-top-k", top_k}},
                                   .work = ScoreTextWork{}};
      ASSIGN_OR_FAIL(const auto base, engine->Run(original));
      size_t changed_before = 0;
      for (const size_t at : {130, 400, 700, 799}) {
        EngineRequest request = original;
        for (size_t i = at; i < request.token_ids.size(); ++i)
          request.token_ids[i] = 2 + (request.token_ids[i] + 7) % 100;
        ASSIGN_OR_FAIL(const auto changed, engine->Run(request));
        for (size_t i = 1; i < at; ++i) changed_before += *changed.token_log_probs[i] != *base.token_log_probs[i];
      }
      EXPECT_EQ(changed_before > 0, std::string(golden) == "focus/llama-prompt") << golden << ", k = " << top_k;
    }
  }
}

TEST(FocusTest, ThePromptBiasNotesThatThePromptRanInOneStep) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focus/llama-prompt")), {.prefill_chunk_tokens = 64});
  const std::vector<int32_t> ids = RandomIds("whole", 300);
  for (int pass = 0; pass < 2; ++pass) {
    ASSIGN_OR_FAIL(const auto result,
                   engine->Run({.token_ids = ids, .work = GenerateWork{.max_new_tokens = 2, .ignore_eos = true}}));
    EXPECT_THAT(result.notes, Message("focus_attention"));
    EXPECT_EQ(result.cached_token_count, 0);
  }
}

TEST(FocusTest, TheShorterTrainedLengthApplies) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focus/llama-calibrated")));
  EXPECT_FALSE(engine->Run({.token_ids = RandomIds("a", 128), .work = ScoreTextWork{}})->extrapolated);
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 129), .work = ScoreTextWork{}})->extrapolated);
}

TEST(FocusTest, InvalidOverridesAreRejectedByName) {
  auto focus = StartEngine(LoadForTest(GoldenDirectory("focus/llama-calibrated")));
  auto plain = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  const auto message = [](Engine& engine, const AttentionOverrides& overrides) {
    return std::string(engine.Run({.token_ids = {2, 3}, .attention_overrides = overrides, .work = ScoreTextWork{}})
                           .status()
                           .message());
  };
  EXPECT_THAT(message(*plain, {{"focus-top-k", 1}}), Message("\"focus_attention\""));
  EXPECT_THAT(message(*focus, {{"focus-top-k", 0}}), Message("0", "1", "8"));
  EXPECT_THAT(message(*focus, {{"focus-top-k", 9}}), Message("9"));
  EXPECT_THAT(message(*focus, {{"focus-top-k", 1.5}}), Message("1.5"));
  EXPECT_THAT(message(*focus, {{"focus-window", -1}}), Message("-1"));
  EXPECT_THAT(message(*focus, {{"focus-window", 3e9}}), HasSubstr("to 2147483647"));
  EXPECT_THAT(message(*focus, {{"t", 0.5}, {"full-t", 0.5}}), Message("\"t\"", "\"full-t\""));
}

struct BadConfig {
  const char* key;
  const char* value;
  std::vector<std::string> message;  // contained in the message
};

TEST(FocusTest, InvalidKeysAreRejectedByName) {
  for (const BadConfig& bad :
       std::vector<BadConfig>{{"group_count", "0", {"\"focus_attention.group_count\"", "0", "1..32"}},
                              {"group_count", "33", {"1..32"}},
                              {"group_count", "null", {"\"focus_attention.group_count\""}},
                              {"top_k", "9", {"\"focus_attention.top_k\"", "9", "1..8"}},
                              {"top_k", "0", {"top_k", "0"}},
                              {"top_k", "2.5", {}},
                              {"top_k", "null", {"\"focus_attention.top_k\""}},
                              {"window", "-1", {"\"focus_attention.window\"", "-1"}},
                              {"window", "[128]", {"\"focus_attention.window\""}},
                              {"window", "2147483648", {"2147483648"}},
                              {"window", "null", {"\"focus_attention.window\""}},
                              {"bias", "\"global\"", {}},
                              {"bias", "null", {"\"focus_attention.bias\""}},
                              {"bias", "\"paged\"", {"2", "model.layers.0.self_attn.focus.group_bias"}},
                              {"routing_dim", "0", {"routing_dim"}},
                              {"routing_dim", "8", {"16", "32", "8"}},
                              {"assignment_temperature", "0", {"assignment_temperature"}},
                              {"assignment_temperature", "-0.1", {"assignment_temperature"}},
                              {"assignment_temperature", "\"0.1\"", {"assignment_temperature"}},
                              {"layers", "0", {"\"focus_attention.layers\"", "0"}},
                              {"layers", "[]", {}},
                              {"layers", "[1, 0]", {"0", "1"}},
                              {"layers", "[0, 0]", {}},
                              {"layers", "[0, 2]", {"2", "0..1"}},
                              {"layers", "[\"0\"]", {"0..1"}},
                              {"layers", "[0]", {"3", "model.layers.1.self_attn.focus.centroids"}},
                              {"regime", "1", {"regime"}},
                              {"regime", "\"lora\"", {}},
                              {"trained_context_length", "0", {"trained_context_length"}},
                              {"trained_context_length", "\"long\"", {"trained_context_length"}},
                              {"mode", "\"learned\"", {"mode"}},
                              {"groups", "8", {"groups"}}}) {
    const TemporaryCheckpoint checkpoint("focus/llama-calibrated", "bad");
    Json config = *ParseJson(checkpoint.Read("config.json"));
    config["focus_attention"][bad.key] = *ParseJson(bad.value);
    checkpoint.Write("config.json", config.dump());
    const auto model = LoadModel(checkpoint.directory(), {.cache_directory = testing::TempDir()});
    ASSERT_FALSE(model.ok()) << bad.key << " " << bad.value;
    EXPECT_THAT(model.status().message(), MessageMatcher(bad.message)) << bad.key << " " << bad.value;
  }
}

// Each tensor of the last layer: not finite, of a transposed shape, or missing (a tensor of another name in its place).
TEST(FocusTest, InvalidTensorsAreRejectedByName) {
  struct Tensor {
    const char *name, *shape, *bad_shape;
  };
  const auto message = [](const TemporaryCheckpoint& checkpoint) {
    const auto model = LoadModel(checkpoint.directory(), {.cache_directory = testing::TempDir()});
    return model.ok() ? "loaded" : std::string(model.status().message());
  };
  for (const Tensor& tensor :
       {Tensor{"focus.projection.weight", "[16,32]", "[32,16]"}, Tensor{"focus.centroids", "[8,16]", "[16,8]"},
        Tensor{"focus.group_bias", "[8]", "[9]"}}) {
    const std::string name = std::string("model.layers.1.self_attn.") + tensor.name;
    for (const float value : {NAN, INFINITY}) {
      const TemporaryCheckpoint not_finite("focus/llama-calibrated", "not_finite");
      not_finite.Fill(name, value);
      EXPECT_THAT(message(not_finite), HasSubstr(name + " has a value that is not finite"));
    }
    const auto edited = [&](const std::string& from, const std::string& to) {
      const TemporaryCheckpoint checkpoint("focus/llama-calibrated", "edited");
      std::string bytes = checkpoint.Read("model.safetensors");
      const size_t entry = bytes.find(name), at = bytes.find(from, entry);
      bytes.replace(at, from.size(), to);
      checkpoint.Write("model.safetensors", bytes);
      return message(checkpoint);
    };
    EXPECT_THAT(edited(tensor.shape, tensor.bad_shape), HasSubstr(name));
    std::string other = name;
    other.back() = '_';
    EXPECT_THAT(edited(name, other), HasSubstr(name));
  }
  const TemporaryCheckpoint unexplained("focus/llama-calibrated", "unexplained");
  Json config = *ParseJson(unexplained.Read("config.json"));
  config.erase("focus_attention");
  unexplained.Write("config.json", config.dump());
  EXPECT_THAT(LoadModel(unexplained.directory(), {.cache_directory = testing::TempDir()}).status().message(),
              Message("6", "model.layers.0.self_attn.focus.centroids"));
}

}  // namespace
}  // namespace varifocal

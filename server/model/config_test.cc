// config.json: accepted and rejected files. A table of edits to one valid config: each edit sets, removes or breaks one
// key, and the error must name it.
#include "server/model/config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

Json Good() {
  return *ParseJson(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
    "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "torch_dtype": "bfloat16", "eos_token_id": [1, 2],
    "bos_token_id": 0, "sliding_window": null, "pretraining_tp": 1, "transformers_version": "4.57.0", "use_cache": true})");
}

absl::StatusOr<ModelConfig> Parse(const Json& json) { return ParseModelConfig(json.dump()); }

TEST(ConfigTest, ReadsALlama) {
  ASSIGN_OR_FAIL(const auto config, Parse(Good()));
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.kv_head_count, 2);
  EXPECT_EQ(config.ropes[0].theta, 500000);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.eos_token_ids, std::vector<int32_t>({1, 2}));
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_FALSE(config.trained_context_length.has_value());
  EXPECT_EQ(config.attention.Label(), "baseline");
}

TEST(ConfigTest, TrainingIsReadAndDoesNotContradictTheTrainedLength) {
  Json json = Good();
  json["training"] = {{"arm", "focal-0.4"}, {"seed", 3}, {"tokens", int64_t{1} << 40}, {"context_length", 512}};
  auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training.arm, "focal-0.4");
  EXPECT_EQ(config->training.seed, 3);
  EXPECT_EQ(config->training.tokens, int64_t{1} << 40);
  EXPECT_EQ(config->trained_context_length, 512) << "one fact, whichever key states it";
  json["trained_context_length"] = 512;
  EXPECT_TRUE(Parse(json).ok());
  json["trained_context_length"] = 1024;
  config = Parse(json);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(),
              Message("\"training.context_length\"", "512", "\"trained_context_length\"", "1024"));
  json["training"] = Json::object();
  ASSERT_TRUE(Parse(json).ok());
  EXPECT_EQ(Parse(json)->trained_context_length, 1024);
  EXPECT_FALSE(Parse(json)->training.seed.has_value());
}

TEST(ConfigTest, OlderAndNewerRopeKeysAreEquivalent) {
  Json older = Good();
  older["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 512}};
  Json newer = Good();
  newer.erase("rope_theta");
  newer["rope_parameters"] = older["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  ASSERT_TRUE(Parse(older).ok()) << Parse(older).status();
  ASSERT_TRUE(Parse(newer).ok()) << Parse(newer).status();
  EXPECT_EQ(RopesToString(Parse(older)->ropes), RopesToString(Parse(newer)->ropes));
  EXPECT_EQ(RopesToString(Parse(newer)->ropes), "llama3 theta=500000 factor=8 low=1 high=4 original=512");
}

struct SettingCase {
  const char* focal;
  const char* text;
};

TEST(ConfigTest, AttentionSettings) {
  for (const SettingCase& c :
       {SettingCase{R"({"mode":"constant","temperature":0.4})", "focal t=0.4"},
        SettingCase{R"({"mode":"constant","temperature":1})", "focal t=1"},
        SettingCase{R"({"mode":"constant","temperature":[0.4,1,0.7]})", "focal t=0.4,1,0.7"},
        SettingCase{R"({"mode":"learned","tau_min":3.5,"tau_max":8.0})", "focal tau=[3.5,8] causal"},
        SettingCase{R"({"mode":"learned","tau_min":3.5,"tau_max":8.0,"tau_mean":"token"})", "focal tau=[3.5,8] token"},
        SettingCase{R"({"mode":"learned","tau_min":3,"tau_max":3,"tau_mean":"sequence"})",
                    "focal tau=[3,3] sequence"}}) {
    Json json = Good();
    json["focal_attention"] = *ParseJson(c.focal);
    ASSIGN_OR_FAIL(const auto config, Parse(json));
    EXPECT_EQ(config.attention.Label(), c.text);
  }
}

// `value` is JSON; "" removes the key.
struct BadConfig {
  const char* key;
  const char* value;
  std::vector<std::string> message;  // contained in the message
};

const BadConfig kBad[] = {
    {"model_type", "", {"\"model_type\""}},
    {"model_type", "\"mamba\"", {"\"mamba\""}},
    {"model_type", "7", {}},
    {"architectures", "[\"LlamaForSequenceClassification\"]", {"LlamaForCausalLM"}},
    {"architectures", "\"LlamaForCausalLM\"", {"architectures"}},
    {"architectures", "[]", {"architectures"}},
    {"vocab_size", "", {"\"vocab_size\""}},
    {"vocab_size", "0", {"1..16777216"}},
    {"vocab_size", "-5", {"-5"}},
    {"vocab_size", "99999999", {"99999999"}},
    {"vocab_size", "128.5", {}},
    {"vocab_size", "\"128\"", {}},
    {"vocab_size", "18446744073709551615", {"18446744073709551615"}},
    {"hidden_size", "", {"hidden_size"}},
    {"hidden_size", "63", {"num_attention_heads"}},
    {"hidden_size", "12", {"3"}},
    {"hidden_size", "1048577", {"1048577"}},
    {"intermediate_size", "0", {"intermediate_size"}},
    {"num_hidden_layers", "0", {"num_hidden_layers"}},
    {"num_hidden_layers", "5000", {"1..4096"}},
    {"num_attention_heads", "0", {"num_attention_heads"}},
    {"num_attention_heads", "true", {}},
    {"num_key_value_heads", "3", {"num_attention_heads", "4"}},
    {"num_key_value_heads", "8", {}},
    {"head_dim", "15", {}},
    {"head_dim", "0", {"head_dim"}},
    {"head_dim", "2048", {"2..1024"}},
    {"max_position_embeddings", "", {"max_position_embeddings"}},
    {"max_position_embeddings", "0", {"max_position_embeddings"}},
    {"trained_context_length", "0", {"trained_context_length"}},
    {"trained_context_length", "\"2K\"", {"trained_context_length"}},
    {"training", "3", {"\"training\"", "3"}},
    {"training", "{\"lr\":0.1}", {"\"training.lr\""}},
    {"training", "{\"parameters\":7}", {"\"training.parameters\""}},
    {"training", "{\"arm\":\"\"}", {"\"training.arm\"", "1", "64"}},
    {"training", "{\"arm\":\"a@t=1\"}", {}},
    {"training", "{\"arm\":7}", {"training.arm"}},
    {"training", "{\"seed\":-1}", {"training.seed"}},
    {"training", "{\"seed\":1.5}", {"training.seed"}},
    {"training", "{\"tokens\":0}", {"training.tokens"}},
    {"training", "{\"tokens\":\"1M\"}", {"training.tokens"}},
    {"training", "{\"context_length\":0}", {"training.context_length"}},
    {"rms_norm_eps", "0", {"positive"}},
    {"rms_norm_eps", "-1e-6", {"positive"}},
    {"rms_norm_eps", "\"1e-6\"", {"positive"}},
    {"tie_word_embeddings", "1", {}},
    {"attention_bias", "\"yes\"", {}},
    {"mlp_bias", "1", {}},
    {"hidden_act", "\"laplace\"", {"\"laplace\""}},
    {"sliding_window", "4096", {"\"sliding_window\"", "4096"}},
    {"use_sliding_window", "true", {"use_sliding_window"}},
    {"layer_types", "[\"sliding_attention\"]", {"layer_types"}},
    {"quantization_config", "{\"bits\":4}", {"quantization_config"}},
    {"partial_rotary_factor", "0.5", {"partial_rotary_factor"}},
    {"attn_logit_softcapping", "50.0", {"\"attn_logit_softcapping\"", "50.0"}},
    {"sinks", "true", {"\"sinks\""}},
    {"rope_thta", "1e4", {"\"rope_thta\""}},
    {"rope_theta", "0", {"positive"}},
    {"rope_theta", "-1", {"positive"}},
    {"rope_theta", "\"big\"", {"positive"}},
    {"rope_scaling", "8", {}},
    {"rope_scaling", "{\"type\":\"dynamic\"}", {"\"rope_scaling.factor\""}},
    {"rope_scaling", "{\"rope_type\":\"mrope\",\"factor\":2.0}", {"\"mrope\"", "llama3"}},
    {"rope_scaling", "{\"rope_type\":\"linear\"}", {"\"rope_scaling.factor\""}},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":0}", {"positive"}},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2,\"beta_fast\":32}", {"\"rope_scaling.beta_fast\""}},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"type\":\"llama3\",\"factor\":2}", {"rope_scaling.type"}},
    {"rope_scaling",
     "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,\"original_max_position_"
     "embeddings\":512}",
     {"high_freq_factor"}},
    {"rope_parameters", "{\"rope_theta\":10000.0}", {"\"rope_theta\"", "500000"}},
    {"eos_token_id", "128", {"0..127"}},
    {"eos_token_id", "-1", {"-1"}},
    {"eos_token_id", "[1,\"x\"]", {"eos_token_id"}},
    {"bos_token_id", "1000", {"1000"}},
    {"focus_attention", "{\"groups\":8}", {"focus_attention"}},
    {"focal_attention", "0.4", {}},
    {"focal_attention", "{}", {"\"focal_attention.mode\""}},
    {"focal_attention", "{\"mode\":\"sharp\"}", {"\"sharp\"", "full_layers_only"}},
    {"focal_attention", "{\"mode\":\"constant\"}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":0}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":-0.4}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":1e999}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":[0.4,0.5]}", {"2", "1", "3"}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":[]}", {"0"}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":[0.4,0.5,null]}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":[0.4,0.5,0]}", {"2", "0"}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":\"0.4\"}", {}},
    {"focal_attention", "{\"mode\":\"constant\",\"temperature\":0.4,\"tau_min\":1}", {"focal_attention.tau_min"}},
    {"focal_attention", "{\"mode\":\"learned\",\"tau_max\":8}", {"tau_min"}},
    {"focal_attention", "{\"mode\":\"learned\",\"tau_min\":0,\"tau_max\":8}", {"positive"}},
    {"focal_attention", "{\"mode\":\"learned\",\"tau_min\":9,\"tau_max\":8}", {"tau_max", "8"}},
    {"focal_attention", "{\"mode\":\"learned\",\"tau_min\":3,\"tau_max\":8,\"tau_mean\":\"prefix\"}", {}},
    {"focal_attention",
     "{\"mode\":\"learned\",\"tau_min\":3,\"tau_max\":8,\"temperature\":1}",
     {"focal_attention.temperature"}},
};

TEST(ConfigTest, BadValuesAreNamed) {
  for (const BadConfig& bad : kBad) {
    std::string text;
    if (bad.value[0] == '\0') {
      Json json = Good();
      json.erase(bad.key);
      text = json.dump();
    } else {
      Json json = Good();
      json.erase(bad.key);
      text = json.dump();
      text.insert(text.size() - 1, std::string(",\"") + bad.key + "\":" + bad.value);
    }
    const auto config = ParseModelConfig(text);
    ASSERT_FALSE(config.ok()) << bad.key << " = " << bad.value;
    const std::string message(config.status().message());
    EXPECT_THAT(message, MessageMatcher(bad.message)) << bad.key << " = " << bad.value;
    EXPECT_THAT(message, testing::Not(HasSubstr("\n")));
    EXPECT_TRUE(config.status().code() == absl::StatusCode::kInvalidArgument ||
                config.status().code() == absl::StatusCode::kUnimplemented);
  }
}

// Keys that no forward pass reads: generation settings in full dumps of older configurations, training, other programs.
TEST(ConfigTest, KeysWithoutEffectLoad) {
  for (const char* key :
       {"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "encoder_no_repeat_ngram_size",
        "gradient_checkpointing", "output_past", "custom_pipelines", "_flash_attn_2_enabled", "use_flash_attn",
        "model_max_length", "tokenizer_padding_side", "seq_length", "min_p", "penalty_alpha", "max_new_tokens"}) {
    for (const Json& value : {Json(1), Json(0.5), Json(false), Json("left"), Json::object()}) {
      Json json = Good();
      json[key] = value;
      EXPECT_TRUE(Parse(json).ok()) << Parse(json).status();
    }
  }
}

struct ChunkCase {
  const char* chunks;
  int64_t max_position;
};

// Dual chunk attention is the plain function in its first chunk, up to the original length and before it is sparse.
TEST(ConfigTest, DualChunkAttentionLimitsTheContext) {
  for (const ChunkCase& c :
       {ChunkCase{R"({"chunk_size":262144,"local_size":8192,"original_max_position_embeddings":262144})", 4096},
        ChunkCase{R"({"chunk_size":1024,"local_size":128})", 896},
        ChunkCase{R"({"chunk_size":1024,"local_size":128,"original_max_position_embeddings":512})", 512},
        ChunkCase{R"({"chunk_size":1024,"local_size":128,"original_max_position_embeddings":0})", 896},
        ChunkCase{R"({"chunk_size":4096,"local_size":0})", 4096},
        ChunkCase{R"({"chunk_size":4096,"local_size":1})", 4095},
        ChunkCase{
            R"({"chunk_size":1024,"local_size":128,"sparse_attention_config":[],"sparse_attention_threshold":99})", 99},
        ChunkCase{R"({"chunk_size":1024,"local_size":128,"sparse_attention_enabled":false,
                      "sparse_attention_threshold":99,"sparse_attention_last_q":64})",
                  896}}) {
    Json json = Good();
    json["dual_chunk_attention_config"] = *ParseJson(c.chunks);
    ASSIGN_OR_FAIL(const auto config, Parse(json));
    EXPECT_EQ(config.max_position, c.max_position) << c.chunks;
    EXPECT_EQ(config.notes.size(), c.max_position == 4096 ? 0 : 1) << c.chunks;
    if (!config.notes.empty()) {
      EXPECT_THAT(config.notes[0], Message(4096, c.max_position));
    }
  }
  EXPECT_FALSE(Parse(Good())->notes.size() > 0);
}

TEST(ConfigTest, KeysAreIgnoredOnRequest) {
  Json json = Good();
  json["b_new"] = 3;
  json["attention_bias_kind"] = "x";
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"novel", 1}};
  json["quantization_config"] = {{"bits", 4}};
  const auto parse = [&](std::vector<std::string> keys) { return ParseModelConfig(json.dump(), std::move(keys)); };
  ASSIGN_OR_FAIL(const auto config,
                 parse({"quantization_config", "b_new", "rope_scaling.novel", "attention_bias_kind", "b_new"}));
  EXPECT_EQ(config.ignored_keys,
            std::vector<std::string>({"attention_bias_kind", "b_new", "quantization_config", "rope_scaling.novel"}));
  EXPECT_TRUE(Parse(Good())->ignored_keys.empty());

  const auto refusal = [&](std::vector<std::string> keys) {
    return std::string(parse(std::move(keys)).status().message());
  };
  EXPECT_THAT(refusal({"b_new", "rope_scaling.novel", "attention_bias_kind"}), Message("\"quantization_config\""));
  EXPECT_THAT(refusal({"b_old"}), Message("\"b_old\""));
  EXPECT_THAT(refusal({"rope_scaling.factors"}), Message("\"rope_scaling.factors\""));
  // Keys that are read, whatever their value, and keys without effect.
  json = Good();
  for (const char* key : {"rope_theta", "tie_word_embeddings", "use_cache"}) {
    EXPECT_THAT(refusal({key}),
                HasSubstr(absl::StrCat("\"", key, "\" is to be ignored, and is not refused as unknown")));
  }
  json["rope_theta"] = -1;
  EXPECT_THAT(refusal({"rope_theta"}), Message("\"rope_theta\"", "-1"));
  json["hidden_size"] = 63;
  EXPECT_THAT(refusal({"rope_theta"}), HasSubstr("hidden_size"));
}

TEST(ConfigTest, KeysOfModels) {
  const std::vector<std::string> keys = {"a", "one:b", "two:c.d"};
  EXPECT_EQ(KeysOfModel(keys, "one"), std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(KeysOfModel(keys, "two"), std::vector<std::string>({"a", "c.d"}));
  EXPECT_EQ(KeysOfModel(keys, "on"), std::vector<std::string>({"a"}));
}

TEST(ConfigTest, MalformedText) {
  for (const char* text : {"", "{", "[]", "null", "\"llama\"", "{\"model_type\":\"llama\",\"model_type\":\"llama\"}",
                           "{\"a\":1}}", "{}x"}) {
    EXPECT_FALSE(ParseModelConfig(text).ok()) << text;
  }
  EXPECT_FALSE(ParseModelConfig(Good().dump() + std::string("\0}", 2)).ok()) << "bytes behind a NUL are not ignored";
}

// Random edits of a valid file: rejected or parsed, never a crash; parsed values are within the limits.
TEST(ConfigTest, RandomEditsAreRejectedOrSafe) {
  Json json = Good();
  json["focal_attention"] = *ParseJson(R"({"mode":"learned","tau_min":3.5,"tau_max":8.0})");
  json["rope_scaling"] = *ParseJson(R"({"rope_type":"linear","factor":2.0})");
  const std::string good = json.dump();
  ASSERT_TRUE(ParseModelConfig(good).ok()) << ParseModelConfig(good).status();
  Random random("config edits");
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (uint64_t edit = 0; edit <= random.Below(3); ++edit) {
      const size_t at = random.Below(text.size());
      static constexpr char kLikely[] = "0123456789,:[]{}\"-.eE ";
      const char value =
          random.Below(8) != 0 ? kLikely[random.Below(sizeof kLikely - 1)] : static_cast<char>(random.Next());
      switch (random.Below(3)) {
        case 0:
          text[at] = value;
          break;
        case 1:
          text.insert(at, 1, value);
          break;
        default:
          text.erase(at, 1);
      }
    }
    const auto config = ParseModelConfig(text);
    if (!config.ok()) continue;
    ASSERT_GE(config->layer_count, 1);
    ASSERT_EQ(config->head_count % config->kv_head_count, 0);
    ASSERT_EQ(config->head_width % 2, 0) << "the edited config has rotary positions";
    ASSERT_GE(config->max_position, 1);
    // Parsing the canonical form gives the same result.
    ASSIGN_OR_FAIL(const auto again,
                   AttentionSetting::FromJson(*ParseJson(config->attention.json()), AttentionModelOf(*config)));
    ASSERT_EQ(again.json(), config->attention.json());
  }
}

TEST(ConfigTest, GenerationConfigEos) {
  EXPECT_EQ(ParseGenerationConfigEos(R"({"eos_token_id":[1,5],"temperature":0.6,"do_sample":true})", 128)->value(),
            std::vector<int32_t>({1, 5}));
  EXPECT_EQ(ParseGenerationConfigEos(R"({"eos_token_id":3})", 128)->value(), std::vector<int32_t>({3}));
  EXPECT_FALSE(ParseGenerationConfigEos("{}", 128)->has_value());
  EXPECT_FALSE(ParseGenerationConfigEos(R"({"eos_token_id":128})", 128).ok());
  EXPECT_FALSE(ParseGenerationConfigEos("[]", 128).ok());
}

}  // namespace
}  // namespace varifocal

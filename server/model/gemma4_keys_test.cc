// Keys of gemma4: both generations, defaults as in transformers, and everything that is refused.
#include "server/model/gemma4_keys.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "server/model/config.h"
#include "tests/support/json_changes.h"

namespace varifocal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Six layers, the third and the last of full attention.
Json SmallGemma4(const char* edits = "{}") {
  Json json = *ParseJson(R"({"model_type":"gemma4_text","vocab_size":99,"hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":6,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"global_head_dim":32,
      "max_position_embeddings":4096,"layer_types":["sliding_attention","sliding_attention","full_attention",
      "sliding_attention","sliding_attention","full_attention"]})");
  return WithEdits(std::move(json), edits);
}

ModelConfig ParsedGemma4(const char* edits = "{}") {
  const auto config = ParseModelConfig(SmallGemma4(edits).dump());
  EXPECT_TRUE(config.ok()) << edits << ": " << config.status();
  return config.ok() ? *config : ModelConfig();
}

template <typename T>
std::vector<T> OfLayers(const ModelConfig& config, T (*of)(const ModelConfig&, const LayerConfig&)) {
  std::vector<T> values;
  for (const LayerConfig& layer : config.layers) values.push_back(of(config, layer));
  return values;
}

TEST(Gemma4KeysTest, DefaultsAreThoseOfTransformers) {
  const ModelConfig config = ParsedGemma4();
  EXPECT_THAT(OfLayers(config, HeadWidth), ElementsAre(16, 16, 32, 16, 16, 32));
  EXPECT_THAT(OfLayers(config, KvHeadCount), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_THAT(OfLayers(config, FeedForwardWidth), ElementsAre(96, 96, 96, 96, 96, 96));
  EXPECT_EQ(config.layers[0].window, 512);
  EXPECT_EQ(config.layers[0].attention_scale, 1);
  EXPECT_EQ(config.blocks.logit_soft_cap, 0);
  EXPECT_EQ(config.blocks.embedding_multiplier, 8);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.blocks.value_norm);
  EXPECT_EQ(config.layer_inputs.width, 256);
  EXPECT_EQ(config.layer_inputs.vocabulary, 262144);
  EXPECT_EQ(config.mixture.expert_count, 0);
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[0].ToString(), "proportional theta=1000000 partial=0.25 factor=1");
  EXPECT_EQ(config.ropes[1].ToString(), "default theta=10000");
  EXPECT_EQ(RopeHeadWidth(config, 0), 32);
  EXPECT_EQ(RopeHeadWidth(config, 1), 16);
  // All but every sixth, and never the last.
  const ModelConfig by_pattern = ParsedGemma4(R"({"layer_types":"-","num_hidden_layers":8,"global_head_dim":"-"})");
  EXPECT_THAT(OfLayers(by_pattern, HeadWidth), ElementsAre(16, 16, 16, 16, 16, 512, 16, 512));
  EXPECT_EQ(ParsedGemma4(R"({"num_hidden_layers":1,"layer_types":["sliding_attention"]})").layers[0].window, 0);
}

TEST(Gemma4KeysTest, LayersOfAKindShareAGroupAndReadersHaveNoPages) {
  const ModelConfig config = ParsedGemma4(R"({"num_kv_shared_layers":3,"use_double_wide_mlp":true})");
  std::vector<int64_t> sources, groups, places;
  for (const LayerConfig& layer : config.layers) {
    sources.push_back(layer.source_layer);
    groups.push_back(layer.page_group);
    places.push_back(layer.group_layer);
  }
  EXPECT_THAT(sources, ElementsAre(-1, -1, -1, 1, 1, 2));
  EXPECT_THAT(groups, ElementsAre(1, 1, 0, 1, 1, 0));
  EXPECT_THAT(places, ElementsAre(0, 1, 0, 1, 1, 0));
  ASSERT_EQ(config.page_groups.size(), 2u);
  EXPECT_EQ(config.page_groups[0].layer_count, 1);
  EXPECT_EQ(config.page_groups[0].head_width, 32);
  EXPECT_EQ(config.page_groups[1].layer_count, 2);
  EXPECT_EQ(config.page_groups[1].head_width, 16);
  EXPECT_THAT(OfLayers(config, FeedForwardWidth), ElementsAre(96, 96, 96, 192, 192, 192));
  // A window beyond the longest context is none, and pages of two widths stay apart.
  const ModelConfig full = ParsedGemma4(R"({"sliding_window":4096})");
  ASSERT_EQ(full.page_groups.size(), 2u);
  EXPECT_EQ(full.page_groups[0].window, 0);
  EXPECT_EQ(full.page_groups[1].window, 0);
  EXPECT_NE(full.page_groups[0].head_width, full.page_groups[1].head_width);
}

TEST(Gemma4KeysTest, PublishedKeysAndThoseOf524AreTheSameFunction) {
  const ModelConfig published =
      ParsedGemma4(R"({"attention_k_eq_v":true,"num_global_key_value_heads":1,"hidden_size_per_layer_input":0})");
  const ModelConfig newer = ParsedGemma4(R"({"attention_k_eq_v":true,"hidden_size_per_layer_input":null,
      "global_head_dim":"-","per_layer_config":{"2":{"head_dim":32,"num_key_value_heads":1},
      "5":{"head_dim":32,"num_key_value_heads":1}}})");
  for (const ModelConfig* config : {&published, &newer}) {
    EXPECT_THAT(OfLayers(*config, HeadWidth), ElementsAre(16, 16, 32, 16, 16, 32));
    EXPECT_THAT(OfLayers(*config, KvHeadCount), ElementsAre(2, 2, 1, 2, 2, 1));
    EXPECT_FALSE(config->layers[0].keys_are_values);
    EXPECT_TRUE(config->layers[2].keys_are_values);
    EXPECT_EQ(config->layer_inputs.width, 0);
  }
  // Without the key, its count has no effect.
  EXPECT_THAT(OfLayers(ParsedGemma4(R"({"num_global_key_value_heads":1})"), KvHeadCount),
              ElementsAre(2, 2, 2, 2, 2, 2));
}

TEST(Gemma4KeysTest, ExpertsStandBesideTheMlp) {
  const ModelConfig config =
      ParsedGemma4(R"({"enable_moe_block":true,"num_experts":8,"top_k_experts":2,"moe_intermediate_size":24})");
  EXPECT_EQ(config.mixture.expert_count, 8);
  EXPECT_EQ(config.mixture.per_token, 2);
  EXPECT_EQ(config.mixture.width, 24);
  EXPECT_EQ(config.mixture.shared_width, 96);
  EXPECT_TRUE(config.mixture.normed_apart);
  EXPECT_TRUE(config.mixture.renormalised);
  EXPECT_FALSE(config.mixture.shared_gate);
}

struct Gemma4Refusal {
  const char* edits;
  const char* message;  // a part of it
};

constexpr Gemma4Refusal kGemma4Refusals[] = {
    {R"({"global_head_dim":33})", "\"global_head_dim\" is 33; a head width must be even"},
    {R"({"global_head_dim":1026})", "\"global_head_dim\" is 1026; it must lie in 2..1024"},
    {R"({"attention_k_eq_v":true,"num_global_key_value_heads":3})",
     "\"num_global_key_value_heads\" is 3; it must divide num_attention_heads, 4"},
    {R"({"num_kv_shared_layers":6})", "\"num_kv_shared_layers\" is 6; it must lie in 0..5"},
    {R"({"num_kv_shared_layers":4})",
     "\"num_kv_shared_layers\" is 4; layer 2 reads the keys of an earlier layer with "
     "full attention, and the first 2 have none"},
    {R"({"vocab_size_per_layer_input":98})",
     "\"vocab_size_per_layer_input\" is 98; it must be at least vocab_size, 99"},
    {R"({"hidden_size_per_layer_input":-1})", "\"hidden_size_per_layer_input\" is -1"},
    {R"({"use_bidirectional_attention":"all"})", "\"use_bidirectional_attention\" is \"all\"; only null and"},
    {R"({"attn_logit_softcapping":50.0})", "\"attn_logit_softcapping\" is 50.0; only null is supported"},
    {R"({"final_logit_softcapping":0})", "\"final_logit_softcapping\" is 0"},
    {R"({"enable_moe_block":true})", "\"num_experts\" is missing"},
    {R"({"enable_moe_block":true,"num_experts":4,"top_k_experts":5,"moe_intermediate_size":8})",
     "\"top_k_experts\" is 5; it must lie in 1..4"},
    {R"({"enable_moe_block":true,"num_experts":4,"top_k_experts":2,"moe_intermediate_size":8,"num_kv_shared_layers":1,
         "use_double_wide_mlp":true})",
     "\"use_double_wide_mlp\" is true with \"enable_moe_block\""},
    {R"({"per_layer_config":[1]})", "\"per_layer_config\" is [1]; it must be an object"},
    {R"({"per_layer_config":{"6":{"head_dim":32}}})", "\"per_layer_config\" has \"6\""},
    {R"({"per_layer_config":{"2":{"intermediate_size":32}}})",
     "\"per_layer_config.2.intermediate_size\" is 32; this key is unknown"},
    {R"({"per_layer_config":{"2":{"head_dim":32}}})", "only those of full and window layers may differ"},
    {R"({"rope_parameters":{"full_attention":{"rope_type":"proportional","partial_rotary_factor":2,"rope_theta":5},
         "sliding_attention":{"rope_type":"default","rope_theta":5}}})",
     "\"rope_parameters.full_attention.partial_rotary_factor\" is 2; it must be at most 1"},
    {R"({"rope_parameters":{"full_attention":{"rope_type":"default","partial_rotary_factor":0.5,"rope_theta":5},
         "sliding_attention":{"rope_type":"default","rope_theta":5}}})",
     "\"rope_parameters.full_attention.partial_rotary_factor\" is 0.5; only 1.0 is supported"},
    {R"({"rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":5}}})",
     "\"rope_parameters.sliding_attention.rope_theta\" is missing"},
    {R"({"rope_theta":500})", "\"rope_theta\" is 500 but in the RoPE parameters 1e+06"},
    {R"({"num_kv_shared_layers":2,"focal_attention":{"mode":"learned","tau_min":3.5,"tau_max":8.0}})",
     "\"focal_attention.mode\" is \"learned\"; it is not supported where layers read the keys of another"},
    {R"({"num_kv_shared_layers":2,"focus_attention":{"group_count":8,"top_k":1,"window":128,"bias":"calibrated"}})",
     "\"focus_attention\" is set; it is not supported where layers read the keys of another"},
};

TEST(Gemma4KeysTest, ErrorsNameKeyAndValue) {
  for (const Gemma4Refusal& refusal : kGemma4Refusals) {
    const auto config = ParseModelConfig(SmallGemma4(refusal.edits).dump());
    ASSERT_FALSE(config.ok()) << refusal.edits;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(refusal.message)) << refusal.edits;
  }
}

// A constant temperature and its list, caps and sinks act on layers that read the keys of another as on all.
TEST(Gemma4KeysTest, ConstantTemperaturesAreAcceptedWhereKeysAreShared) {
  const ModelConfig config = ParsedGemma4(
      R"({"num_kv_shared_layers":2,"focal_attention":{"mode":"constant","temperature":[1,1,1,0.5,0.5,0.5]}})");
  EXPECT_THAT(config.attention.json(), HasSubstr("0.5"));
}

}  // namespace
}  // namespace varifocal

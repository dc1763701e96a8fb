// Keys of gemma3n: defaults as in transformers, lists by layer, and everything that is refused.
#include "server/model/gemma3n_keys.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "server/model/config.h"
#include "server/model/stream_weights.h"
#include "tests/support/json_changes.h"

namespace varifocal {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Json SmallGemma3n(const char* edits = "{}") {
  Json json = *ParseJson(R"({"model_type":"gemma3n_text","vocab_size":99,"hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":6,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
      "max_position_embeddings":4096,"num_kv_shared_layers":0})");
  return WithEdits(std::move(json), edits);
}

ModelConfig ParsedGemma3n(const char* edits = "{}") {
  const auto config = ParseModelConfig(SmallGemma3n(edits).dump());
  EXPECT_TRUE(config.ok()) << edits << ": " << config.status();
  return config.ok() ? *config : ModelConfig();
}

std::vector<int64_t> WindowsOf(const ModelConfig& config) {
  std::vector<int64_t> values;
  for (const LayerConfig& layer : config.layers) values.push_back(layer.window);
  return values;
}

std::vector<double> CutsOf(const ModelConfig& config) {
  std::vector<double> values;
  for (const LayerConfig& layer : config.layers) values.push_back(layer.cut_share);
  return values;
}

TEST(Gemma3nKeysTest, DefaultsAreThoseOfTransformers) {
  const ModelConfig config = ParsedGemma3n();
  EXPECT_THAT(WindowsOf(config), ElementsAre(512, 512, 512, 512, 0, 512));
  EXPECT_THAT(CutsOf(config), Each(0));
  EXPECT_EQ(config.streams.count, 4);
  EXPECT_EQ(config.streams.active, 0);
  EXPECT_EQ(config.streams.low_rank, 64);
  EXPECT_TRUE(config.streams.scales_corrected);
  EXPECT_EQ(config.layer_inputs.width, 256);
  EXPECT_EQ(config.layer_inputs.vocabulary, 262144);
  EXPECT_EQ(config.blocks.logit_soft_cap, 30);
  EXPECT_EQ(config.blocks.embedding_multiplier, 8);
  EXPECT_EQ(config.layers[0].attention_scale, 1);
  EXPECT_TRUE(config.blocks.value_norm);
  EXPECT_FALSE(config.blocks.norms_add_one);
  EXPECT_TRUE(config.tied_embeddings);
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[0].ToString(), "default theta=1000000");
  EXPECT_EQ(config.ropes[1].ToString(), "default theta=10000");
  EXPECT_EQ(ParsedGemma3n(R"({"final_logit_softcapping":null})").blocks.logit_soft_cap, 0);
}

TEST(Gemma3nKeysTest, TheFirstTenOfManyLayersAreCut) {
  const ModelConfig config = ParsedGemma3n(R"({"num_hidden_layers":12})");
  EXPECT_THAT(CutsOf(config), ElementsAre(.95, .95, .95, .95, .95, .95, .95, .95, .95, .95, 0, 0));
  EXPECT_THAT(CutsOf(ParsedGemma3n(R"({"activation_sparsity_pattern":[0.5,0,0,0.95,0,0]})")),
              ElementsAre(0.5, 0, 0, 0.95, 0, 0));
}

TEST(Gemma3nKeysTest, WidthsAndSourcesAreOfLayers) {
  const ModelConfig config = ParsedGemma3n(R"({"intermediate_size":[32,96,64,32,96,96],"num_kv_shared_layers":1})");
  EXPECT_EQ(config.feed_forward_width, 96);
  std::vector<int64_t> widths, sources;
  for (const LayerConfig& layer : config.layers) {
    widths.push_back(FeedForwardWidth(config, layer));
    sources.push_back(layer.source_layer);
  }
  EXPECT_THAT(widths, ElementsAre(32, 96, 64, 32, 96, 96));
  EXPECT_THAT(sources, ElementsAre(-1, -1, -1, -1, -1, 3));
  EXPECT_EQ(config.page_groups[1].layer_count, 4);
}

// Of the normal distribution, by R's qnorm.
TEST(Gemma3nKeysTest, DeviationsAreQuantilesOfTheNormalDistribution) {
  EXPECT_NEAR(DeviationsBelow(0.95), 1.6448536269514722, 1e-14);
  EXPECT_NEAR(DeviationsBelow(0.5), 0, 1e-15);
  EXPECT_NEAR(DeviationsBelow(0.1), -1.2815515655446004, 1e-14);
  EXPECT_NEAR(DeviationsBelow(0.999), 3.090232306167813, 1e-13);
}

struct Gemma3nRefusal {
  const char* edits;
  const char* message;  // a part of it
};

constexpr Gemma3nRefusal kGemma3nRefusals[] = {
    {R"({"altup_num_inputs":1})", "\"altup_num_inputs\" is 1; it must lie in 2..16"},
    {R"({"altup_num_inputs":17})", "\"altup_num_inputs\" is 17; it must lie in 2..16"},
    {R"({"altup_active_idx":4})", "\"altup_active_idx\" is 4; it must lie in 0..3"},
    {R"({"laurel_rank":0})", "\"laurel_rank\" is 0; it must lie in 1..65536"},
    {R"({"intermediate_size":[96]})", "\"intermediate_size\" is [96]; it must have a number for each of the 6 layers"},
    {R"({"intermediate_size":[96,96,96,96,96,0]})", "\"intermediate_size\" has 0; it must have numbers in 1.."},
    {R"({"intermediate_size":[96,96,96,96,96,"a"]})", "\"intermediate_size\" has \"a\""},
    {R"({"intermediate_size":[]})", "\"intermediate_size\" is []"},
    {R"({"activation_sparsity_pattern":0.95})",
     "\"activation_sparsity_pattern\" is 0.95; it must have a number for each of the 6 layers"},
    {R"({"activation_sparsity_pattern":[0,0,0,0,0,1]})",
     "\"activation_sparsity_pattern\"[5] is 1; it must be at least 0 and less than 1"},
    {R"({"activation_sparsity_pattern":[0,-0.5,0,0,0,0]})", "\"activation_sparsity_pattern\"[1] is -0.5"},
    {R"({"num_kv_shared_layers":"-"})", "\"num_kv_shared_layers\" is missing, which means 15; it must lie in 0..5"},
    {R"({"num_kv_shared_layers":2})",
     "\"num_kv_shared_layers\" is 2; layer 4 reads the keys of an earlier layer with full attention"},
    {R"({"hidden_size_per_layer_input":0})", "\"hidden_size_per_layer_input\" is 0"},
    {R"({"hidden_size_per_layer_input":4000000})", "layers may have at most 4194304 numbers together"},
    {R"({"vocab_size_per_layer_input":0})", "\"vocab_size_per_layer_input\" is 0"},
    {R"({"final_logit_softcapping":-3})", "\"final_logit_softcapping\" is -3"},
    {R"({"attn_logit_softcapping":50.0})", "\"attn_logit_softcapping\" is 50.0; only null is supported"},
    {R"({"use_bidirectional_attention":true})", "\"use_bidirectional_attention\" is true"},
    {R"({"num_kv_shared_layers":1,"focal_attention":{"mode":"learned","tau_min":3.5,"tau_max":8.0}})",
     "\"focal_attention.mode\" is \"learned\"; it is not supported where layers read the keys of another"},
};

TEST(Gemma3nKeysTest, ErrorsNameKeyAndValue) {
  for (const Gemma3nRefusal& refusal : kGemma3nRefusals) {
    const auto config = ParseModelConfig(SmallGemma3n(refusal.edits).dump());
    ASSERT_FALSE(config.ok()) << refusal.edits;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(refusal.message)) << refusal.edits;
  }
}

// Ids from the first of images on have embeddings that are not read.
TEST(Gemma3nKeysTest, AllIdsOfImagesAndSoundsAreRefusedInPrompts) {
  Json json = {{"model_type", "gemma3n"}, {"text_config", SmallGemma3n()}};
  json["vision_config"] = {{"vocab_offset", 90}};
  json["audio_config"] = {{"vocab_offset", 95}};
  const auto config = ParseModelConfig(json.dump());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->image_token_ids, ElementsAre(90, 91, 92, 93, 94, 95, 96, 97, 98));
  json["vision_config"] = {{"hidden_size", 8}};
  json["audio_config"] = nullptr;
  EXPECT_THAT(ParseModelConfig(json.dump())->image_token_ids, testing::IsEmpty());
}

}  // namespace
}  // namespace varifocal

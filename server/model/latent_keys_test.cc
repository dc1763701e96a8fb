// Latent attention and DeepSeek's way of choosing experts: defaults of missing keys as in transformers, what is refused, and
// the order of a head's rows.
#include "server/model/latent_keys.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "server/model/config.h"
#include "server/model/latent_published.h"
#include "server/model/matrix_grid.h"

namespace varifocal {
namespace {

std::string ReadWith(const char* model_type, const char* edits) {
  Json json = *ParseJson(R"({"vocab_size":99,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":4,
      "num_attention_heads":4,"max_position_embeddings":512})");
  json["model_type"] = model_type;
  const absl::StatusOr<Json> changes = ParseJson(edits);
  EXPECT_TRUE(changes.ok()) << edits;
  json.update(*changes);
  const auto config = ParseModelConfig(json.dump());
  if (!config.ok()) return absl::StrCat("refused: ", config.status().message());
  std::string text = absl::StrCat("D", config->head_width, " scale=", config->layers[0].attention_scale);
  const MixtureConfig& mixture = config->mixture;
  absl::StrAppend(&text, " ", mixture.per_token, "/", mixture.expert_count, "x", mixture.width,
                  mixture.renormalised ? "r" : "", "+", mixture.shared_width, LatentSummary(*config), " |");
  for (const LayerConfig& layer : config->layers) text += layer.has_mixture ? " experts" : " plain";
  return text;
}

struct LatentMeaning {
  const char* model_type;
  const char* edits;
  const char* text;
};

constexpr LatentMeaning kLatentMeanings[] = {
    {"deepseek_v3", "{}",
     "D192 scale=0.0721688 8/256x2048r+2048 latent=1536/512 heads=128+64n/128 further=1 choicebias sigmoid "
     "groups=4/8by2 times=2.5 | plain plain plain experts"},
    {"deepseek_v3",
     R"({"q_lora_rank":null,"rope_interleave":false,"num_nextn_predict_layers":0,"n_group":1,"topk_group":1,
                        "routed_scaling_factor":1,"norm_topk_prob":false,"first_k_dense_replace":0})",
     "D192 scale=0.0721688 8/256x2048+2048 latent=0/512 heads=128+64/128 choicebias sigmoid | experts experts experts "
     "experts"},
    {"deepseek_v2", R"({"num_experts_per_tok":6})",
     "D192 scale=0.0721688 6/64x1407+2814 latent=1536/512 heads=128+64n/128 | experts experts experts experts"},
    {"deepseek_v2", R"({"num_experts_per_tok":6,"n_group":8,"topk_group":3})", "heads=128+64n/128 | experts"},
    {"deepseek_v2", R"({"num_experts_per_tok":6,"n_group":8,"topk_group":3,"topk_method":"group_limited_greedy"})",
     "groups=3/8by1 | experts"},
    // Values wider than keys: both have their width.
    {"deepseek_v2", R"({"num_experts_per_tok":6,"v_head_dim":256,"first_k_dense_replace":9})",
     "D256 scale=0.0721688 6/64x1407+2814 latent=1536/512 heads=128+64n/256 | plain plain plain plain"},
    {"minicpm3", "{}", "D96 scale=0.102062 0/0x0+0 latent=768/256 heads=64+32/16 | plain"},
    {"deepseek_v3", R"({"rope_scaling":{"type":"yarn","factor":40,"mscale":1,"mscale_all_dim":0.5,
                        "original_max_position_embeddings":64}})",
     "D192 scale=0.1012"},
};

TEST(LatentKeysTest, MissingKeysHaveTheirDefaults) {
  for (const LatentMeaning& m : kLatentMeanings)
    EXPECT_THAT(ReadWith(m.model_type, m.edits), testing::HasSubstr(m.text)) << m.model_type << " " << m.edits;
}

constexpr LatentMeaning kLatentRefusals[] = {
    {"deepseek_v3", R"({"scoring_func":"softmax"})", "\"scoring_func\" is \"softmax\"; only \"sigmoid\""},
    {"deepseek_v3", R"({"topk_method":"greedy"})", "\"topk_method\" is \"greedy\"; only \"noaux_tc\""},
    {"deepseek_v3", R"({"moe_layer_freq":2})", "\"moe_layer_freq\" is 2; only 1"},
    {"deepseek_v3", R"({"num_key_value_heads":2})", "is 2, but by \"num_attention_heads\" it is 4"},
    {"deepseek_v3", R"({"head_dim":192})", "\"head_dim\" is 192, but by \"qk_rope_head_dim\" it is 64"},
    {"deepseek_v3", R"({"qk_head_dim":64})", "\"qk_head_dim\" is 64, but by"},
    {"deepseek_v3", R"({"qk_rope_head_dim":7})", "\"qk_rope_head_dim\" is 7; it must be even"},
    {"deepseek_v3", R"({"qk_nope_head_dim":0})", "\"qk_nope_head_dim\" is 0"},
    {"deepseek_v3", R"({"kv_lora_rank":0})", "\"kv_lora_rank\" is 0"},
    {"deepseek_v3", R"({"n_group":3})", "\"n_group\" is 3; the 256 experts must be that many groups"},
    {"deepseek_v3", R"({"n_group":256})",
     "\"n_group\" is 256; the 256 experts must be that many groups of one size, of 2"},
    {"deepseek_v3", R"({"topk_group":9})", "\"topk_group\" is 9 of 8 groups of 32 experts"},
    {"deepseek_v3", R"({"n_group":128,"topk_group":3})", "it must leave a row its 8 experts"},
    {"deepseek_v3", R"({"n_shared_experts":0})", "\"n_shared_experts\" is 0"},
    {"deepseek_v3", R"({"routed_scaling_factor":-1})", "\"routed_scaling_factor\" is -1"},
    {"deepseek_v3", R"({"first_k_dense_replace":-1})", "\"first_k_dense_replace\" is -1"},
    {"deepseek_v3", R"({"num_nextn_predict_layers":-1})", "\"num_nextn_predict_layers\" is -1"},
    {"deepseek_v3", R"({"num_experts_per_tok":300})", "\"num_experts_per_tok\" is 300; the model has 256"},
    {"deepseek_v3", R"({"sliding_window":64})", "\"sliding_window\""},
    {"deepseek_v2", R"({"num_experts_per_tok":6,"topk_method":"noaux_tc"})",
     "\"topk_method\" is \"noaux_tc\"; supported"},
    {"deepseek_v2", R"({"num_experts_per_tok":6,"norm_topk_prob":true})", "\"norm_topk_prob\" is true; only false"},
    {"deepseek_v2", R"({"num_experts_per_tok":6,"rope_interleave":true})", "\"rope_interleave\""},
    {"minicpm3", R"({"scale_depth":0})", "\"scale_depth\" is 0"},
    {"minicpm3", R"({"mlp_bias":true})", "\"mlp_bias\" is true; only false"},
};

TEST(LatentKeysTest, WhatChangesTheFunctionIsRefusedByName) {
  for (const LatentMeaning& m : kLatentRefusals) {
    const std::string text = ReadWith(m.model_type, m.edits);
    EXPECT_THAT(text, testing::StartsWith("refused: ")) << m.model_type << " " << m.edits;
    EXPECT_THAT(text, testing::HasSubstr(m.text)) << m.model_type << " " << m.edits;
  }
}

TEST(MatrixGridTest, PiecesOnesAndZeros) {
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  const kernels::HostMatrix whole{.data = numbers, .rows = 2, .columns = 3};
  kernels::HostMatrix last = whole;  // its last column
  last.data = whole.At(0, 2);
  last.row_stride = 3;
  last.columns = 1;
  const MatrixGrid grid{.rows = 3,
                        .columns = 4,
                        .pieces = {{whole, 1, 0}, {last, 0, 3}, {kernels::HostMatrix{.rows = 1, .columns = 1}, 0, 1}}};
  EXPECT_EQ(grid.Values(), (std::vector<float>{0, 1, 0, 3, 1, 2, 3, 6, 4, 5, 6, 0}));
}

}  // namespace
}  // namespace varifocal

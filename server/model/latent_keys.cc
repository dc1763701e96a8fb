#include "server/model/latent_keys.h"

#include <cmath>

#include "base/status_macros.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kLatentRankMax = 1 << 20;
constexpr int64_t kHeadPartMax = 1024;
constexpr int64_t kFurtherLayersMax = 64;

// What every latent attention has beside its sizes.
absl::Status ReadLatentBlocks(ConfigReader& reader, ModelConfig& config) {
  // Of the products by which latents are computed, and of the output.
  ASSIGN_OR_RETURN(config.blocks.query_key_value_bias, reader.Bool("attention_bias", false));
  config.blocks.attention_output_bias = config.blocks.query_key_value_bias;
  RETURN_IF_ERROR(reader.RequireSame("num_key_value_heads", config.head_count, "num_attention_heads"));
  const double scale = 1 / std::sqrt(config.latent.key_width());
  for (LayerConfig& layer : config.layers) layer.attention_scale = scale * config.ropes[0].score_factor;
  reader.Ignore({"pretraining_tp"});
  return absl::OkStatus();
}

// Of DeepSeek's experts. transformers reads none of these; published files state what it computes.
absl::Status ReadDeepseekExperts(ConfigReader& reader, ModelConfig& config, const char* score) {
  config.mixture.shared_gate = false;
  RETURN_IF_ERROR(reader.RequireValue("scoring_func", score));
  RETURN_IF_ERROR(reader.RequireValue("moe_layer_freq", 1));
  // Of training and of sharing work among devices.
  reader.Ignore({"aux_loss_alpha", "ep_size", "seq_aux"});
  return ReadLatentBlocks(reader, config);
}

}  // namespace

absl::Status ReadLatent(ConfigReader& reader, const LatentKeys& keys, ModelConfig& config) {
  if (keys.rank_default == 0) return absl::OkStatus();
  LatentConfig& latent = config.latent;
  ASSIGN_OR_RETURN(latent.rank, reader.Int("kv_lora_rank", {1, kLatentRankMax}, keys.rank_default));
  // Null, not missing: queries have no latent.
  if (!reader.IsPresent("q_lora_rank") || reader.Has("q_lora_rank")) {
    ASSIGN_OR_RETURN(latent.query_rank, reader.Int("q_lora_rank", {1, kLatentRankMax}, keys.query_rank_default));
  } else {
    reader.Ignore({"q_lora_rank"});
  }
  ASSIGN_OR_RETURN(latent.rotated_width, reader.Int("qk_rope_head_dim", {2, kHeadPartMax}, keys.rotated_default));
  ASSIGN_OR_RETURN(latent.unrotated_width, reader.Int("qk_nope_head_dim", {1, kHeadPartMax}, keys.unrotated_default));
  const int64_t values = keys.value_default != 0 ? keys.value_default : config.width / config.head_count;
  ASSIGN_OR_RETURN(latent.value_width, reader.Int("v_head_dim", {1, kHeadPartMax}, values));
  if (latent.rotated_width % 2 != 0)
    return InvalidArgument(reader.Name("qk_rope_head_dim"), " is ", latent.rotated_width, "; it must be even");
  latent.neighbours = keys.neighbours;
  if (keys.neighbours_by_key) {
    ASSIGN_OR_RETURN(latent.neighbours, reader.Bool("rope_interleave", keys.neighbours));
  }
  // Written by transformers, which computes both.
  RETURN_IF_ERROR(reader.RequireSame("qk_head_dim", latent.key_width(), "qk_nope_head_dim and qk_rope_head_dim"));
  return reader.RequireSame("head_dim", latent.rotated_width, "qk_rope_head_dim");
}

absl::Status ReadDeepseekV3(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("topk_method", "noaux_tc"));
  // Their tensors are those of layers after the last one.
  ASSIGN_OR_RETURN(config.further_layers, reader.Int("num_nextn_predict_layers", {0, kFurtherLayersMax}, 1));
  return ReadDeepseekExperts(reader, config, "sigmoid");
}

absl::Status ReadDeepseekV2(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  ASSIGN_OR_RETURN(const std::string method, reader.String("topk_method", "greedy"));
  if (method == "greedy") {
    config.mixture.routing.group_count = config.mixture.routing.groups_kept = 1;  // whatever the keys say
  } else if (method != "group_limited_greedy") {
    return Unimplemented(reader.Name("topk_method"), " is \"", method,
                         "\"; supported are greedy and group_limited_greedy");
  }
  return ReadDeepseekExperts(reader, config, "softmax");
}

absl::Status ReadMiniCpm3(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  BlockConfig& blocks = config.blocks;
  ASSIGN_OR_RETURN(blocks.embedding_multiplier, reader.Positive("scale_emb", 12));
  // Null, not missing, means no scaling, of both.
  const double depth_root = std::sqrt(config.layer_count);
  const auto or_null = [&](const char* key, double missing, double null) {
    return reader.Positive(key, reader.IsPresent(key) ? null : missing);
  };
  ASSIGN_OR_RETURN(const double depth, or_null("scale_depth", 1.4, depth_root));
  blocks.residual_multiplier = depth / depth_root;
  ASSIGN_OR_RETURN(const double base, or_null("dim_model_base", 256, static_cast<double>(config.width)));
  blocks.logit_multiplier = base / config.width;
  return ReadLatentBlocks(reader, config);
}

}  // namespace varifocal

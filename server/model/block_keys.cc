#include "server/model/block_keys.h"

#include <cmath>

#include "base/status_macros.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kFeedForwardMax = 1 << 20;
constexpr int64_t kFeedForwardMultipleMax = 1 << 16;

absl::Status ReadAttentionBias(ConfigReader& reader, bool missing, BlockConfig& blocks) {
  ASSIGN_OR_RETURN(blocks.query_key_value_bias, reader.Bool("attention_bias", missing));
  blocks.attention_output_bias = blocks.query_key_value_bias;
  return absl::OkStatus();
}

void SetAttentionScale(double scale, ModelConfig& config) {
  for (LayerConfig& layer : config.layers) layer.attention_scale = scale;
}

// Of types whose recurrent layers have it as well, or that read no activation.
absl::Status RequireSilu(const ConfigReader& reader, const ModelConfig& config) {
  if (config.blocks.activation == kernels::Activation::kSilu) return absl::OkStatus();
  return Unimplemented(reader.Name("hidden_act"), " is not \"silu\", which the layers of a ", config.model_type,
                       " need");
}

// A list of `count` positive numbers; ones where the key is missing.
absl::StatusOr<std::vector<double>> ReadMultipliers(ConfigReader& reader, const char* key, size_t count) {
  const Json* list = reader.Take(key);
  if (list == nullptr) return std::vector<double>(count, 1.0);
  std::vector<double> numbers;
  for (const Json& item : list->is_array() ? *list : Json::array()) {
    if (item.is_number() && item > kNumberMin && item < kNumberMax) numbers.push_back(item.get<double>());
  }
  if (numbers.size() == count && list->size() == count) return numbers;
  return InvalidArgument(reader.Name(key), " is ", ShownValue(*list), "; it must be a list of ", count,
                         " positive numbers");
}

// Null: no cap; the default is of a missing key.
absl::StatusOr<double> PositiveOrNone(ConfigReader& reader, const char* key, double missing) {
  if (reader.IsPresent(key) && !reader.Has(key)) return 0.0;
  return reader.Positive(key, missing);
}

}  // namespace

absl::Status ReadLlama(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, false, config.blocks));
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  RETURN_IF_ERROR(reader.RequireValue("rope_interleaved", false));
  // Tensor-parallel arithmetic of the original training run: the same function.
  reader.Ignore({"pretraining_tp", "is_llama_config"});
  // Early conversions repeat max_position_embeddings under this name.
  return reader.RequireValue("max_sequence_length", config.max_position);
}

absl::Status ReadNoBiases(ConfigReader& reader, ModelConfig&) {
  RETURN_IF_ERROR(reader.RequireValue("attention_bias", false));
  return reader.RequireValue("mlp_bias", false);
}

absl::Status ReadQwen2(ConfigReader& reader, ModelConfig&) {
  RETURN_IF_ERROR(reader.RequireValue("attention_bias", true));
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  return reader.RequireValue("use_mrope", false);
}

absl::Status ReadQwen3(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadGemma3(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, false, config.blocks));
  RETURN_IF_ERROR(reader.RequireValue("use_bidirectional_attention", false));
  ASSIGN_OR_RETURN(const double scalar, reader.Positive("query_pre_attn_scalar", 256));
  SetAttentionScale(1 / std::sqrt(scalar), config);
  config.blocks.embedding_multiplier = std::sqrt(config.width);
  return absl::OkStatus();
}

absl::Status ReadGemma2(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.score_soft_cap, PositiveOrNone(reader, "attn_logit_softcapping", 50));
  ASSIGN_OR_RETURN(config.blocks.logit_soft_cap, PositiveOrNone(reader, "final_logit_softcapping", 30));
  // Repeated by published files; transformers reads neither.
  reader.Ignore({"hidden_act", "sliding_window_size"});
  return ReadGemma3(reader, config);
}

absl::Status ReadOlmo2(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("clip_qkv", nullptr));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadSeedOss(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_bias, reader.Bool("attention_bias", true));
  ASSIGN_OR_RETURN(config.blocks.attention_output_bias, reader.Bool("attention_out_bias", false));
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  reader.Ignore({"pretraining_tp", "residual_dropout"});
  return absl::OkStatus();
}

absl::Status ReadStarcoder2(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("use_bias", true));
  config.blocks.query_key_value_bias = config.blocks.attention_output_bias = config.blocks.mlp_bias;
  RETURN_IF_ERROR(reader.RequireValue("norm_type", "layer_norm"));
  RETURN_IF_ERROR(reader.RequireValue("mlp_type", "default"));
  RETURN_IF_ERROR(reader.RequireValue("scale_attn_weights", true));
  reader.Ignore({"residual_dropout", "embedding_dropout", "attention_softmax_in_fp32",
                 "scale_attention_softmax_in_fp32", "activation_function"});
  return absl::OkStatus();
}

absl::Status ReadNemotron(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadStableLm(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_bias, reader.Bool("use_qkv_bias", false));
  ASSIGN_OR_RETURN(config.blocks.parallel_residual, reader.Bool("use_parallel_residual", false));
  config.blocks.one_norm = config.blocks.parallel_residual;
  return reader.RequireValue("qk_layernorm", false);
}

absl::Status ReadErnie45(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("use_bias", false));
  config.blocks.query_key_value_bias = config.blocks.attention_output_bias = config.blocks.mlp_bias;
  return reader.RequireValue("compression_ratio", 1.0);
}

absl::Status ReadGlm4(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_bias, reader.Bool("attention_bias", true));
  return absl::OkStatus();
}

absl::Status ReadCohere2(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, false, config.blocks));
  ASSIGN_OR_RETURN(config.blocks.logit_multiplier, reader.Positive("logit_scale", 0.0625));
  // transformers reads none of these; published files state what it computes.
  RETURN_IF_ERROR(reader.RequireValue("head_dim", config.head_width));
  RETURN_IF_ERROR(reader.RequireValue("use_qk_norm", false));
  RETURN_IF_ERROR(reader.RequireValue("position_embedding_type", "rope_gptj"));
  RETURN_IF_ERROR(reader.RequireValue("rotary_pct", 1.0));
  for (const char* key : {"use_gated_activation", "use_parallel_block"})
    RETURN_IF_ERROR(reader.RequireValue(key, true));
  reader.Ignore({"layer_switch", "order_of_interleaved_layers", "use_embedding_sharing", "use_parallel_embedding"});
  return absl::OkStatus();
}

absl::Status ReadQwen2Moe(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_bias, reader.Bool("qkv_bias", true));
  return ReadNoBiases(reader, config);
}

// Whatever transformers does not read may only state what it computes.
absl::Status ReadQwen3Next(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadNoBiases(reader, config));
  RETURN_IF_ERROR(reader.RequireValue("attn_output_gate", true));
  RETURN_IF_ERROR(reader.RequireValue("use_sliding_window", false));
  RETURN_IF_ERROR(reader.RequireValue("mamba_ssm_dtype", "float32"));
  RETURN_IF_ERROR(RequireSilu(reader, config));
  // Of predicting further tokens, whose tensors are not read; of the type that the dense one was derived from.
  reader.Ignore({"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mlp_only_layers"});
  return absl::OkStatus();
}

absl::Status ReadLfm2(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadNoBiases(reader, config));
  RETURN_IF_ERROR(RequireSilu(reader, config));
  if (reader.Has("tie_embedding")) {  // an older name, which takes precedence
    ASSIGN_OR_RETURN(config.tied_embeddings, reader.Bool("tie_embedding", false));
  }
  ASSIGN_OR_RETURN(const bool adjusted, reader.Bool("block_auto_adjust_ff_dim", true));
  ASSIGN_OR_RETURN(const int64_t multiple, reader.Int("block_multiple_of", {1, kFeedForwardMultipleMax}, 256));
  ASSIGN_OR_RETURN(const double factor, reader.Positive("block_ffn_dim_multiplier", 1));
  if (adjusted) {
    const int64_t two_thirds = static_cast<int64_t>(2.0 * config.feed_forward_width / 3);
    const double width = factor * two_thirds;
    if (!(width >= 1 && width <= kFeedForwardMax)) {
      return InvalidArgument(reader.Name("block_ffn_dim_multiplier"), " is ", ShortNumber(factor),
                             ", and two thirds of ",
                             reader.Name(reader.Has("block_ff_dim") ? "block_ff_dim" : "intermediate_size"), ", ",
                             two_thirds, ", times it are not in 1..", kFeedForwardMax);
    }
    config.feed_forward_width = (static_cast<int64_t>(width) + multiple - 1) / multiple * multiple;
  }
  // transformers reads none of these; published files state what it computes.
  for (const char* key : {"block_dim", "conv_dim", "conv_dim_out"})
    RETURN_IF_ERROR(reader.RequireValue(key, config.width));
  RETURN_IF_ERROR(reader.RequireValue("num_heads", config.head_count));
  RETURN_IF_ERROR(reader.RequireValue("block_norm_eps", config.blocks.norm_epsilon));
  if (!config.ropes.empty()) RETURN_IF_ERROR(reader.RequireValue("theta", config.ropes[0].theta));
  for (const char* key : {"block_use_swiglu", "use_pos_enc"}) RETURN_IF_ERROR(reader.RequireValue(key, true));
  reader.Ignore(
      {"block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init", "theta"});
  return absl::OkStatus();
}

absl::Status ReadGraniteHybrid(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  if (config.recurrence.kind != kernels::RecurrenceKind::kNone) RETURN_IF_ERROR(RequireSilu(reader, config));
  config.mixture.shared_gate = config.mixture.shared_width == 0;
  RETURN_IF_ERROR(reader.RequireValue("normalization_function", "rmsnorm"));
  // Another order of the same sums; of training.
  reader.Ignore({"mamba_chunk_size", "init_method"});
  return ReadGranite(reader, config);
}

// Biases would need multipliers of their own.
absl::Status ReadFalconH1(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadNoBiases(reader, config));
  for (const char* key : {"projectors_bias", "mamba_proj_bias"}) RETURN_IF_ERROR(reader.RequireValue(key, false));
  RETURN_IF_ERROR(RequireSilu(reader, config));
  BlockConfig& blocks = config.blocks;
  ASSIGN_OR_RETURN(blocks.embedding_multiplier, reader.Positive("embedding_multiplier", 1));
  ASSIGN_OR_RETURN(blocks.logit_multiplier, reader.Positive("lm_head_multiplier", 1));
  // Of what attention reads: scores have it twice, values once.
  ASSIGN_OR_RETURN(const double attention_in, reader.Positive("attention_in_multiplier", 1));
  ASSIGN_OR_RETURN(const double attention_out, reader.Positive("attention_out_multiplier", 1));
  ASSIGN_OR_RETURN(const double key, reader.Positive("key_multiplier", 1));
  SetAttentionScale(attention_in * attention_in * key / std::sqrt(config.head_width), config);
  blocks.attention_output_multiplier = attention_in * attention_out;
  ASSIGN_OR_RETURN(blocks.recurrence_output_multiplier, reader.Positive("ssm_out_multiplier", 1));
  ASSIGN_OR_RETURN(const double space_in, reader.Positive("ssm_in_multiplier", 1));
  ASSIGN_OR_RETURN(const std::vector<double> space, ReadMultipliers(reader, "ssm_multipliers", 5));
  blocks.state_space = {.z = space_in * space[0],
                        .u = space_in * space[1],
                        .b = space_in * space[2],
                        .c = space_in * space[3],
                        .step = space_in * space[4]};
  // silu(m x) is m times the sloped one.
  ASSIGN_OR_RETURN(const std::vector<double> mlp, ReadMultipliers(reader, "mlp_multipliers", 2));
  if (mlp[0] != 1) {
    blocks.activation = kernels::Activation::kSlopedSilu;
    blocks.activation_terms.a = static_cast<float>(mlp[0]);
  }
  blocks.mlp_output_multiplier = mlp[0] * mlp[1];
  RETURN_IF_ERROR(reader.RequireValue("mamba_use_mlp", true));
  RETURN_IF_ERROR(reader.RequireValue("attn_layer_indices", nullptr));
  reader.Ignore({"mamba_chunk_size", "mlp_expansion_factor", "num_logits_to_keep"});
  return absl::OkStatus();
}

absl::Status ReadBamba(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, false, config.blocks));
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  RETURN_IF_ERROR(RequireSilu(reader, config));
  // transformers takes a half whatever the value of this key; published files state the dimensions.
  RETURN_IF_ERROR(reader.RequireValue("partial_rotary_factor", 0.5));
  for (const RopeConfig& rope : config.ropes)
    RETURN_IF_ERROR(reader.RequireSame("attn_rotary_emb", rope.RotarySpan(config.head_width), "rope_parameters"));
  reader.Ignore({"mamba_chunk_size", "num_logits_to_keep", "z_loss_coefficient"});
  return absl::OkStatus();
}

// Predicting further tokens is of layers that are not supported.
absl::Status ReadNemotronH(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("attention_bias", false));
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  config.mixture.shared_gate = config.mixture.shared_width == 0;
  if (config.mixture.expert_count > 0) {
    // Shared experts would have biases, and experts another width than the model.
    RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
    RETURN_IF_ERROR(reader.RequireValue("moe_latent_size", nullptr));
  }
  RETURN_IF_ERROR(reader.RequireValue("mamba_hidden_act", "silu"));
  RETURN_IF_ERROR(reader.RequireValue("num_nextn_predict_layers", 0));
  RETURN_IF_ERROR(reader.RequireValue("sliding_window", nullptr));
  RETURN_IF_ERROR(reader.RequireValue("mamba_ssm_cache_dtype", "float32"));
  RETURN_IF_ERROR(reader.RequireValue("tie_word_embeddings", false));  // transformers has the key, but ties nothing
  // transformers does not read these, which published files state.
  RETURN_IF_ERROR(reader.RequireSame("attention_head_dim", config.head_width, "head_dim"));
  RETURN_IF_ERROR(reader.RequireSame("num_query_groups", config.kv_head_count, "num_key_value_heads"));
  for (const char* key : {"norm_eps", "rms_norm_eps"})
    RETURN_IF_ERROR(reader.RequireSame(key, config.blocks.norm_epsilon, "layer_norm_epsilon"));
  reader.Ignore({"chunk_size", "expand", "mamba_proj_bias", "moe_latent_size", "moe_shared_expert_overlap",
                 "mtp_layers_block_type", "mtp_hybrid_override_pattern", "n_shared_experts", "num_logits_to_keep",
                 "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor", "time_step_max", "time_step_rank",
                 "use_mamba_kernels"});
  return absl::OkStatus();
}

absl::Status ReadOlmoe(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_clip, PositiveOrNone(reader, "clip_qkv", 0));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadGptOss(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, true, config.blocks));
  RETURN_IF_ERROR(reader.RequireValue("hidden_act", "silu"));
  ASSIGN_OR_RETURN(const double alpha, reader.Positive("swiglu_alpha", 1.702));
  ASSIGN_OR_RETURN(const double limit, reader.Positive("swiglu_limit", 7));
  config.blocks.activation_terms = {.a = static_cast<float>(alpha), .b = static_cast<float>(limit)};
  // Of the original program; published files repeat them.
  RETURN_IF_ERROR(reader.RequireValue("experts_per_token", config.mixture.per_token));
  reader.Ignore({"initial_context_length"});
  return absl::OkStatus();
}

absl::Status ReadPhi(ConfigReader& reader, ModelConfig&) { return reader.RequireValue("qk_layernorm", false); }

absl::Status ReadApertus(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  // transformers reads neither; published files state what it computes.
  RETURN_IF_ERROR(reader.RequireValue("post_norm", false));
  RETURN_IF_ERROR(reader.RequireValue("qk_norm", true));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadHunYuan(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  // transformers reads none of these; published files state what it computes.
  for (const char* key : {"use_qk_norm", "use_rotary_pos_emb"}) RETURN_IF_ERROR(reader.RequireValue(key, true));
  for (const char* key : {"use_cla", "add_classification_head"}) RETURN_IF_ERROR(reader.RequireValue(key, false));
  RETURN_IF_ERROR(reader.RequireValue("norm_type", "rms"));
  RETURN_IF_ERROR(reader.RequireValue("attention_head_dim", config.head_width));
  reader.Ignore({"pretraining_tp", "cla_share_factor", "class_num", "dense_list", "eod_token_id", "im_start_id",
                 "im_end_id", "im_newline_id", "mask_init_id", "max_sequence_length", "org_vocab_size", "pad_id",
                 "pool_type", "text_start_id", "text_end_id", "video_start_id", "video_end_id"});
  for (const RopeConfig& rope : config.ropes) {
    if (rope.attention_factor == 1) continue;
    return Unimplemented("the RoPE parameters have an attention factor of ", ShortNumber(rope.attention_factor),
                         "; heads of a ", config.model_type, " are normed after the rotation, and only 1 is supported");
  }
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadGpt2(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool scaled, reader.Bool("scale_attn_weights", true));
  ASSIGN_OR_RETURN(const bool by_layer, reader.Bool("scale_attn_by_inverse_layer_idx", false));
  const double scale = scaled ? 1 / std::sqrt(config.head_width) : 1;
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].attention_scale = by_layer ? scale / (i + 1) : scale;
  // Another order of the same arithmetic; max_position_embeddings again; options of task heads that are not loaded.
  reader.Ignore({"reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj", "summary_activation",
                 "summary_proj_to_labels", "summary_first_dropout", "n_special", "predict_special_tokens"});
  return absl::OkStatus();
}

absl::Status ReadGptNeox(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.parallel_residual, reader.Bool("use_parallel_residual", true));
  return ReadAttentionBias(reader, true, config.blocks);
}

absl::Status ReadPhi3(ConfigReader& reader, ModelConfig&) {
  RETURN_IF_ERROR(reader.RequireValue("attention_bias", false));
  RETURN_IF_ERROR(reader.RequireValue("mlp_bias", false));
  RETURN_IF_ERROR(reader.RequireValue("lm_head_bias", false));
  RETURN_IF_ERROR(reader.RequireValue("full_attn_mod", 1));
  return reader.RequireValue("interpolate_factor", 1);
}

absl::Status ReadGranite(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(reader, false, config.blocks));
  ASSIGN_OR_RETURN(config.blocks.mlp_bias, reader.Bool("mlp_bias", false));
  ASSIGN_OR_RETURN(config.blocks.embedding_multiplier, reader.Positive("embedding_multiplier", 1));
  ASSIGN_OR_RETURN(config.blocks.residual_multiplier, reader.Positive("residual_multiplier", 1));
  ASSIGN_OR_RETURN(const double attention, reader.Positive("attention_multiplier", 1));
  SetAttentionScale(attention, config);
  ASSIGN_OR_RETURN(const double divisor, reader.Positive("logits_scaling", 1));
  config.blocks.logit_multiplier = 1 / divisor;
  return absl::OkStatus();
}

}  // namespace varifocal

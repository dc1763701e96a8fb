#include "server/model/architectures.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/model/layer_windows.h"

namespace varifocal {
namespace {

absl::Status ReadAttentionBias(ConfigReader& reader, bool missing, BlockConfig& blocks) {
  ASSIGN_OR_RETURN(blocks.query_key_value_bias, reader.Bool("attention_bias", missing));
  blocks.attention_output_bias = blocks.query_key_value_bias;
  return absl::OkStatus();
}

void SetAttentionScale(double scale, ModelConfig& config) {
  for (LayerConfig& layer : config.layers) layer.attention_scale = scale;
}

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

// Null: no cap; the default is of a missing key.
absl::StatusOr<double> PositiveOrNone(ConfigReader& reader, const char* key, double missing) {
  if (reader.IsPresent(key) && !reader.Has(key)) return 0.0;
  return reader.Positive(key, missing);
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
  for (const char* key : {"use_gated_activation", "use_parallel_block"}) {
    RETURN_IF_ERROR(reader.RequireValue(key, true));
  }
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
  if (config.blocks.activation != kernels::Activation::kSilu) {
    return absl::UnimplementedError(absl::StrCat(
        reader.Name("hidden_act"), " is not \"silu\", which the convolutions of a ", config.model_type, " need"));
  }
  // Of predicting further tokens, whose tensors are not read; of the type that the dense one was derived from.
  reader.Ignore({"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mlp_only_layers"});
  return absl::OkStatus();
}

constexpr RecurrenceKeys kGatedDelta = {
    .kind = kernels::RecurrenceKind::kDeltaRule, .conv_width = "linear_conv_kernel_dim", .conv_width_default = 4};

absl::Status ReadOlmoe(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.blocks.query_key_value_clip, PositiveOrNone(reader, "clip_qkv", 0));
  return ReadAttentionBias(reader, false, config.blocks);
}

absl::Status ReadGpt2(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool scaled, reader.Bool("scale_attn_weights", true));
  ASSIGN_OR_RETURN(const bool by_layer, reader.Bool("scale_attn_by_inverse_layer_idx", false));
  const double scale = scaled ? 1 / std::sqrt(config.head_width) : 1;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    config.layers[i].attention_scale = by_layer ? scale / (i + 1) : scale;
  }
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

constexpr Architecture kArchitectures[] = {
    {.model_type = "llama", .class_name = "LlamaForCausalLM", .read_layers = ReadNoWindows, .read_config = ReadLlama},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .keys = {.kv_head_default = 8},
     .read_layers = ReadWindowOrDefault,
     .read_config = ReadNoBiases},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .keys = {.kv_head_default = 32},
     .blocks = {.query_key_value_bias = true},
     .read_layers = ReadUsedWindows,
     .read_config = ReadQwen2},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .keys = {.kv_head_default = 32, .head_width_default = 128},
     .names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
     .read_layers = ReadUsedWindows,
     .read_config = ReadQwen3},
    {.model_type = "qwen2_5_vl_text",
     .class_name = "Qwen2_5_VLTextModel",
     .keys = {.kv_head_default = 8, .norm_epsilon_default = 1e-5},
     .rope = {.theta_default = 1e6, .mrope_is_default = true},
     .blocks = {.query_key_value_bias = true},
     .read_layers = ReadUsedWindowsFrom80,
     .read_config = ReadQwen2},
    {.model_type = "qwen3_vl_text",
     .class_name = "Qwen3VLTextModel",
     .keys = {.kv_head_default = 32, .head_width_default = 128},
     .rope = {.theta_default = 500000, .mrope_is_default = true},
     .names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
     .read_layers = ReadNoWindows,
     .read_config = ReadQwen3},
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .keys = {.kv_head_default = 4},
     .names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
     .mixture = {.expert_count = "num_experts",
                 .expert_count_too = "num_local_experts",
                 .expert_count_default = 128,
                 .per_token_default = 8,
                 .width = "moe_intermediate_size",
                 .width_default = 768,
                 .chooses_layers = true},
     .read_layers = ReadUsedWindowEverywhere,
     .read_config = ReadQwen3},
    {.model_type = "olmoe",
     .class_name = "OlmoeForCausalLM",
     .keys = {.head_width = nullptr, .norm_epsilon_default = 1e-5},
     .names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
     .mixture = {.expert_count = "num_experts",
                 .expert_count_too = "num_local_experts",
                 .expert_count_default = 64,
                 .per_token_default = 8},
     .blocks = {.head_norm_over_width = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadOlmoe},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .keys = {.kv_head_default = 8, .norm_epsilon_default = 1e-5},
     .rope = {.theta_default = 1e6},
     .names = {.mixture = {.router = "block_sparse_moe.gate",
                           .gate = "block_sparse_moe.experts.{}.w1",
                           .up = "block_sparse_moe.experts.{}.w3",
                           .down = "block_sparse_moe.experts.{}.w2"}},
     .mixture = {.expert_count = "num_local_experts",
                 .expert_count_too = "num_experts",
                 .expert_count_default = 8,
                 .per_token_default = 2,
                 .always_renormalised = true},
     .read_layers = ReadWindow,
     .read_config = ReadNoBiases},
    {.model_type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .keys = {.kv_head_default = 16},
     .mixture = {.expert_count = "num_experts",
                 .expert_count_default = 60,
                 .per_token_default = 4,
                 .width = "moe_intermediate_size",
                 .width_default = 1408,
                 .shared_width = "shared_expert_intermediate_size",
                 .shared_width_default = 5632,
                 .chooses_layers = true},
     .read_layers = ReadUsedWindowsByType,
     .read_config = ReadQwen2Moe},
    {.model_type = "qwen3_next",
     .class_name = "Qwen3NextForCausalLM",
     .keys = {.kv_head_default = 2, .head_width_default = 256},
     .rope = {.partial_default = 0.25, .partial_allowed = true},
     .names = {.skipped_prefix = "mtp.",
               .query_norm = "self_attn.q_norm",
               .key_norm = "self_attn.k_norm",
               .recurrence = {.inputs_by_key_head = {"linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"}}},
     .mixture = {.expert_count = "num_experts",
                 .expert_count_default = 512,
                 .per_token_default = 10,
                 .width = "moe_intermediate_size",
                 .width_default = 512,
                 .shared_width = "shared_expert_intermediate_size",
                 .shared_width_default = 512,
                 .chooses_layers = true,
                 .renormalised_default = true},
     .recurrence = kGatedDelta,
     .blocks = {.norms_add_one = true, .attention_gate = true},
     .read_layers = ReadRecurrentButFourth,
     .read_config = ReadQwen3Next},
    {.model_type = "qwen3_5_text",
     .class_name = "Qwen3_5ForCausalLM",
     .keys = {.kv_head_default = 4, .head_width_default = 256},
     .rope = {.partial_default = 0.25, .partial_allowed = true, .mrope_is_default = true},
     .names = {.skipped_prefix = "mtp.", .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
     .recurrence = kGatedDelta,
     .blocks = {.norms_add_one = true, .attention_gate = true},
     .read_layers = ReadRecurrentButFourth,
     .read_config = ReadQwen3Next},
    {.model_type = "granitemoe",
     .class_name = "GraniteMoeForCausalLM",
     .names = {.mixture = {.gate = nullptr,
                           .stacked_router = "block_sparse_moe.router.layer",
                           .stacked_gate_up = "block_sparse_moe.input_linear.weight",
                           .stacked_down = "block_sparse_moe.output_linear.weight"}},
     .mixture = {.expert_count = "num_local_experts",
                 .expert_count_default = 8,
                 .per_token_default = 2,
                 .always_renormalised = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadGranite},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .keys = {.kv_head_default = 4,
              .head_width_default = 256,
              .activation = "hidden_activation",
              .activation_default = "gelu_pytorch_tanh",
              .tied_default = true,
              .soft_caps = true},
     .names = {.attention_post_norm = "post_attention_layernorm",
               .mlp_norm = "pre_feedforward_layernorm",
               .mlp_post_norm = "post_feedforward_layernorm"},
     .blocks = {.norms_add_one = true},
     .read_layers = ReadWindowsButSecond,
     .read_config = ReadGemma2},
    {.model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .keys = {.kv_head_default = 4,
              .head_width_default = 256,
              .activation = "hidden_activation",
              .activation_default = "gelu_pytorch_tanh",
              .tied_default = true},
     .positions = PositionKind::kRopePerLayerType,
     .rope = {.theta_default = 1e6, .window_theta = "rope_local_base_freq"},
     .names = {.query_norm = "self_attn.q_norm",
               .key_norm = "self_attn.k_norm",
               .attention_post_norm = "post_attention_layernorm",
               .mlp_norm = "pre_feedforward_layernorm",
               .mlp_post_norm = "post_feedforward_layernorm"},
     .blocks = {.norms_add_one = true},
     .read_layers = ReadWindowPattern,
     .read_config = ReadGemma3},
    {.model_type = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .keys = {.norm_epsilon_default = 1e-5},
     .names = {.attention_norm = nullptr,
               .query_norm = "self_attn.q_norm",
               .key_norm = "self_attn.k_norm",
               .attention_post_norm = "post_attention_layernorm",
               .mlp_norm = nullptr,
               .mlp_post_norm = "post_feedforward_layernorm"},
     .blocks = {.head_norm_over_width = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadOlmo2},
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .keys = {.width = "n_embd",
              .feed_forward_width = "n_inner",
              .feed_forward_default_ratio = 4,
              .layer_count = "n_layer",
              .head_count = "n_head",
              .kv_head_count = nullptr,
              .head_width = nullptr,
              .max_position = "n_positions",
              .norm_epsilon = "layer_norm_epsilon",
              .norm_epsilon_default = 1e-5,
              .activation = "activation_function",
              .activation_default = "gelu_new",
              .tied_default = true},
     .positions = PositionKind::kLearned,
     .names = {.prefix = "transformer.",
               .embedding = "wte",
               .positions = "wpe",
               .final_norm = "ln_f",
               .skipped = nullptr,
               .layer = "h.{}.",
               .attention_norm = "ln_1",
               .query_key_value = "attn.c_attn",
               .attention_output = "attn.c_proj",
               .mlp_norm = "ln_2",
               .gate = nullptr,
               .up = "mlp.c_fc",
               .down = "mlp.c_proj",
               .attention = "attn.",
               .layer_skipped = {"attn.bias", "attn.masked_bias"},
               .transposed = true},
     .blocks = {.norm = kernels::NormKind::kLayer,
                .query_key_value_bias = true,
                .attention_output_bias = true,
                .mlp_bias = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadGpt2},
    {.model_type = "gpt_neox",
     .class_name = "GPTNeoXForCausalLM",
     .keys = {.kv_head_count = nullptr,
              .head_width = nullptr,
              .norm_epsilon = "layer_norm_eps",
              .norm_epsilon_default = 1e-5,
              .activation_default = "gelu"},
     .rope = {.theta = "rotary_emb_base", .partial = "rotary_pct", .partial_default = 0.25, .partial_allowed = true},
     .names = {.prefix = "gpt_neox.",
               .embedding = "embed_in",
               .final_norm = "final_layer_norm",
               .older_head = "embed_out",
               .query_key_value = "attention.query_key_value",
               .fused_order = FusedOrder::kPerHead,
               .attention_output = "attention.dense",
               .gate = nullptr,
               .up = "mlp.dense_h_to_4h",
               .down = "mlp.dense_4h_to_h",
               .attention = "attention.",
               .layer_skipped = {"attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"}},
     .blocks = {.norm = kernels::NormKind::kLayer, .mlp_bias = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadGptNeox},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .keys = {.norm_epsilon_default = 1e-5},
     .rope = {.partial_allowed = true, .longrope_alone = true, .original_default = 4096},
     .names = {.query_key_value = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"},
     .read_layers = ReadWindow,
     .read_config = ReadPhi3},
    {.model_type = "granite",
     .class_name = "GraniteForCausalLM",
     .read_layers = ReadNoWindows,
     .read_config = ReadGranite},
    {.model_type = "olmo3",
     .class_name = "Olmo3ForCausalLM",
     .keys = {.norm_epsilon_default = 1e-5},
     .positions = PositionKind::kRopePerLayerType,
     .rope = {.theta_default = 500000},
     .names = {.attention_norm = nullptr,
               .query_norm = "self_attn.q_norm",
               .key_norm = "self_attn.k_norm",
               .attention_post_norm = "post_attention_layernorm",
               .mlp_norm = nullptr,
               .mlp_post_norm = "post_feedforward_layernorm"},
     .blocks = {.head_norm_over_width = true},
     .read_layers = ReadWindowsButFourth,
     .read_config = ReadOlmo2},
    {.model_type = "ministral",
     .class_name = "MinistralForCausalLM",
     .keys = {.kv_head_default = 8},
     .read_layers = ReadWindowsByType,
     .read_config = ReadNoBiases},
    {.model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .keys = {.kv_head_default = 4, .tied_default = true},
     .rope = {.theta_default = 2e6},
     .read_layers = ReadUnrotatedLayers,
     .read_config = ReadLlama},
    {.model_type = "seed_oss",
     .class_name = "SeedOssForCausalLM",
     .keys = {.kv_head_default = 8, .head_width_default = 128},
     .read_layers = ReadNoWindows,
     .read_config = ReadSeedOss},
    {.model_type = "arcee",
     .class_name = "ArceeForCausalLM",
     .keys = {.norm_epsilon_default = 1e-5, .activation_default = "relu2"},
     .names = {.gate = nullptr},
     .read_layers = ReadNoWindows,
     .read_config = ReadLlama},
    {.model_type = "ministral3",
     .class_name = "Ministral3ForCausalLM",
     .keys = {.kv_head_default = 8, .head_width_default = 128, .norm_epsilon_default = 1e-5},
     .rope = {.query_scale = true},
     .read_layers = ReadWindow,
     .read_config = ReadNoBiases},
    {.model_type = "starcoder2",
     .class_name = "Starcoder2ForCausalLM",
     .keys = {.kv_head_default = 2,
              .norm_epsilon = "norm_epsilon",
              .norm_epsilon_default = 1e-5,
              .activation_default = "gelu_pytorch_tanh",
              .tied_default = true},
     .names = {.gate = nullptr, .up = "mlp.c_fc", .down = "mlp.c_proj"},
     .blocks = {.norm = kernels::NormKind::kLayer},
     .read_layers = ReadWindow,
     .read_config = ReadStarcoder2},
    {.model_type = "nemotron",
     .class_name = "NemotronForCausalLM",
     .keys = {.norm_epsilon = "norm_eps", .norm_epsilon_default = 1e-5, .activation_default = "relu2"},
     .rope = {.partial_default = 0.5, .partial_allowed = true},
     .names = {.gate = nullptr},
     .blocks = {.norm = kernels::NormKind::kLayer, .norms_add_one = true},
     .read_layers = ReadNoWindows,
     .read_config = ReadNemotron},
    {.model_type = "stablelm",
     .class_name = "StableLmForCausalLM",
     .keys =
         {.kv_head_default = 32, .head_width = nullptr, .norm_epsilon = "layer_norm_eps", .norm_epsilon_default = 1e-5},
     .rope = {.partial_default = 0.25, .partial_allowed = true},
     .blocks = {.norm = kernels::NormKind::kLayer},
     .read_layers = ReadNoWindows,
     .read_config = ReadStableLm},
    {.model_type = "ernie4_5",
     .class_name = "Ernie4_5ForCausalLM",
     .keys = {.kv_head_default = 2, .head_width_default = 128, .norm_epsilon_default = 1e-5, .tied_default = true},
     .rope = {.theta_default = 500000},
     .names = {.rotary_pairs = RotaryPairs::kNeighbours},
     .read_layers = ReadNoWindows,
     .read_config = ReadErnie45},
    {.model_type = "glm4",
     .class_name = "Glm4ForCausalLM",
     .keys = {.kv_head_default = 2, .head_width_default = 128, .norm_epsilon_default = 1.5625e-7},
     .rope = {.partial_default = 0.5, .partial_allowed = true},
     .names = {.rotary_pairs = RotaryPairs::kNeighbours,
               .attention_post_norm = "post_self_attn_layernorm",
               .gate_up = "mlp.gate_up_proj",
               .mlp_post_norm = "post_mlp_layernorm"},
     .read_layers = ReadNoWindows,
     .read_config = ReadGlm4},
    {.model_type = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .keys =
         {.head_width = nullptr, .norm_epsilon = "layer_norm_eps", .norm_epsilon_default = 1e-5, .tied_default = true},
     .names = {.rotary_pairs = RotaryPairs::kNeighbours, .mlp_norm = nullptr},
     .blocks = {.norm = kernels::NormKind::kLayer, .norm_bias = false, .parallel_residual = true, .one_norm = true},
     .read_layers = ReadRotatedWindowsAlone,
     .read_config = ReadCohere2},
    {.model_type = "exaone4",
     .class_name = "Exaone4ForCausalLM",
     .keys = {.kv_head_default = 32, .norm_epsilon_default = 1e-5},
     .names = {.attention_norm = nullptr,
               .query_norm = "self_attn.q_norm",
               .key_norm = "self_attn.k_norm",
               .attention_post_norm = "post_attention_layernorm",
               .mlp_norm = nullptr,
               .mlp_post_norm = "post_feedforward_layernorm"},
     .read_layers = ReadRotatedWindows,
     .read_config = ReadNoBiases},
};

}  // namespace

absl::Span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* FindArchitecture(absl::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

}  // namespace varifocal

// Rows of the table of architectures (architectures.cc) of hybrids: layers with a recurrent state beside or instead of attention.
#pragma once

#include "server/model/architectures.h"
#include "server/model/block_keys.h"
#include "server/model/latent_rows.h"

namespace varifocal {

inline constexpr RecurrenceKeys kGatedDelta = {
    .kind = kernels::RecurrenceKind::kDeltaRule, .conv_width = "linear_conv_kernel_dim", .conv_width_default = 4};

inline constexpr RecurrenceKeys kMamba2 = {.kind = kernels::RecurrenceKind::kStateSpace,
                                           .conv_width = "mamba_d_conv",
                                           .conv_width_default = 4,
                                           .key_head_count = "mamba_n_groups",
                                           .value_head_count = "mamba_n_heads",
                                           .key_dim = "mamba_d_state",
                                           .value_dim = "mamba_d_head",
                                           .key_head_count_default = 1,
                                           .value_head_count_default = 128,
                                           .key_dim_default = 256,
                                           .expansion = "mamba_expand",
                                           .step_limit = "time_step_limit",
                                           .conv_bias = "mamba_conv_bias",
                                           .conv_bias_default = true,
                                           .bias = "mamba_proj_bias"};

inline constexpr RecurrenceNames kMamba2Names = {.inputs = {"mamba.in_proj"},
                                                 .conv = "mamba.conv1d",
                                                 .decay_log = "mamba.A_log",
                                                 .decay_bias = "mamba.dt_bias",
                                                 .skip = "mamba.D",
                                                 .norm = "mamba.norm",
                                                 .output = "mamba.out_proj"};

inline constexpr TensorNames kNamesWithMamba2 = {.final_norm = "final_layernorm",
                                                 .mlp_norm = "pre_ff_layernorm",
                                                 .gate = "feed_forward.gate_proj",
                                                 .up = "feed_forward.up_proj",
                                                 .down = "feed_forward.down_proj",
                                                 .recurrence = kMamba2Names};

constexpr RecurrenceKeys WithOptionalNorm(RecurrenceKeys keys) {
  keys.width = "mamba_d_ssm";
  keys.width_default = 1024;
  keys.norm = "mamba_rms_norm";
  keys.norm_first = "mamba_norm_before_gate";
  return keys;
}

inline constexpr Architecture kQwen3Next = {
    .model_type = "qwen3_next",
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
    .read_config = ReadQwen3Next};

inline constexpr Architecture kQwen35Text = {
    .model_type = "qwen3_5_text",
    .class_name = "Qwen3_5ForCausalLM",
    .keys = {.kv_head_default = 4, .head_width_default = 256},
    .rope = {.partial_default = 0.25, .partial_allowed = true, .mrope_is_default = true},
    .names = {.skipped_prefix = "mtp.", .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
    .recurrence = kGatedDelta,
    .blocks = {.norms_add_one = true, .attention_gate = true},
    .read_layers = ReadRecurrentButFourth,
    .read_config = ReadQwen3Next};

inline constexpr Architecture kGranitemoehybrid = {
    .model_type = "granitemoehybrid",
    .class_name = "GraniteMoeHybridForCausalLM",
    .keys = {.feed_forward_width = "shared_intermediate_size"},
    .names = {.gate_up = "shared_mlp.input_linear",
              .down = "shared_mlp.output_linear",
              .mixture = {.gate = nullptr,
                          .stacked_router = "block_sparse_moe.router.layer",
                          .stacked_gate_up = "block_sparse_moe.input_linear.weight",
                          .stacked_down = "block_sparse_moe.output_linear.weight",
                          .shared_gate_up = "shared_mlp.input_linear",
                          .shared_down = "shared_mlp.output_linear"},
              .recurrence = kMamba2Names},
    .mixture = {.expert_count = "num_local_experts",
                .expert_count_default = 8,
                .per_token_default = 2,
                .none_allowed = true,
                .width = "intermediate_size",
                .shared_width = "shared_intermediate_size",
                .always_renormalised = true},
    .recurrence = kMamba2,
    .read_layers = ReadStateSpacesByType,
    .read_config = ReadGraniteHybrid};

inline constexpr Architecture kFalconH1 = {.model_type = "falcon_h1",
                                           .class_name = "FalconH1ForCausalLM",
                                           .keys = {.kv_head_default = 8, .norm_epsilon_default = 1e-5},
                                           .names = kNamesWithMamba2,
                                           .recurrence = WithOptionalNorm(kMamba2),
                                           .read_layers = ReadStateSpacesEverywhere,
                                           .read_config = ReadFalconH1};

inline constexpr Architecture kBamba = {.model_type = "bamba",
                                        .class_name = "BambaForCausalLM",
                                        .keys = {.kv_head_default = 8, .norm_epsilon_default = 1e-5},
                                        .rope = {.partial_default = 0.5, .partial_allowed = true},
                                        .names = kNamesWithMamba2,
                                        .recurrence = kMamba2,
                                        .read_layers = ReadStateSpacesButListed,
                                        .read_config = ReadBamba};

inline constexpr Architecture kNemotronH = {
    .model_type = "nemotron_h",
    .class_name = "NemotronHForCausalLM",
    .keys = {.layer_kinds = "layers_block_type",
             .layer_pattern = "hybrid_override_pattern",
             .kv_head_default = 8,
             .head_width_default = 128,
             .norm_epsilon = "layer_norm_epsilon",
             .norm_epsilon_default = 1e-5,
             .activation = "mlp_hidden_act",
             .activation_default = "relu2"},
    .names = {.prefix = "backbone.",
              .embedding = "embeddings",
              .final_norm = "norm_f",
              .skipped_prefix = "mtp.",
              .attention_norm = "norm",
              .query = "mixer.q_proj",
              .key = "mixer.k_proj",
              .value = "mixer.v_proj",
              .attention_output = "mixer.o_proj",
              .mlp_norm = nullptr,
              .gate = nullptr,
              .up = "mixer.up_proj",
              .down = "mixer.down_proj",
              .mixture = {.router = "mixer.gate",
                          .up = "mixer.experts.{}.up_proj",
                          .down = "mixer.experts.{}.down_proj",
                          .stacked_router = "mixer.gate",
                          .stacked_gate_up = "mixer.experts.up_proj",
                          .stacked_down = "mixer.experts.down_proj",
                          .choice_bias = "mixer.gate.e_score_correction_bias",
                          .shared_up = "mixer.shared_experts.up_proj",
                          .shared_down = "mixer.shared_experts.down_proj"},
              .recurrence = {.inputs = {"mixer.in_proj"},
                             .conv = "mixer.conv1d",
                             .decay_log = "mixer.A_log",
                             .decay_bias = "mixer.dt_bias",
                             .skip = "mixer.D",
                             .norm = "mixer.norm",
                             .output = "mixer.out_proj"},
              .attention = "mixer.",
              .layer_skipped = {}},
    .mixture = WithSigmoids({.expert_count = "n_routed_experts",
                             .expert_count_too = "num_local_experts",
                             .expert_count_default = 8,
                             .per_token_default = 2,
                             .width = "moe_intermediate_size",
                             .width_default = 7688,
                             .shared_width = "moe_shared_expert_intermediate_size",
                             .shared_width_default = 7688,
                             .renormalised_default = true,
                             .gated = false,
                             .reads_groups = true,
                             .scaling = "routed_scaling_factor"}),
    .recurrence = {.kind = kernels::RecurrenceKind::kStateSpace,
                   .conv_width = "conv_kernel",
                   .conv_width_default = 4,
                   .key_head_count = "n_groups",
                   .value_head_count = "mamba_num_heads",
                   .key_dim = "ssm_state_size",
                   .value_dim = "mamba_head_dim",
                   .key_head_count_default = 8,
                   .value_head_count_default = 128,
                   .value_dim_default = 64,
                   .step_min = "time_step_min",
                   .step_min_default = 0.001,
                   .step_limit = "time_step_limit",
                   .conv_bias = "use_conv_bias",
                   .conv_bias_default = true,
                   .bias = "use_bias"},
    .read_layers = ReadLayersOfOnePart,
    .read_config = ReadNemotronH};

inline constexpr Architecture kLfm2 = {
    .model_type = "lfm2",
    .class_name = "Lfm2ForCausalLM",
    .keys = {.feed_forward_width_first = "block_ff_dim",
             .kv_head_default = 8,
             .norm_epsilon = "norm_eps",
             .norm_epsilon_default = 1e-5,
             .tied_default = true},
    .rope = {.theta_default = 1e6},
    .names = {.final_norm = "embedding_norm",
              .attention_norm = "operator_norm",
              .query_norm = "self_attn.q_layernorm",
              .key_norm = "self_attn.k_layernorm",
              .attention_output = "self_attn.out_proj",
              .mlp_norm = "ffn_norm",
              .gate = "feed_forward.w1",
              .up = "feed_forward.w3",
              .down = "feed_forward.w2",
              .recurrence = {.inputs = {"conv.in_proj"}, .conv = "conv.conv", .output = "conv.out_proj"}},
    .recurrence = {.kind = kernels::RecurrenceKind::kConvolution,
                   .conv_width = "conv_L_cache",
                   .conv_width_default = 3,
                   .conv_bias = "conv_bias",
                   .bias = "conv_bias"},
    .read_layers = ReadConvolutionsButListed,
    .read_config = ReadLfm2};

}  // namespace varifocal

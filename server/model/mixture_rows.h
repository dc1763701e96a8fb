// Rows of the table of architectures (architectures.cc) of mixtures of experts that a softmax chooses.
#pragma once

#include "server/model/architectures.h"
#include "server/model/block_keys.h"

namespace varifocal {

inline constexpr Architecture kQwen3Moe = {.model_type = "qwen3_moe",
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
                                           .read_config = ReadQwen3};

inline constexpr Architecture kOlmoe = {.model_type = "olmoe",
                                        .class_name = "OlmoeForCausalLM",
                                        .keys = {.head_width = nullptr, .norm_epsilon_default = 1e-5},
                                        .names = {.query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"},
                                        .mixture = {.expert_count = "num_experts",
                                                    .expert_count_too = "num_local_experts",
                                                    .expert_count_default = 64,
                                                    .per_token_default = 8},
                                        .blocks = {.head_norm_over_width = true},
                                        .read_config = ReadOlmoe};

inline constexpr Architecture kMixtral = {.model_type = "mixtral",
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
                                          .read_config = ReadNoBiases};

inline constexpr Architecture kQwen2Moe = {.model_type = "qwen2_moe",
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
                                           .read_config = ReadQwen2Moe};

inline constexpr Architecture kGranitemoe = {
    .model_type = "granitemoe",
    .class_name = "GraniteMoeForCausalLM",
    .names = {.mixture = {.gate = nullptr,
                          .stacked_router = "block_sparse_moe.router.layer",
                          .stacked_gate_up = "block_sparse_moe.input_linear.weight",
                          .stacked_down = "block_sparse_moe.output_linear.weight"}},
    .mixture = {.expert_count = "num_local_experts",
                .expert_count_default = 8,
                .per_token_default = 2,
                .always_renormalised = true},
    .read_config = ReadGranite};

inline constexpr Architecture kGptOss = {
    .model_type = "gpt_oss",
    .class_name = "GptOssForCausalLM",
    .keys = {.kv_head_default = 8, .head_width_default = 64, .norm_epsilon_default = 1e-5},
    .rope = {.theta_default = 150000,
             .missing = R"({"rope_type":"yarn","factor":32,"original_max_position_embeddings":4096,"truncate":false})"},
    .names = {.mixture = {.gate = nullptr,
                          .stacked_router = "mlp.router",
                          .inputs_first = true,
                          .stacked_gate_up_bias = "mlp.experts.gate_up_proj_bias",
                          .stacked_down_bias = "mlp.experts.down_proj_bias",
                          .router_bias = true}},
    .mixture = {.expert_count = "num_local_experts",
                .expert_count_too = "num_experts",
                .expert_count_default = 128,
                .per_token_default = 4,
                .always_renormalised = true},
    .attention = R"({"attention_sink":{"mode":"learned"}})",
    .blocks = {.activation = kernels::Activation::kClampedGate},
    .read_layers = ReadShortWindowsButSecond,
    .read_config = ReadGptOss};

}  // namespace varifocal

// Rows of the table of architectures (architectures.cc) with latent attention, or with experts that are chosen by sigmoids.
#pragma once

#include "server/model/architectures.h"
#include "server/model/block_keys.h"
#include "server/model/latent_keys.h"

namespace varifocal {

// DeepSeek's experts: shared ones beside the chosen, plain MLPs in the first layers.
inline constexpr MixtureKeys kExpertsOfDeepseek = {.expert_count = "n_routed_experts",
                                                   .expert_count_too = "num_local_experts",
                                                   .width = "moe_intermediate_size",
                                                   .reads_groups = true,
                                                   .scaling = "routed_scaling_factor",
                                                   .dense_first = "first_k_dense_replace",
                                                   .shared_count = "n_shared_experts"};
inline constexpr MixtureNames kNamesOfSharedExperts = {.shared_gate = "mlp.shared_experts.gate_proj",
                                                       .shared_up = "mlp.shared_experts.up_proj",
                                                       .shared_down = "mlp.shared_experts.down_proj"};

// Chosen by sigmoids and a bias, in groups by the sum of their two best.
constexpr MixtureKeys WithSigmoids(MixtureKeys keys) {
  keys.score = kernels::ExpertScore::kSigmoid;
  keys.choice_bias = true;
  keys.group_score = kernels::GroupScore::kTwoLargest;
  return keys;
}

constexpr MixtureKeys ExpertsOfV3() {
  MixtureKeys keys = WithSigmoids(kExpertsOfDeepseek);
  keys.expert_count_default = 256;
  keys.per_token_default = 8;
  keys.width_default = 2048;
  keys.renormalised_default = true;
  keys.groups_default = 8;
  keys.groups_kept_default = 4;
  keys.scaling_default = 2.5;
  keys.dense_first_default = 3;
  return keys;
}

// Weights are shares of all experts, never of the chosen.
constexpr MixtureKeys ExpertsOfV2() {
  MixtureKeys keys = kExpertsOfDeepseek;
  keys.expert_count_too = "num_experts";
  keys.expert_count_default = 64;
  keys.width_default = 1407;
  keys.never_renormalised = true;
  keys.shared_count_default = 2;
  return keys;
}

inline constexpr Architecture kDeepseekV3 = {.model_type = "deepseek_v3",
                                             .class_name = "DeepseekV3ForCausalLM",
                                             .keys = {.kv_head_count = nullptr, .head_width = nullptr},
                                             .rope = {.scales_scores = true},
                                             .names = {.mixture = kNamesOfSharedExperts},
                                             .mixture = ExpertsOfV3(),
                                             .latent = {.rank_default = 512,
                                                        .query_rank_default = 1536,
                                                        .rotated_default = 64,
                                                        .unrotated_default = 128,
                                                        .value_default = 128,
                                                        .neighbours = true,
                                                        .neighbours_by_key = true},
                                             .read_config = ReadDeepseekV3};

inline constexpr Architecture kDeepseekV2 = {.model_type = "deepseek_v2",
                                             .class_name = "DeepseekV2ForCausalLM",
                                             .keys = {.kv_head_count = nullptr, .head_width = nullptr},
                                             .rope = {.scales_scores = true},
                                             .names = {.mixture = kNamesOfSharedExperts},
                                             .mixture = ExpertsOfV2(),
                                             .latent = {.rank_default = 512,
                                                        .query_rank_default = 1536,
                                                        .rotated_default = 64,
                                                        .unrotated_default = 128,
                                                        .value_default = 128,
                                                        .neighbours = true},
                                             .read_config = ReadDeepseekV2};

inline constexpr Architecture kMiniCpm3 = {
    .model_type = "minicpm3",
    .class_name = "MiniCPM3ForCausalLM",
    .keys = {.kv_head_count = nullptr, .head_width = nullptr, .norm_epsilon_default = 1e-5, .tied_default = true},
    .rope = {.scales_scores = true},
    .latent = {.rank_default = 256, .query_rank_default = 768, .rotated_default = 32, .unrotated_default = 64},
    .read_config = ReadMiniCpm3};

}  // namespace varifocal

// For tests: published files of the rows of latent_rows.h and of mixtures beside them, with summaries of what they mean.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "server/model/model_config.h"

namespace varifocal {

struct Published {
  const char* name;
  const char* json;
  const char* summary;
};

// Of latent attention and of experts that are not chosen by a softmax alone.
inline std::string LatentSummary(const ModelConfig& config) {
  std::string text;
  if (const LatentConfig& latent = config.latent; latent.rank > 0) {
    absl::StrAppend(&text, " latent=", latent.query_rank, "/", latent.rank, " heads=", latent.unrotated_width, "+",
                    latent.rotated_width, latent.neighbours ? "n" : "", "/", latent.value_width);
  }
  if (config.further_layers > 0) absl::StrAppend(&text, " further=", config.further_layers);
  const kernels::ExpertRouting& routing = config.mixture.routing;
  if (config.mixture.choice_bias) text += " choicebias";
  if (!config.mixture.gated) text += " gateless";
  if (routing.score == kernels::ExpertScore::kSigmoid) text += " sigmoid";
  if (routing.group_count > 1) {
    absl::StrAppend(&text, " groups=", routing.groups_kept, "/", routing.group_count,
                    routing.group_score == kernels::GroupScore::kTwoLargest ? "by2" : "by1");
  }
  if (routing.scaling != 1) absl::StrAppend(&text, " times=", routing.scaling);
  return text;
}

inline constexpr Published kPublishedLatent[] = {
    {"DeepSeek-V3", R"({"architectures":["DeepseekV3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "auto_map":{"AutoConfig":"configuration_deepseek.DeepseekV3Config"},"bos_token_id":0,"eos_token_id":1,"ep_size":1,
      "first_k_dense_replace":3,"hidden_act":"silu","hidden_size":7168,"initializer_range":0.02,"intermediate_size":18432,
      "kv_lora_rank":512,"max_position_embeddings":163840,"model_type":"deepseek_v3","moe_intermediate_size":2048,
      "moe_layer_freq":1,"n_group":8,"n_routed_experts":256,"n_shared_experts":1,"norm_topk_prob":true,
      "num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":4,"num_key_value_heads":128,
      "num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
      "quantization_config":{"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","weight_block_size":[128,128]},
      "rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":1.0,"mscale_all_dim":1.0,
      "original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":2.5,
      "scoring_func":"sigmoid","tie_word_embeddings":false,"topk_group":4,"topk_method":"noaux_tc",
      "torch_dtype":"bfloat16","transformers_version":"4.33.1","use_cache":true,"v_head_dim":128,"vocab_size":129280})",
     "V129280 M7168 F18432 L4 H128/128 D192 max163840 eps=1e-06 act=1 experts=8/256x2048 renormalised shared=2048 "
     "ungated plain0 plain1 plain2 scale=0.135234 latent=1536/512 heads=128+64n/128 further=1 choicebias sigmoid "
     "groups=4/8by2 times=2.5 | yarn theta=10000 rotary=64 factor=40 original=4096 fast=32 slow=1 attention=1 "
     "scores=1.8738542070926265 | full,full,full,full"},
    {"Moonlight 16B-A3B", R"({"architectures":["DeepseekV3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "auto_map":{"AutoConfig":"configuration_deepseek.DeepseekV3Config"},"aux_loss_alpha":0.001,"bos_token_id":163584,
      "eos_token_id":163585,"ep_size":1,"first_k_dense_replace":1,"hidden_act":"silu","hidden_size":2048,
      "initializer_range":0.02,"intermediate_size":11264,"kv_lora_rank":512,"max_position_embeddings":8192,
      "model_type":"deepseek_v3","moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,
      "n_shared_experts":2,"norm_topk_prob":true,"num_attention_heads":16,"num_experts_per_tok":6,"num_hidden_layers":2,
      "num_key_value_heads":16,"num_nextn_predict_layers":0,"pretraining_tp":1,"q_lora_rank":null,"qk_nope_head_dim":128,
      "qk_rope_head_dim":64,"rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":50000.0,"routed_scaling_factor":2.446,
      "scoring_func":"sigmoid","seq_aux":true,"tie_word_embeddings":false,"topk_group":1,"topk_method":"noaux_tc",
      "torch_dtype":"bfloat16","transformers_version":"4.48.3","use_cache":true,"v_head_dim":128,"vocab_size":163840})",
     "V163840 M2048 F11264 L2 H16/16 D192 max8192 eps=1e-05 act=1 experts=6/64x1408 renormalised shared=2816 ungated "
     "plain0 scale=0.0721688 latent=0/512 heads=128+64n/128 choicebias sigmoid times=2.446 | default theta=50000 "
     "rotary=64 | full,full"},
    {"DeepSeek-V2-Lite", R"({"architectures":["DeepseekV2ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "auto_map":{"AutoConfig":"configuration_deepseek.DeepseekV2Config"},"aux_loss_alpha":0.001,"bos_token_id":100000,
      "eos_token_id":100001,"first_k_dense_replace":1,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,
      "intermediate_size":10944,"kv_lora_rank":512,"max_position_embeddings":163840,"model_type":"deepseek_v2",
      "moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,"n_shared_experts":2,
      "norm_topk_prob":false,"num_attention_heads":16,"num_experts_per_tok":6,"num_hidden_layers":2,
      "num_key_value_heads":16,"pretraining_tp":1,"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
      "rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":0.707,"mscale_all_dim":0.707,
      "original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":1.0,
      "scoring_func":"softmax","seq_aux":true,"tie_word_embeddings":false,"topk_group":1,"topk_method":"greedy",
      "torch_dtype":"bfloat16","transformers_version":"4.33.1","use_cache":true,"v_head_dim":128,"vocab_size":102400})",
     "V102400 M2048 F10944 L2 H16/16 D192 max163840 eps=1e-06 act=1 experts=6/64x1408 shared=2816 ungated plain0 "
     "scale=0.114721 latent=0/512 heads=128+64n/128 | yarn theta=10000 rotary=64 factor=40 original=4096 fast=32 slow=1 "
     "attention=1 scores=1.5896261651208736 | full,full"},
    {"DeepSeek-V2", R"({"architectures":["DeepseekV2ForCausalLM"],"attention_bias":false,"aux_loss_alpha":0.001,
      "bos_token_id":100000,"eos_token_id":100001,"ep_size":1,"first_k_dense_replace":1,"hidden_act":"silu",
      "hidden_size":5120,"intermediate_size":12288,"kv_lora_rank":512,"max_position_embeddings":163840,
      "model_type":"deepseek_v2","moe_intermediate_size":1536,"moe_layer_freq":1,"n_group":8,"n_routed_experts":160,
      "n_shared_experts":2,"norm_topk_prob":false,"num_attention_heads":128,"num_experts_per_tok":6,"num_hidden_layers":2,
      "num_key_value_heads":128,"pretraining_tp":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
      "rms_norm_eps":1e-06,"rope_theta":10000,"routed_scaling_factor":16.0,"scoring_func":"softmax","seq_aux":true,
      "topk_group":3,"topk_method":"group_limited_greedy","torch_dtype":"bfloat16","v_head_dim":128,"vocab_size":102400})",
     "V102400 M5120 F12288 L2 H128/128 D192 max163840 eps=1e-06 act=1 experts=6/160x1536 shared=3072 ungated plain0 "
     "scale=0.0721688 latent=1536/512 heads=128+64n/128 groups=3/8by1 times=16 | default theta=10000 rotary=64 | "
     "full,full"},
    {"MiniCPM3 4B", R"({"architectures":["MiniCPM3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "auto_map":{"AutoConfig":"configuration_minicpm.MiniCPM3Config"},"bos_token_id":1,"dim_model_base":256,
      "eos_token_id":[2,73440],"hidden_act":"silu","hidden_size":2560,"initializer_range":0.1,"intermediate_size":6400,
      "kv_lora_rank":256,"max_position_embeddings":32768,"model_type":"minicpm3","num_attention_heads":40,
      "num_hidden_layers":1,"num_key_value_heads":40,"q_lora_rank":768,"qk_nope_head_dim":64,"qk_rope_head_dim":32,
      "rms_norm_eps":1e-05,"rope_scaling":{"type":"longrope","original_max_position_embeddings":32768,
      "long_factor":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"short_factor":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},
      "scale_depth":1.4,"scale_emb":12,"torch_dtype":"bfloat16","transformers_version":"4.41.0","use_cache":true,
      "vocab_size":73448})",
     "V73448 M2560 F6400 L1 H40/40 D96 max32768 eps=1e-05 act=1 tied emb*12 res*1.4 logit*0.1 scale=0.102062 "
     "latent=768/256 heads=64+32/64 | longrope theta=10000 rotary=32 factor=1 original=32768 attention=1 "
     "factors=7e79634dbc43ae97 | full"},
    {"Nemotron 3 Nano 30B-A3B", R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,
      "attention_dropout":0.0,"auto_map":{"AutoConfig":"configuration_nemotron_h.NemotronHConfig"},"bos_token_id":1,
      "chunk_size":128,"conv_kernel":4,"eos_token_id":2,"expand":2,"head_dim":128,"hidden_dropout":0.0,
      "hidden_size":2688,"hybrid_override_pattern":"MEM*E","initializer_range":0.02,"intermediate_size":1856,
      "layer_norm_epsilon":1e-05,"mamba_head_dim":64,"mamba_hidden_act":"silu","mamba_num_heads":64,
      "mamba_proj_bias":false,"mamba_ssm_cache_dtype":"float32","max_position_embeddings":262144,"mlp_bias":false,
      "mlp_hidden_act":"relu2","model_type":"nemotron_h","moe_intermediate_size":1856,
      "moe_shared_expert_intermediate_size":3712,"n_group":1,"n_groups":8,"n_routed_experts":128,"n_shared_experts":1,
      "norm_eps":1e-05,"norm_topk_prob":true,"num_attention_heads":32,"num_experts_per_tok":6,"num_hidden_layers":5,
      "num_key_value_heads":2,"num_logits_to_keep":1,"pad_token_id":0,"partial_rotary_factor":1.0,
      "rescale_prenorm_residual":true,"residual_in_fp32":false,"rope_theta":10000,"routed_scaling_factor":2.5,
      "sliding_window":null,"ssm_state_size":128,"tie_word_embeddings":false,"time_step_floor":0.0001,
      "time_step_limit":[0.0,{"__float__":"Infinity"}],"time_step_max":0.1,"time_step_min":0.001,"topk_group":1,
      "torch_dtype":"bfloat16","use_bias":false,"use_cache":true,"use_conv_bias":true,"use_mamba_kernels":true,
      "vocab_size":131072})",
     "V131072 M2688 F1856 L5 H32/2 D128 max262144 eps=1e-05 act=5 experts=6/128x1856 renormalised shared=3712 ungated "
     "plain0 plain2 plain3 statespace=8x128/64x64 step=0.001 conv=4 convbias choicebias gateless sigmoid times=2.5 | none "
     "| state,mlp,state,full,mlp"},
};

}  // namespace varifocal

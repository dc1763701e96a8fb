// Every row of the table of architectures: published config files, equivalent older and newer keys, defaults of missing
// keys, and everything that a row rejects. Files are given in full (sizes included) and compared with a summary that can
// be checked against transformers' configuration classes.
#include "server/model/architectures.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/config.h"
#include "server/model/latent_published.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

std::string Windows(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    if (!text.empty()) text += ",";
    if (layer.is_recurrent) text += layer.has_attention ? "state+" : "state";
    if (!layer.is_recurrent && !layer.has_attention) text += "mlp";
    if (!layer.has_attention) continue;
    absl::StrAppend(&text, layer.window == 0 ? "full" : absl::StrCat(layer.window));
    if (config.ropes.size() > 1) absl::StrAppend(&text, ":", layer.rope_index);
    if (config.ropes.size() == 1 && layer.rope_index < 0) absl::StrAppend(&text, ":unrotated");
  }
  return text;
}

// Summary of a config in one line.
std::string Summary(const ModelConfig& config) {
  const BlockConfig& b = config.blocks;
  std::string text =
      absl::StrCat(config.wrapper, config.wrapper.empty() ? "V" : ": V", config.vocabulary_size, " M", config.width,
                   " F", config.feed_forward_width, " L", config.layer_count, " H", config.head_count, "/",
                   config.kv_head_count, " D", config.head_width, " max", config.max_position,
                   " eps=", ShortNumber(b.norm_epsilon), " act=", static_cast<int>(b.activation));
  if (config.tied_embeddings) text += " tied";
  if (b.norm == kernels::NormKind::kLayer) text += " layernorm";
  if (b.norms_add_one) text += " 1+w";
  if (b.head_norm_over_width) text += " widenorm";
  if (b.head_norm_after_rotation) text += " latenorm";
  if (b.activation_terms.a != 0)
    absl::StrAppend(&text, " alpha=", b.activation_terms.a, " limit=", b.activation_terms.b);
  if (config.attention.json() != "{}") absl::StrAppend(&text, " ", config.attention.json());
  if (!b.norm_bias) text += " nobias";
  if (const MixtureConfig& m = config.mixture; m.expert_count > 0) {
    absl::StrAppend(&text, " experts=", m.per_token, "/", m.expert_count, "x", m.width,
                    m.renormalised ? " renormalised" : "");
    if (m.shared_width > 0) absl::StrAppend(&text, " shared=", m.shared_width, m.shared_gate ? "" : " ungated");
    for (size_t i = 0; i < config.layers.size(); ++i) {
      if (!config.layers[i].has_mixture) absl::StrAppend(&text, " plain", i);
    }
  }
  if (b.attention_gate) text += " gate";
  if (const kernels::RecurrenceShape& s = config.recurrence; s.kind != kernels::RecurrenceKind::kNone) {
    const char* kinds[] = {"", " delta=", " conv", " statespace="};
    text += kinds[static_cast<int>(s.kind)];
    if (s.has_matrices()) {
      absl::StrAppend(&text, s.key_head_count, "x", s.key_dim, "/", s.value_head_count, "x", s.value_dim);
    }
    if (s.kind == kernels::RecurrenceKind::kStateSpace) {
      if (s.step_min != 0) absl::StrAppend(&text, " step=", s.step_min);
      if (s.norm_group_count == 0) text += " ungrouped";
      if (!s.gate_first && s.norm_group_count > 0) text += " normfirst";
    }
    absl::StrAppend(&text, s.has_matrices() ? " conv=" : "=", s.conv_width);
    if (b.conv_bias) text += " convbias";
    if (b.recurrence_bias) text += " statebias";
    if (const auto& [z, u, b, c, step] = config.blocks.state_space; z != 1 || u != 1) {
      absl::StrAppend(&text, " space*", absl::StrJoin({z, u, b, c, step}, ","));
    }
  }
  if (b.query_key_value_clip != 0) absl::StrAppend(&text, " clip=", b.query_key_value_clip);
  if (b.parallel_residual) text += b.one_norm ? " parallel1" : " parallel";
  if (b.query_key_value_bias) text += " qkvbias";
  if (b.attention_output_bias) text += " obias";
  if (b.mlp_bias) text += " mlpbias";
  if (b.embedding_multiplier != 1) absl::StrAppend(&text, " emb*", b.embedding_multiplier);
  if (b.attention_output_multiplier != 1) {
    const double factors[] = {b.attention_output_multiplier, b.recurrence_output_multiplier, b.mlp_output_multiplier};
    absl::StrAppend(&text, " out*", absl::StrJoin(factors, ","));
  }
  if (b.residual_multiplier != 1) absl::StrAppend(&text, " res*", b.residual_multiplier);
  if (b.score_soft_cap != 0) absl::StrAppend(&text, " cap=", b.score_soft_cap);
  if (b.logit_soft_cap != 0) absl::StrAppend(&text, " logitcap=", b.logit_soft_cap);
  if (b.logit_multiplier != 1) absl::StrAppend(&text, " logit*", b.logit_multiplier);
  if (config.layers[0].attention_scale != 0) absl::StrAppend(&text, " scale=", config.layers[0].attention_scale);
  text += LatentSummary(config);
  if (!config.image_token_ids.empty()) absl::StrAppend(&text, " images=", absl::StrJoin(config.image_token_ids, ","));
  return absl::StrCat(text, " | ", RopesToString(config.ropes), " | ", Windows(config));
}

std::string Parsed(absl::string_view json) {
  const auto config = ParseModelConfig(json);
  return config.ok() ? Summary(*config) : absl::StrCat("refused: ", config.status().message());
}
std::string ParsedJson(const Json& json) { return Parsed(json.dump()); }

// ---- Published files ----

constexpr Published kPublished[] = {
    {"a Llama 3.2", R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":128000,"eos_token_id":[128001,128008],"head_dim":64,"hidden_act":"silu","hidden_size":2048,
      "initializer_range":0.02,"intermediate_size":8192,"max_position_embeddings":131072,"mlp_bias":false,
      "model_type":"llama","num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":8,"pretraining_tp":1,
      "rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
      "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,
      "torch_dtype":"bfloat16","transformers_version":"4.45.0.dev0","use_cache":true,"vocab_size":128256})",
     "V128256 M2048 F8192 L2 H32/8 D64 max131072 eps=1e-05 act=1 tied | llama3 theta=500000 factor=32 low=1 high=4 "
     "original=8192 | full,full"},
    {"the first LLaMA", R"({"architectures":["LlamaForCausalLM"],"bos_token_id":1,"eos_token_id":2,
      "hidden_act":"silu","hidden_size":64,"intermediate_size":172,"initializer_range":0.02,
      "max_sequence_length":2048,"max_position_embeddings":2048,"model_type":"llama","num_attention_heads":4,
      "num_hidden_layers":1,"pad_token_id":0,"rms_norm_eps":1e-06,"tie_word_embeddings":false,"torch_dtype":"float16",
      "transformers_version":"4.28.0","use_cache":true,"vocab_size":32000})",
     "V32000 M64 F172 L1 H4/4 D16 max2048 eps=1e-06 act=1 | default theta=10000 | full"},
    {"a Mistral", R"({"architectures":["MistralForCausalLM"],"bos_token_id":1,"eos_token_id":2,"hidden_act":"silu",
      "hidden_size":4096,"initializer_range":0.02,"intermediate_size":14336,"max_position_embeddings":32768,
      "model_type":"mistral","num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":8,
      "rms_norm_eps":1e-05,"rope_theta":10000.0,"sliding_window":4096,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","transformers_version":"4.34.0.dev0","use_cache":true,"vocab_size":32000})",
     "V32000 M4096 F14336 L2 H32/8 D128 max32768 eps=1e-05 act=1 | default theta=10000 | 4096,4096"},
    {"a Qwen2.5", R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
      "eos_token_id":151643,"hidden_act":"silu","hidden_size":896,"initializer_range":0.02,"intermediate_size":4864,
      "max_position_embeddings":32768,"max_window_layers":24,"model_type":"qwen2","num_attention_heads":14,
      "num_hidden_layers":2,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":32768,
      "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,
      "use_mrope":false,"use_sliding_window":false,"vocab_size":151936})",
     "V151936 M896 F4864 L2 H14/2 D64 max32768 eps=1e-06 act=1 tied qkvbias | default theta=1000000 | full,full"},
    {"a Qwen3", R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":151643,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":1024,
      "initializer_range":0.02,"intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,
      "model_type":"qwen3","num_attention_heads":16,"num_hidden_layers":2,"num_key_value_heads":8,"rms_norm_eps":1e-06,
      "rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,
      "torch_dtype":"bfloat16","transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,
      "vocab_size":151936})",
     "V151936 M1024 F3072 L2 H16/8 D128 max40960 eps=1e-06 act=1 tied | default theta=1000000 | full,full"},
    {"a Qwen3 30B-A3B", R"({"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":151643,"decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu",
      "hidden_size":2048,"initializer_range":0.02,"intermediate_size":6144,"max_position_embeddings":40960,
      "max_window_layers":48,"mlp_only_layers":[],"model_type":"qwen3_moe","moe_intermediate_size":768,
      "norm_topk_prob":true,"num_attention_heads":32,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":2,
      "num_key_value_heads":4,"output_router_logits":false,"rms_norm_eps":1e-06,"rope_scaling":null,
      "rope_theta":1000000.0,"router_aux_loss_coef":0.001,"sliding_window":null,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,
      "vocab_size":151936})",
     "V151936 M2048 F6144 L2 H32/4 D128 max40960 eps=1e-06 act=1 experts=8/128x768 renormalised | default theta=1000000 | "
     "full,full"},
    {"a Granite 4.0 H Tiny", R"({"architectures":["GraniteMoeHybridForCausalLM"],"attention_bias":false,
      "attention_dropout":0.0,"attention_multiplier":0.0078125,"bos_token_id":100257,"embedding_multiplier":12,
      "eos_token_id":100257,"hidden_act":"silu","hidden_size":1536,"init_method":"mup","initializer_range":0.1,
      "intermediate_size":512,"layer_types":["mamba","mamba","attention"],"logits_scaling":6,"mamba_chunk_size":256,
      "mamba_conv_bias":true,"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,"mamba_expand":2,
      "mamba_n_groups":1,"mamba_n_heads":48,"mamba_proj_bias":false,"max_position_embeddings":131072,
      "model_type":"granitemoehybrid","normalization_function":"rmsnorm","num_attention_heads":12,
      "num_experts_per_tok":6,"num_hidden_layers":3,"num_key_value_heads":4,"num_local_experts":64,
      "output_router_logits":false,"pad_token_id":100256,"position_embedding_type":"nope","residual_multiplier":0.22,
      "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":10000,"router_aux_loss_coef":0.0,
      "shared_intermediate_size":1024,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
      "transformers_version":"4.56.0","use_cache":true,"vocab_size":100352})",
     "V100352 M1536 F1024 L3 H12/4 D128 max131072 eps=1e-05 act=1 tied experts=6/64x512 renormalised shared=1024 ungated "
     "statespace=1x128/48x64 conv=4 convbias emb*12 res*0.22 logit*0.166667 scale=0.0078125 | none | "
     "state,state,full"},
    {"a Falcon-H1 0.5B", R"({"architectures":["FalconH1ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "attention_in_multiplier":1.0,"attention_out_multiplier":0.9375,"attn_layer_indices":null,"bos_token_id":1,
      "embedding_multiplier":5.656854249492381,"eos_token_id":11,"head_dim":64,"hidden_act":"silu","hidden_size":1024,
      "initializer_range":0.02,"intermediate_size":2048,"key_multiplier":0.390625,"lm_head_multiplier":0.0390625,
      "mamba_chunk_size":128,"mamba_conv_bias":true,"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_ssm":1536,
      "mamba_d_state":128,"mamba_expand":2,"mamba_n_groups":1,"mamba_n_heads":24,"mamba_norm_before_gate":false,
      "mamba_proj_bias":false,"mamba_rms_norm":false,"mamba_use_mlp":true,"max_position_embeddings":16384,
      "mlp_bias":false,"mlp_expansion_factor":8,"mlp_multipliers":[0.8838834764831844,0.5859375],
      "model_type":"falcon_h1","num_attention_heads":8,"num_hidden_layers":2,"num_key_value_heads":2,
      "num_logits_to_keep":1,"pad_token_id":0,"projectors_bias":false,"rms_norm_eps":1e-05,"rope_scaling":null,
      "rope_theta":100000000000.0,"ssm_in_multiplier":1.25,
      "ssm_multipliers":[0.3535533905932738,0.25,0.3535533905932738,0.5,0.3535533905932738],
      "ssm_out_multiplier":0.23570226039551587,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
      "transformers_version":"4.52.0.dev0","use_cache":true,"vocab_size":32784})",
     "V32784 M1024 F2048 L2 H8/2 D64 max16384 eps=1e-05 act=8 alpha=0.883883 limit=0 statespace=1x128/24x64 ungrouped "
     "conv=4 convbias space*0.441942,0.3125,0.441942,0.625,0.441942 emb*5.65685 out*0.9375,0.235702,0.5179 "
     "logit*0.0390625 scale=0.0488281 | default theta=100000000000 | state+full,state+full"},
    {"a Bamba 9B", R"({"architectures":["BambaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "attn_layer_indices":[1],"attn_rotary_emb":64,"bos_token_id":128000,"eos_token_id":128001,"hidden_act":"silu",
      "hidden_size":4096,"initializer_range":0.02,"intermediate_size":14336,"mamba_chunk_size":256,
      "mamba_conv_bias":true,"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,"mamba_expand":2,
      "mamba_n_groups":1,"mamba_n_heads":128,"mamba_proj_bias":false,"max_position_embeddings":4096,"mlp_bias":false,
      "model_type":"bamba","num_attention_heads":32,"num_hidden_layers":3,"num_key_value_heads":8,
      "num_logits_to_keep":1,"pad_token_id":0,"rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","transformers_version":"4.45.0.dev0","use_cache":true,"vocab_size":128256})",
     "V128256 M4096 F14336 L3 H32/8 D128 max4096 eps=1e-05 act=1 statespace=1x128/128x64 conv=4 convbias | default "
     "theta=10000 rotary=64 | state,full,state"},
    {"a Nemotron-H 8B", R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "attention_head_dim":128,"bos_token_id":1,"chunk_size":128,"conv_kernel":4,"eos_token_id":2,"expand":2,
      "head_dim":128,"hidden_dropout":0.0,"hidden_size":4096,"hybrid_override_pattern":"M-M*-","initializer_range":0.02,
      "intermediate_size":21504,"layer_norm_epsilon":1e-05,"mamba_head_dim":64,"mamba_hidden_act":"silu",
      "mamba_num_heads":128,"mamba_proj_bias":false,"max_position_embeddings":8192,"mlp_bias":false,
      "mlp_hidden_act":"relu2","model_type":"nemotron_h","n_groups":8,"num_attention_heads":32,"num_hidden_layers":5,
      "num_key_value_heads":8,"num_logits_to_keep":1,"num_query_groups":8,"pad_token_id":0,
      "rescale_prenorm_residual":true,"residual_in_fp32":false,"rms_norm_eps":1e-05,"sliding_window":null,
      "ssm_state_size":128,"tie_word_embeddings":false,"time_step_floor":0.0001,
      "time_step_limit":[0.0,{"__float__":"Infinity"}],"time_step_max":0.1,"time_step_min":0.001,"time_step_rank":256,
      "torch_dtype":"bfloat16","transformers_version":"4.48.0.dev0","use_bias":false,"use_cache":true,
      "use_conv_bias":true,"use_mamba_kernels":true,"vocab_size":131072})",
     "V131072 M4096 F21504 L5 H32/8 D128 max8192 eps=1e-05 act=5 statespace=8x128/128x64 step=0.001 conv=4 convbias | "
     "none | state,mlp,state,full,mlp"},
    {"an LFM2 1.2B", R"({"architectures":["Lfm2ForCausalLM"],"block_auto_adjust_ff_dim":true,"block_dim":2048,
      "block_ff_dim":12288,"block_ffn_dim_multiplier":1.0,"block_mlp_init_scale":1.0,"block_multiple_of":256,
      "block_norm_eps":1e-05,"block_out_init_scale":1.0,"block_use_swiglu":true,"block_use_xavier_init":true,
      "bos_token_id":1,"conv_L_cache":3,"conv_bias":false,"conv_dim":2048,"conv_dim_out":2048,
      "conv_use_xavier_init":true,"eos_token_id":7,"full_attn_idxs":[2],"hidden_size":2048,"initializer_range":0.02,
      "max_position_embeddings":128000,"model_type":"lfm2","norm_eps":1e-05,"num_attention_heads":32,"num_heads":32,
      "num_hidden_layers":3,"num_key_value_heads":8,"pad_token_id":0,"rope_theta":1000000.0,"torch_dtype":"bfloat16",
      "transformers_version":"4.54.0.dev0","use_cache":true,"use_pos_enc":true,"vocab_size":65536})",
     "V65536 M2048 F8192 L3 H32/8 D64 max128000 eps=1e-05 act=1 tied conv=3 | default theta=1000000 | "
     "state,state,full"},
    {"a gpt-oss 20B", R"({"architectures":["GptOssForCausalLM"],"attention_bias":true,"attention_dropout":0.0,
      "eos_token_id":200002,"experts_per_token":4,"head_dim":64,"hidden_act":"silu","hidden_size":2880,
      "initial_context_length":4096,"initializer_range":0.02,"intermediate_size":2880,
      "layer_types":["sliding_attention","full_attention"],"max_position_embeddings":131072,"model_type":"gpt_oss",
      "num_attention_heads":64,"num_experts_per_tok":4,"num_hidden_layers":2,"num_key_value_heads":8,
      "num_local_experts":32,"output_router_logits":false,"pad_token_id":199999,"quantization_config":{
      "modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router","model.embed_tokens","lm_head"],
      "quant_method":"mxfp4"},"rms_norm_eps":1e-05,"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,
      "original_max_position_embeddings":4096,"rope_type":"yarn","truncate":false},"rope_theta":150000,
      "router_aux_loss_coef":0.9,"sliding_window":128,"swiglu_limit":7.0,"tie_word_embeddings":false,
      "transformers_version":"4.55.0.dev0","use_cache":true,"vocab_size":201088})",
     "V201088 M2880 F2880 L2 H64/8 D64 max131072 eps=1e-05 act=7 alpha=1.702 limit=7 "
     "{\"attention_sink\":{\"mode\":\"learned\"}} experts=4/32x2880 renormalised qkvbias obias | yarn theta=150000 "
     "factor=32 original=4096 fast=32 slow=1 untruncated attention=1.3465735902799727 | 128,full"},
    {"a Phi-2", R"({"architectures":["PhiForCausalLM"],"attention_dropout":0.0,"bos_token_id":50256,"embd_pdrop":0.0,
      "eos_token_id":50256,"hidden_act":"gelu_new","hidden_size":2560,"initializer_range":0.02,
      "intermediate_size":10240,"layer_norm_eps":1e-05,"max_position_embeddings":2048,"model_type":"phi",
      "num_attention_heads":32,"num_hidden_layers":1,"num_key_value_heads":32,"partial_rotary_factor":0.4,
      "qk_layernorm":false,"resid_pdrop":0.1,"rope_scaling":null,"rope_theta":10000.0,"tie_word_embeddings":false,
      "torch_dtype":"float16","transformers_version":"4.37.0","use_cache":true,"vocab_size":51200})",
     "V51200 M2560 F10240 L1 H32/32 D80 max2048 eps=1e-05 act=2 layernorm parallel1 qkvbias obias mlpbias | default "
     "theta=10000 rotary=32 | full"},
    {"an Apertus 8B", R"({"architectures":["ApertusForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":1,"eos_token_id":68,"hidden_act":"xielu","hidden_dropout":0.0,"hidden_size":4096,
      "initializer_range":0.02,"intermediate_size":21504,"max_position_embeddings":65536,"mlp_bias":false,
      "model_type":"apertus","num_attention_heads":32,"num_hidden_layers":1,"num_key_value_heads":8,"pad_token_id":3,
      "post_norm":false,"qk_norm":true,"rms_norm_eps":1e-05,"rope_scaling":{"factor":8.0,"high_freq_factor":4.0,
      "low_freq_factor":1.0,"original_max_position_embeddings":8192,"rope_type":"llama3","type":"llama3"},
      "rope_theta":12000000,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
      "transformers_version":"4.56.0.dev0","use_cache":true,"vocab_size":131072})",
     "V131072 M4096 F21504 L1 H32/8 D128 max65536 eps=1e-05 act=6 | llama3 theta=12000000 factor=8 low=1 high=4 "
     "original=8192 | full"},
    {"a Hunyuan 0.5B", R"({"add_classification_head":false,"architectures":["HunYuanDenseV1ForCausalLM"],
      "attention_bias":false,"attention_dropout":0.1,"attention_head_dim":128,"bos_token_id":1,"cla_share_factor":2,
      "class_num":0,"dense_list":[1024,0],"eod_token_id":3,"eos_token_id":120020,"head_dim":128,"hidden_act":"silu",
      "hidden_size":1024,"im_end_id":5,"im_newline_id":11,"im_start_id":4,"initializer_range":0.02,
      "intermediate_size":3584,"mask_init_id":12,"max_position_embeddings":262144,"mlp_bias":false,
      "model_type":"hunyuan_v1_dense","norm_type":"rms","num_attention_heads":8,"num_hidden_layers":1,
      "num_key_value_heads":4,"org_vocab_size":120818,"pad_id":120002,"pad_token_id":120002,"pool_type":"last",
      "pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":{"alpha":1000.0,"beta_fast":32,"beta_slow":1,
      "factor":1.0,"mscale":1.0,"mscale_all_dim":1.0,"type":"dynamic"},"rope_theta":10000.0,"sep_token_id":120007,
      "text_end_id":7,"text_start_id":6,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
      "transformers_version":"4.41.2","use_cache":true,"use_cla":false,"use_qk_norm":true,"use_rotary_pos_emb":true,
      "vocab_size":120818})",
     "V120818 M1024 F3584 L1 H8/4 D128 max262144 eps=1e-05 act=1 tied latenorm | default theta=10000 alpha=1000 | "
     "full"},
    {"an OLMoE 1B-7B", R"({"architectures":["OlmoeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "clip_qkv":null,"eos_token_id":50279,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,
      "intermediate_size":1024,"max_position_embeddings":4096,"model_type":"olmoe","norm_topk_prob":false,
      "num_attention_heads":16,"num_experts":64,"num_experts_per_tok":8,"num_hidden_layers":1,
      "num_key_value_heads":16,"output_router_logits":false,"pad_token_id":1,"rms_norm_eps":1e-05,"rope_scaling":null,
      "rope_theta":10000.0,"router_aux_loss_coef":0.01,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
      "transformers_version":"4.43.0.dev0","use_cache":true,"vocab_size":50304})",
     "V50304 M2048 F1024 L1 H16/16 D128 max4096 eps=1e-05 act=1 widenorm experts=8/64x1024 | default theta=10000 | full"},
    {"a Mixtral 8x7B", R"({"architectures":["MixtralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
      "eos_token_id":2,"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,"intermediate_size":14336,
      "max_position_embeddings":32768,"model_type":"mixtral","num_attention_heads":32,"num_experts_per_tok":2,
      "num_hidden_layers":1,"num_key_value_heads":8,"num_local_experts":8,"output_router_logits":false,
      "rms_norm_eps":1e-05,"rope_theta":1000000.0,"router_aux_loss_coef":0.02,"sliding_window":null,
      "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.36.0.dev0","use_cache":true,
      "vocab_size":32000})",
     "V32000 M4096 F14336 L1 H32/8 D128 max32768 eps=1e-05 act=1 experts=2/8x14336 renormalised | default theta=1000000 | "
     "full"},
    {"a Qwen1.5-MoE-A2.7B", R"({"architectures":["Qwen2MoeForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
      "decoder_sparse_step":1,"eos_token_id":151643,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,
      "intermediate_size":5632,"max_position_embeddings":8192,"max_window_layers":21,"model_type":"qwen2_moe",
      "moe_intermediate_size":1408,"norm_topk_prob":false,"num_attention_heads":16,"num_experts":60,
      "num_experts_per_tok":4,"num_hidden_layers":2,"num_key_value_heads":16,"output_router_logits":false,
      "rms_norm_eps":1e-06,"rope_theta":1000000.0,"router_aux_loss_coef":0.001,"shared_expert_intermediate_size":5632,
      "sliding_window":32768,"tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.39.0.dev0",
      "use_cache":true,"use_sliding_window":false,"vocab_size":151936})",
     "V151936 M2048 F5632 L2 H16/16 D128 max8192 eps=1e-06 act=1 experts=4/60x1408 shared=5632 qkvbias | default "
     "theta=1000000 | full,full"},
    {"a Qwen3-Next 80B-A3B", R"({"architectures":["Qwen3NextForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
      "decoder_sparse_step":1,"eos_token_id":151645,"full_attention_interval":4,"head_dim":256,"hidden_act":"silu",
      "hidden_size":2048,"initializer_range":0.02,"intermediate_size":5120,"linear_conv_kernel_dim":4,
      "linear_key_head_dim":128,"linear_num_key_heads":16,"linear_num_value_heads":32,"linear_value_head_dim":128,
      "max_position_embeddings":262144,"mlp_only_layers":[],"model_type":"qwen3_next","moe_intermediate_size":512,
      "norm_topk_prob":true,"num_attention_heads":16,"num_experts":512,"num_experts_per_tok":10,"num_hidden_layers":4,
      "num_key_value_heads":2,"output_router_logits":false,"partial_rotary_factor":0.25,"rms_norm_eps":1e-06,
      "rope_scaling":null,"rope_theta":10000000,"router_aux_loss_coef":0.001,"shared_expert_intermediate_size":512,
      "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.57.0.dev0","use_cache":true,
      "use_sliding_window":false,"vocab_size":151936})",
     "V151936 M2048 F5120 L4 H16/2 D256 max262144 eps=1e-06 act=1 1+w experts=10/512x512 renormalised shared=512 gate "
     "delta=16x128/32x128 conv=4 | default theta=10000000 rotary=64 | state,state,state,full"},
    {"a Qwen3.5", R"({"architectures":["Qwen3_5ForConditionalGeneration"],"image_token_id":248056,
      "model_type":"qwen3_5","text_config":{"attention_bias":false,"attention_dropout":0.0,"attn_output_gate":true,
      "dtype":"bfloat16","eos_token_id":248044,"full_attention_interval":2,"head_dim":256,"hidden_act":"silu",
      "hidden_size":1024,"initializer_range":0.02,"intermediate_size":3584,
      "layer_types":["linear_attention","full_attention"],"linear_conv_kernel_dim":4,"linear_key_head_dim":128,
      "linear_num_key_heads":16,"linear_num_value_heads":16,"linear_value_head_dim":128,"mamba_ssm_dtype":"float32",
      "max_position_embeddings":262144,"mlp_only_layers":[],"model_type":"qwen3_5_text","mtp_num_hidden_layers":1,
      "mtp_use_dedicated_embeddings":false,"num_attention_heads":8,"num_hidden_layers":2,"num_key_value_heads":2,
      "rms_norm_eps":1e-06,"rope_parameters":{"mrope_interleaved":true,"mrope_section":[11,11,10],
      "partial_rotary_factor":0.25,"rope_theta":10000000,"rope_type":"default"},"use_cache":true,"vocab_size":248320},
      "tie_word_embeddings":true,"transformers_version":"4.57.0.dev0","video_token_id":248057,
      "vision_config":{"depth":12},"vision_end_token_id":248054,"vision_start_token_id":248053})",
     "qwen3_5: V248320 M1024 F3584 L2 H8/2 D256 max262144 eps=1e-06 act=1 tied 1+w gate delta=16x128/16x128 conv=4 "
     "images=248056,248057 | default theta=10000000 rotary=64 | state,full"},
    {"a Granite 3 1B-A400M",
     R"({"architectures":["GraniteMoeForCausalLM"],"attention_bias":false,"attention_dropout":0.1,
      "attention_multiplier":0.015625,"bos_token_id":0,"embedding_multiplier":12.0,"eos_token_id":0,
      "hidden_act":"silu","hidden_size":1024,"initializer_range":0.02,"intermediate_size":512,"logits_scaling":6.0,
      "max_position_embeddings":4096,"model_type":"granitemoe","num_attention_heads":16,"num_experts_per_tok":8,
      "num_hidden_layers":1,"num_key_value_heads":8,"num_local_experts":32,"output_router_logits":false,
      "pad_token_id":0,"residual_multiplier":0.22,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":10000,
      "router_aux_loss_coef":0.0,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
      "transformers_version":"4.46.0.dev0","use_cache":true,"vocab_size":49155})",
     "V49155 M1024 F512 L1 H16/8 D64 max4096 eps=1e-06 act=1 tied experts=8/32x512 renormalised emb*12 res*0.22 "
     "logit*0.166667 scale=0.015625 | default theta=10000 | full"},
    {"a Gemma 3 270M", R"({"_sliding_window_pattern":6,"architectures":["Gemma3ForCausalLM"],"attention_bias":false,
      "attention_dropout":0.0,"attn_logit_softcapping":null,"bos_token_id":2,"eos_token_id":1,
      "final_logit_softcapping":null,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":640,
      "initializer_range":0.02,"intermediate_size":2048,
      "layer_types":["sliding_attention","full_attention","sliding_attention"],"max_position_embeddings":32768,
      "model_type":"gemma3_text","num_attention_heads":4,"num_hidden_layers":3,"num_key_value_heads":1,"pad_token_id":0,
      "query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_local_base_freq":10000.0,"rope_scaling":null,
      "rope_theta":1000000.0,"sliding_window":512,"torch_dtype":"bfloat16","transformers_version":"4.55.0.dev0",
      "use_bidirectional_attention":false,"use_cache":true,"vocab_size":262144})",
     "V262144 M640 F2048 L3 H4/1 D256 max32768 eps=1e-06 act=2 tied 1+w emb*25.2982 scale=0.0625 | default "
     "theta=1000000; default theta=10000 | 512:1,full:0,512:1"},
    {"a Gemma 3 1B", R"({"architectures":["Gemma3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "attn_logit_softcapping":null,"bos_token_id":2,"cache_implementation":"hybrid","eos_token_id":[1,106],
      "final_logit_softcapping":null,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,
      "initializer_range":0.02,"intermediate_size":6912,"max_position_embeddings":32768,"model_type":"gemma3_text",
      "num_attention_heads":4,"num_hidden_layers":7,"num_key_value_heads":1,"pad_token_id":0,
      "query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_local_base_freq":10000,
      "rope_scaling":{"factor":8.0,"rope_type":"linear"},"rope_theta":1000000,
      "sliding_window":512,"sliding_window_pattern":6,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":262144})",
     "V262144 M1152 F6912 L7 H4/1 D256 max32768 eps=1e-06 act=2 tied 1+w emb*33.9411 scale=0.0625 | linear "
     "theta=1000000 factor=8; default theta=10000 | 512:1,512:1,512:1,512:1,512:1,full:0,512:1"},
    {"a Gemma 2 2B", R"({"architectures":["Gemma2ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "attn_logit_softcapping":50.0,"bos_token_id":2,"cache_implementation":"hybrid","eos_token_id":1,
      "final_logit_softcapping":30.0,"head_dim":256,"hidden_act":"gelu_pytorch_tanh",
      "hidden_activation":"gelu_pytorch_tanh","hidden_size":2304,"initializer_range":0.02,"intermediate_size":9216,
      "max_position_embeddings":8192,"model_type":"gemma2","num_attention_heads":8,"num_hidden_layers":3,
      "num_key_value_heads":4,"pad_token_id":0,"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_theta":10000.0,
      "sliding_window":4096,"torch_dtype":"float32","transformers_version":"4.42.4","use_cache":true,
      "vocab_size":256000})",
     "V256000 M2304 F9216 L3 H8/4 D256 max8192 eps=1e-06 act=2 tied 1+w emb*48 cap=50 logitcap=30 scale=0.0625 | default "
     "theta=10000 | 4096,full,4096"},
    {"an OLMo 2", R"({"architectures":["Olmo2ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "eos_token_id":100257,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,"intermediate_size":8192,
      "max_position_embeddings":4096,"model_type":"olmo2","num_attention_heads":16,"num_hidden_layers":1,
      "num_key_value_heads":16,"pad_token_id":100277,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":500000,
      "tie_word_embeddings":false,"torch_dtype":"float32","use_cache":true,"vocab_size":100352})",
     "V100352 M2048 F8192 L1 H16/16 D128 max4096 eps=1e-06 act=1 widenorm | default theta=500000 | full"},
    {"GPT-2", R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,
      "bos_token_id":50256,"embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,"layer_norm_epsilon":1e-05,
      "model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":2,"n_positions":1024,"n_special":0,
      "predict_special_tokens":true,"resid_pdrop":0.1,
      "summary_activation":null,"summary_first_dropout":0.1,"summary_proj_to_labels":true,"summary_type":"cls_index",
      "summary_use_proj":true,"task_specific_params":{"text-generation":{"do_sample":true,"max_length":50}},
      "vocab_size":50257})",
     "V50257 M768 F3072 L2 H12/12 D64 max1024 eps=1e-05 act=2 tied layernorm qkvbias obias mlpbias scale=0.125 | none "
     "| full,full"},
    {"a Pythia", R"({"architectures":["GPTNeoXForCausalLM"],"bos_token_id":0,"eos_token_id":0,"hidden_act":"gelu",
      "hidden_size":768,"initializer_range":0.02,"intermediate_size":3072,"layer_norm_eps":1e-05,
      "max_position_embeddings":2048,"model_type":"gpt_neox","num_attention_heads":12,"num_hidden_layers":1,
      "rotary_emb_base":10000,"rotary_pct":0.25,"tie_word_embeddings":false,"torch_dtype":"float16",
      "transformers_version":"4.24.0","use_cache":true,"use_parallel_residual":true,"vocab_size":50304})",
     "V50304 M768 F3072 L1 H12/12 D64 max2048 eps=1e-05 act=3 layernorm parallel qkvbias obias mlpbias | default "
     "theta=10000 rotary=16 | full"},
    {"a Phi-3", R"({"_name_or_path":"Phi-3-mini-4k-instruct","architectures":["Phi3ForCausalLM"],
      "attention_bias":false,"attention_dropout":0.0,"auto_map":{"AutoConfig":"configuration_phi3.Phi3Config"},
      "bos_token_id":1,"embd_pdrop":0.0,"eos_token_id":32000,"hidden_act":"silu","hidden_size":3072,
      "initializer_range":0.02,"intermediate_size":8192,"max_position_embeddings":4096,"model_type":"phi3",
      "num_attention_heads":32,"num_hidden_layers":1,"num_key_value_heads":32,"original_max_position_embeddings":4096,
      "pad_token_id":32000,"resid_pdrop":0.0,"rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":10000.0,
      "sliding_window":2047,"tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.40.2",
      "use_cache":true,"vocab_size":32064})",
     "V32064 M3072 F8192 L1 H32/32 D96 max4096 eps=1e-05 act=1 | default theta=10000 | 2047"},
    {"a Phi-4-mini, its heads narrowed", R"({"architectures":["Phi3ForCausalLM"],"attention_bias":false,
      "attention_dropout":0.0,"bos_token_id":1,"embd_pdrop":0.0,"eos_token_id":2,"full_attn_mod":1,"hidden_act":"silu",
      "hidden_size":32,"initializer_range":0.02,"intermediate_size":64,"interpolate_factor":1,"lm_head_bias":false,
      "max_position_embeddings":131072,"mlp_bias":false,"model_type":"phi3","num_attention_heads":4,
      "num_hidden_layers":1,"num_key_value_heads":2,"original_max_position_embeddings":4096,"pad_token_id":1,
      "partial_rotary_factor":0.75,"resid_pdrop":0.0,"rms_norm_eps":1e-05,"rope_scaling":{"long_factor":[1,1.5,2],
      "short_factor":[1,1,1],"type":"longrope"},"rope_theta":10000.0,"sliding_window":262144,
      "tie_word_embeddings":true,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":99})",
     // The attention factor is sqrt(1 + ln 32 / ln 4096); a window of at least max_position is dropped.
     "V99 M32 F64 L1 H4/2 D8 max131072 eps=1e-05 act=1 tied | longrope theta=10000 rotary=6 factor=32 original=4096 "
     "attention=1.1902380714238083 factors=14d219222e1090c6 | full"},
    {"a Granite 3", R"({"architectures":["GraniteForCausalLM"],"attention_bias":false,"attention_dropout":0.1,
      "attention_multiplier":0.015625,"bos_token_id":0,"embedding_multiplier":12.0,"eos_token_id":0,
      "hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,"intermediate_size":8192,"logits_scaling":8.0,
      "max_position_embeddings":131072,"mlp_bias":false,"model_type":"granite","num_attention_heads":32,
      "num_hidden_layers":1,"num_key_value_heads":8,"pad_token_id":0,"residual_multiplier":0.22,"rms_norm_eps":1e-05,
      "rope_scaling":null,"rope_theta":5000000.0,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
      "transformers_version":"4.47.0.dev0","use_cache":true,"vocab_size":49155})",
     "V49155 M2048 F8192 L1 H32/8 D64 max131072 eps=1e-05 act=1 tied emb*12 res*0.22 logit*0.125 scale=0.015625 | "
     "default theta=5000000 | full"},
    {"an OLMo 3", R"({"architectures":["Olmo3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "eos_token_id":100257,"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,"intermediate_size":11008,
      "layer_types":["sliding_attention","full_attention"],"max_position_embeddings":65536,"model_type":"olmo3",
      "num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":32,"pad_token_id":100277,
      "rms_norm_eps":1e-06,"rope_scaling":{"attention_factor":1.2079441541679836,"beta_fast":32.0,"beta_slow":1.0,
      "factor":8.0,"original_max_position_embeddings":8192,"rope_type":"yarn"},"rope_theta":500000,
      "sliding_window":4096,"tie_word_embeddings":false,"transformers_version":"4.57.0.dev0","use_cache":false,
      "vocab_size":100278})",
     "V100278 M4096 F11008 L2 H32/32 D128 max65536 eps=1e-06 act=1 widenorm | yarn theta=500000 factor=8 original=8192 "
     "fast=32 slow=1 attention=1.2079441541679836; default theta=500000 | 4096:1,full:0"},
    {"a Ministral 8B", R"({"architectures":["MinistralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
      "eos_token_id":2,"head_dim":128,"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,
      "intermediate_size":12288,"layer_types":["full_attention","sliding_attention"],"max_position_embeddings":131072,
      "model_type":"ministral","num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":8,
      "rms_norm_eps":1e-05,"rope_theta":100000000.0,"sliding_window":32768,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","use_cache":true,"vocab_size":131072})",
     "V131072 M4096 F12288 L2 H32/8 D128 max131072 eps=1e-05 act=1 | default theta=100000000 | full,32768"},
    {"a Ministral 3", R"({"architectures":["Ministral3ForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
      "eos_token_id":2,"head_dim":128,"hidden_act":"silu","hidden_size":3072,"initializer_range":0.02,
      "intermediate_size":9216,"max_position_embeddings":262144,"model_type":"ministral3","num_attention_heads":32,
      "num_hidden_layers":1,"num_key_value_heads":8,"pad_token_id":11,"rms_norm_eps":1e-05,
      "rope_parameters":{"beta_fast":32.0,"beta_slow":1.0,"factor":16.0,"llama_4_scaling_beta":0.1,"mscale":1.0,
      "mscale_all_dim":1.0,"original_max_position_embeddings":16384,"rope_theta":1000000.0,"rope_type":"yarn",
      "type":"yarn"},"sliding_window":null,"tie_word_embeddings":true,"dtype":"bfloat16","use_cache":true,
      "vocab_size":131072})",
     "V131072 M3072 F9216 L1 H32/8 D128 max262144 eps=1e-05 act=1 tied | yarn theta=1000000 factor=16 original=16384 "
     "fast=32 slow=1 attention=1 query=0.1 | full"},
    {"a SmolLM3", R"({"architectures":["SmolLM3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":null,"eos_token_id":128012,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,
      "intermediate_size":11008,"layer_types":["full_attention","full_attention"],"max_position_embeddings":65536,
      "max_window_layers":28,"mlp_bias":false,"model_type":"smollm3","no_rope_layer_interval":4,
      "no_rope_layers":[1,0],"num_attention_heads":16,"num_hidden_layers":2,"num_key_value_heads":4,
      "pad_token_id":128004,"pretraining_tp":2,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":5000000.0,
      "sliding_window":null,"torch_dtype":"bfloat16","use_cache":false,"use_sliding_window":false,
      "vocab_size":128256})",
     "V128256 M2048 F11008 L2 H16/4 D128 max65536 eps=1e-06 act=1 tied | default theta=5000000 | full,full:unrotated"},
    {"a Seed-OSS", R"({"architectures":["SeedOssForCausalLM"],"attention_bias":true,"attention_dropout":0.1,
      "attention_out_bias":false,"bos_token_id":0,"eos_token_id":2,"head_dim":128,"hidden_act":"silu",
      "hidden_size":5120,"initializer_range":0.02,"intermediate_size":27648,"max_position_embeddings":524288,
      "mlp_bias":false,"model_type":"seed_oss","num_attention_heads":80,"num_hidden_layers":1,
      "num_key_value_heads":8,"pad_token_id":1,"residual_dropout":0.1,"rms_norm_eps":1e-06,
      "rope_scaling":{"rope_type":"default"},"rope_theta":10000000.0,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","use_cache":true,"vocab_size":155136})",
     "V155136 M5120 F27648 L1 H80/8 D128 max524288 eps=1e-06 act=1 qkvbias | default theta=10000000 | full"},
    {"an AFM 4.5B", R"({"architectures":["ArceeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":128000,"eos_token_id":128001,"head_dim":128,"hidden_act":"relu2","hidden_size":2560,
      "initializer_range":0.02,"intermediate_size":18432,"max_position_embeddings":65536,"mlp_bias":false,
      "model_type":"arcee","num_attention_heads":20,"num_hidden_layers":1,"num_key_value_heads":4,
      "rms_norm_eps":1e-05,"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":20.0,"mscale":1.0,
      "original_max_position_embeddings":4096,"rope_type":"yarn","type":"yarn"},"rope_theta":10000.0,
      "tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":128005})",
     "V128005 M2560 F18432 L1 H20/4 D128 max65536 eps=1e-05 act=5 | yarn theta=10000 factor=20 original=4096 fast=32 "
     "slow=1 attention=1.299573227355399 | full"},
    {"an EXAONE 4.0 32B", R"({"architectures":["Exaone4ForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
      "eos_token_id":361,"head_dim":128,"hidden_act":"silu","hidden_size":5120,"initializer_range":0.02,
      "intermediate_size":27392,"layer_types":["sliding_attention","full_attention"],"max_position_embeddings":131072,
      "model_type":"exaone4","num_attention_heads":40,"num_hidden_layers":2,"num_key_value_heads":8,"pad_token_id":0,
      "rms_norm_eps":1e-05,"rope_scaling":{"factor":16.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
      "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":1000000,"sliding_window":4096,
      "sliding_window_pattern":"LLLG","tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,
      "vocab_size":102400})",
     "V102400 M5120 F27392 L2 H40/8 D128 max131072 eps=1e-05 act=1 | llama3 theta=1000000 factor=16 low=1 high=4 "
     "original=8192 | 4096,full:unrotated"},
    {"a StarCoder2 3B", R"({"architectures":["Starcoder2ForCausalLM"],"attention_dropout":0.1,
      "attention_softmax_in_fp32":true,"bos_token_id":0,"embedding_dropout":0.1,"eos_token_id":0,
      "hidden_act":"gelu_pytorch_tanh","hidden_size":3072,"initializer_range":0.018042,"intermediate_size":12288,
      "max_position_embeddings":16384,"mlp_type":"default","model_type":"starcoder2","norm_epsilon":1e-05,
      "norm_type":"layer_norm","num_attention_heads":24,"num_hidden_layers":1,"num_key_value_heads":2,
      "residual_dropout":0.1,"rope_theta":999999.4420358813,"scale_attention_softmax_in_fp32":true,
      "scale_attn_weights":true,"sliding_window":4096,"torch_dtype":"bfloat16","use_bias":true,"use_cache":true,
      "vocab_size":49152})",
     "V49152 M3072 F12288 L1 H24/2 D128 max16384 eps=1e-05 act=2 tied layernorm qkvbias obias mlpbias | default "
     "theta=999999.4420358813 | 4096"},
    {"a Minitron 4B", R"({"architectures":["NemotronForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":2,"eos_token_id":3,"head_dim":128,"hidden_act":"relu2","hidden_size":3072,
      "initializer_range":0.0134,"intermediate_size":9216,"max_position_embeddings":4096,"mlp_bias":false,
      "model_type":"nemotron","norm_eps":1e-05,"num_attention_heads":24,"num_hidden_layers":1,
      "num_key_value_heads":8,"partial_rotary_factor":0.5,"rope_theta":10000,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","use_cache":true,"vocab_size":256000})",
     "V256000 M3072 F9216 L1 H24/8 D128 max4096 eps=1e-05 act=5 layernorm 1+w | default theta=10000 rotary=64 | full"},
    {"a Stable LM 2 1.6B", R"({"architectures":["StableLmForCausalLM"],"bos_token_id":100257,"eos_token_id":100257,
      "hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,"intermediate_size":5632,
      "layer_norm_eps":1e-05,"max_position_embeddings":4096,"model_type":"stablelm","num_attention_heads":32,
      "num_hidden_layers":1,"num_key_value_heads":32,"partial_rotary_factor":0.25,"rope_theta":10000,
      "tie_word_embeddings":false,"torch_dtype":"float16","transformers_version":"4.38.0","use_cache":true,
      "use_qkv_bias":true,"vocab_size":100352})",
     "V100352 M2048 F5632 L1 H32/32 D64 max4096 eps=1e-05 act=1 layernorm qkvbias | default theta=10000 rotary=16 | full"},
    {"an ERNIE 4.5 0.3B", R"({"architectures":["Ernie4_5ForCausalLM"],"bos_token_id":1,"eos_token_id":2,"head_dim":128,
      "hidden_act":"silu","hidden_size":1024,"intermediate_size":3072,"max_position_embeddings":131072,
      "model_type":"ernie4_5","num_attention_heads":16,"num_hidden_layers":1,"num_key_value_heads":2,"pad_token_id":0,
      "rms_norm_eps":1e-05,"rope_theta":500000,"tie_word_embeddings":true,"torch_dtype":"bfloat16","use_bias":false,
      "use_cache":false,"vocab_size":103424})",
     "V103424 M1024 F3072 L1 H16/2 D128 max131072 eps=1e-05 act=1 tied | default theta=500000 | full"},
    {"a GLM-4 9B", R"({"architectures":["Glm4ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "eos_token_id":[151329,151336,151338],"head_dim":128,"hidden_act":"silu","hidden_size":4096,
      "initializer_range":0.02,"intermediate_size":13696,"max_position_embeddings":32768,"model_type":"glm4",
      "num_attention_heads":32,"num_hidden_layers":1,"num_key_value_heads":2,"pad_token_id":151329,
      "partial_rotary_factor":0.5,"rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,
      "torch_dtype":"bfloat16","use_cache":true,"vocab_size":151552})",
     "V151552 M4096 F13696 L1 H32/2 D128 max32768 eps=1e-05 act=1 | default theta=10000 rotary=64 | full"},
    {"a Command R7B", R"({"architectures":["Cohere2ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
      "bos_token_id":5,"cache_implementation":"hybrid","eos_token_id":255001,"head_dim":128,"hidden_act":"silu",
      "hidden_size":4096,"initializer_range":0.02,"intermediate_size":14336,"layer_norm_eps":1e-05,"layer_switch":4,
      "logit_scale":0.25,"max_position_embeddings":8192,"model_type":"cohere2","num_attention_heads":32,
      "num_hidden_layers":4,"num_key_value_heads":8,"order_of_interleaved_layers":"local_attn_first","pad_token_id":0,
      "position_embedding_type":"rope_gptj","rope_scaling":null,"rope_theta":50000,"rotary_pct":1.0,
      "sliding_window":4096,"sliding_window_pattern":4,"torch_dtype":"bfloat16","use_cache":true,
      "use_embedding_sharing":true,"use_gated_activation":true,"use_parallel_block":true,
      "use_parallel_embedding":true,"vocab_size":256000})",
     "V256000 M4096 F14336 L4 H32/8 D128 max8192 eps=1e-05 act=1 tied layernorm nobias parallel1 logit*0.25 | default "
     "theta=50000 | 4096,4096,4096,full:unrotated"},
    {"a Gemma 3 4B", R"({"architectures":["Gemma3ForConditionalGeneration"],"boi_token_index":255999,
      "eoi_token_index":256000,"eos_token_id":[1,106],"image_token_index":262144,"initializer_range":0.02,
      "mm_tokens_per_image":256,"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,
      "model_type":"gemma3_text","num_hidden_layers":6,"rope_scaling":{"factor":8.0,"rope_type":"linear"},
      "sliding_window":1024},"torch_dtype":"bfloat16","transformers_version":"4.50.0.dev0","vision_config":
      {"hidden_size":1152,"image_size":896,"intermediate_size":4304,"model_type":"siglip_vision_model",
      "num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,"vision_use_head":false}})",
     "gemma3: V262208 M2560 F10240 L6 H8/4 D256 max131072 eps=1e-06 act=2 tied 1+w emb*50.5964 scale=0.0625 images=262144 "
     "| linear theta=1000000 factor=8; default theta=10000 | 1024:1,1024:1,1024:1,1024:1,1024:1,full:0"},
    {"a Mistral Small 3.1", R"({"architectures":["Mistral3ForConditionalGeneration"],"image_token_index":10,
      "model_type":"mistral3","multimodal_projector_bias":false,"projector_hidden_act":"gelu","spatial_merge_size":2,
      "text_config":{"attention_dropout":0.0,"head_dim":128,"hidden_act":"silu","hidden_size":5120,
      "initializer_range":0.02,"intermediate_size":32768,"max_position_embeddings":131072,"model_type":"mistral",
      "num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":8,"rms_norm_eps":1e-05,
      "rope_theta":1000000000.0,"sliding_window":null,"use_cache":true,"vocab_size":131072},
      "torch_dtype":"bfloat16","transformers_version":"4.50.0.dev0","vision_config":{"model_type":"pixtral"},
      "vision_feature_layer":-1})",
     "mistral3: V131072 M5120 F32768 L2 H32/8 D128 max131072 eps=1e-05 act=1 tied images=10 | default theta=1000000000 | "
     "full,full"},
    {"a Qwen2.5-VL", R"({"architectures":["Qwen2_5_VLForConditionalGeneration"],"attention_dropout":0.0,
      "bos_token_id":151643,"eos_token_id":151645,"hidden_act":"silu","hidden_size":3584,"image_token_id":151655,
      "initializer_range":0.02,"intermediate_size":18944,"max_position_embeddings":128000,"max_window_layers":28,
      "model_type":"qwen2_5_vl","num_attention_heads":28,"num_hidden_layers":2,"num_key_value_heads":4,
      "rms_norm_eps":1e-06,"rope_scaling":{"mrope_section":[16,24,24],"type":"mrope"},"rope_theta":1000000.0,
      "sliding_window":32768,"tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.41.2",
      "use_cache":true,"use_sliding_window":false,"video_token_id":151656,"vision_config":{"hidden_size":1280},
      "vision_end_token_id":151653,"vision_start_token_id":151652,"vision_token_id":151654,"vocab_size":152064})",
     "qwen2_5_vl: V152064 M3584 F18944 L2 H28/4 D128 max128000 eps=1e-06 act=1 qkvbias images=151655,151656 | default "
     "theta=1000000 | full,full"},
    {"a Gemma 4 with inputs of each layer", R"({"architectures":["Gemma4ForCausalLM"],"attention_bias":false,
      "attention_dropout":0.0,"attention_k_eq_v":false,"bos_token_id":2,"dtype":"bfloat16","enable_moe_block":false,
      "eos_token_id":1,"final_logit_softcapping":30.0,"global_head_dim":512,"head_dim":256,
      "hidden_activation":"gelu_pytorch_tanh","hidden_size":1536,"hidden_size_per_layer_input":256,
      "initializer_range":0.02,"intermediate_size":6144,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],"max_position_embeddings":131072,"model_type":"gemma4_text",
      "moe_intermediate_size":null,"num_attention_heads":8,"num_experts":null,"num_global_key_value_heads":null,
      "num_hidden_layers":4,"num_key_value_heads":1,"num_kv_shared_layers":2,"pad_token_id":0,"rms_norm_eps":1e-06,
      "rope_parameters":{"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,
      "rope_type":"proportional"},"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}},
      "sliding_window":512,"tie_word_embeddings":true,"top_k_experts":null,"use_bidirectional_attention":null,
      "use_cache":true,"use_double_wide_mlp":true,"vocab_size":262144,"vocab_size_per_layer_input":262144})",
     "V262144 M1536 F6144 L4 H8/1 D256 max131072 eps=1e-06 act=2 tied emb*39.1918 logitcap=30 scale=1 | proportional "
     "theta=1000000 partial=0.25 factor=1; default theta=10000 | 512:1,full:0,512:1,full:0"},
    {"a Gemma 4 with images", R"({"architectures":["Gemma4ForConditionalGeneration"],"audio_config":null,
      "audio_token_id":258881,"boa_token_id":256000,"boi_token_id":255999,"dtype":"bfloat16","eoa_token_index":258883,
      "eoi_token_id":258882,"eos_token_id":[1,106],"image_token_id":258880,"model_type":"gemma4","text_config":{
      "attention_k_eq_v":true,"enable_moe_block":true,"final_logit_softcapping":30.0,"global_head_dim":512,
      "head_dim":256,"hidden_size":2816,"hidden_size_per_layer_input":0,"intermediate_size":2112,"layer_types":[
      "sliding_attention","full_attention"],"max_position_embeddings":262144,"model_type":"gemma4_text",
      "moe_intermediate_size":704,"num_attention_heads":16,"num_experts":128,"num_global_key_value_heads":2,
      "num_hidden_layers":2,"num_key_value_heads":8,"num_kv_shared_layers":0,"sliding_window":1024,"top_k_experts":8,
      "use_bidirectional_attention":"vision","vocab_size":262144},"tie_word_embeddings":true,"video_token_id":258884,
      "vision_config":{"hidden_size":1152}})",
     "gemma4: V262144 M2816 F2112 L2 H16/8 D256 max262144 eps=1e-06 act=2 tied experts=8/128x704 renormalised "
     "shared=2112 ungated emb*53.066 logitcap=30 scale=1 images=258880,258881,258884 | proportional theta=1000000 "
     "partial=0.25 factor=1; default theta=10000 | 1024:1,full:0"},
    {"a Qwen3-VL", R"({"architectures":["Qwen3VLForConditionalGeneration"],"image_token_id":151655,
      "model_type":"qwen3_vl","text_config":{"attention_bias":false,"attention_dropout":0.0,"bos_token_id":151643,
      "dtype":"bfloat16","eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":2048,
      "initializer_range":0.02,"intermediate_size":6144,"max_position_embeddings":262144,"model_type":"qwen3_vl_text",
      "num_attention_heads":16,"num_hidden_layers":1,"num_key_value_heads":8,"rms_norm_eps":1e-06,
      "rope_scaling":{"mrope_interleaved":true,"mrope_section":[24,20,20],"rope_type":"default"},"rope_theta":5000000,
      "tie_word_embeddings":true,"use_cache":true,"vocab_size":151936},"tie_word_embeddings":true,
      "transformers_version":"4.57.0.dev0","video_token_id":151656,"vision_config":{"depth":24},
      "vision_end_token_id":151653,"vision_start_token_id":151652})",
     "qwen3_vl: V151936 M2048 F6144 L1 H16/8 D128 max262144 eps=1e-06 act=1 tied images=151655,151656 | default "
     "theta=5000000 | full"},
};

std::vector<Published> AllPublished() {
  std::vector<Published> all(std::begin(kPublished), std::end(kPublished));
  all.insert(all.end(), std::begin(kPublishedLatent), std::end(kPublishedLatent));
  return all;
}

TEST(ArchitecturesTest, PublishedFilesAreRead) {
  for (const Published& file : AllPublished()) EXPECT_EQ(Parsed(file.json), file.summary) << file.name;
}

TEST(ArchitecturesTest, EveryRowHasAPublishedFile) {
  std::set<std::string> seen;
  for (const Published& file : AllPublished()) {
    const auto config = ParseModelConfig(file.json);
    ASSERT_TRUE(config.ok()) << file.name << ": " << config.status();
    seen.insert(config->model_type);
    seen.insert(config->wrapper);
  }
  for (const Architecture& row : Architectures()) EXPECT_TRUE(seen.contains(row.model_type)) << row.model_type;
  for (const Wrapper& row : Wrappers()) EXPECT_TRUE(seen.contains(row.model_type)) << row.model_type;
}

// ---- Edits of a small file ----

// The smallest file of each row: sizes, and nothing else.
Json Small(const std::string& model_type) {
  if (model_type == "gpt2") {
    return *ParseJson(R"({"model_type":"gpt2","vocab_size":99,"n_embd":64,"n_layer":3,"n_head":4,"n_positions":512})");
  }
  Json json = *ParseJson(R"({"vocab_size":99,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,
      "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":512})");
  json["model_type"] = model_type;
  if (model_type == "ministral3") {
    json["rope_parameters"] = *ParseJson(R"({"rope_type":"yarn","factor":2.0,"original_max_position_embeddings":64,
        "llama_4_scaling_beta":0.1})");
  }
  if (model_type == "granitemoehybrid") {
    json["layer_types"] = {"attention", "mamba", "attention"};
    json["shared_intermediate_size"] = 48;
  }
  if (model_type == "bamba") json["attn_layer_indices"] = {0, 2};
  if (model_type == "nemotron_h") {
    json.erase("num_hidden_layers");
    json["hybrid_override_pattern"] = "M*-";
  }
  const Architecture* row = FindArchitecture(model_type);
  if (model_type == "gpt_neox" || (row != nullptr && row->latent.rank_default > 0)) json.erase("num_key_value_heads");
  if (model_type == "deepseek_v2") json["num_experts_per_tok"] = 2;
  return json;
}

// `edits` is an object: its keys are set, or removed where the value is "-".
Json Edited(const std::string& model_type, const char* edits) {
  Json json = Small(model_type);
  const absl::StatusOr<Json> changes = ParseJson(edits);
  EXPECT_TRUE(changes.ok()) << edits;
  for (const auto& [key, value] : changes->items()) {
    if (value == "-") {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  return json;
}

struct Meaning {
  const char* model_type;
  const char* edits;
  const char* summary;  // a part of it
};

constexpr Meaning kMeanings[] = {
    // Defaults of missing keys, as in transformers.
    {"llama", R"({"num_key_value_heads":"-"})", "H4/4 D16 max512 eps=1e-06 act=1 | default theta=10000 | full"},
    {"mistral", R"({"num_attention_heads":16,"num_key_value_heads":"-"})", "H16/8 D4"},
    {"mistral", R"({"num_key_value_heads":null})", "H4/4"},
    {"mistral", R"({"max_position_embeddings":8192})", "| 4096,4096,4096"},
    {"mistral", R"({"sliding_window":null})", "| full,full,full"},
    {"qwen2", R"({"num_attention_heads":64,"hidden_size":128,"num_key_value_heads":"-"})", "H64/32 D2"},
    {"qwen3", R"({})", "D128 max512 eps=1e-06 act=1 |"},
    {"gemma3_text", R"({})",
     "D256 max512 eps=1e-06 act=2 tied 1+w emb*8 scale=0.0625 | default theta=1000000; default "
     "theta=10000 | full:1,full:1,full:1"},  // windows of 4096 positions, of 512
    {"olmo2", R"({})", "eps=1e-05 act=1 widenorm |"},
    {"gpt2", R"({})", "M64 F256 L3 H4/4 D16 max512 eps=1e-05 act=2 tied layernorm qkvbias obias mlpbias scale=0.25"},
    {"gpt_neox", R"({})", "eps=1e-05 act=3 layernorm parallel qkvbias obias mlpbias | default theta=10000 rotary=4"},
    {"phi3", R"({})", "eps=1e-05 act=1 | default theta=10000 | full"},
    {"granite", R"({})", "act=1 scale=1 | default theta=10000"},
    {"gemma2", R"({"sliding_window":100})",
     "D256 max512 eps=1e-06 act=2 tied 1+w emb*8 cap=50 logitcap=30 scale=0.0625 | default theta=10000 | 100,full,100"},
    {"gemma2", R"({"attn_logit_softcapping":null,"final_logit_softcapping":5})", "emb*8 logitcap=5 scale"},
    {"gemma2", R"({"attn_logit_softcapping":2.5,"final_logit_softcapping":null})", "emb*8 cap=2.5 scale"},
    {"olmo3", R"({"max_position_embeddings":8192})",
     "eps=1e-05 act=1 widenorm | default theta=500000; default theta=500000 | 4096:1,4096:1,4096:1"},
    {"olmo3", R"({"num_hidden_layers":5,"sliding_window":100})", "| 100:1,100:1,100:1,full:0,100:1"},
    {"ministral", R"({"max_position_embeddings":8192})", "D16 max8192 eps=1e-06 act=1 | default theta=10000 | 4096,"},
    {"ministral", R"({"num_attention_heads":16,"num_key_value_heads":"-"})", "H16/8 D4"},
    {"ministral", R"({"sliding_window":null})", "| full,full,full"},
    {"ministral", R"({"sliding_window":100,"layer_types":["full_attention","sliding_attention","full_attention"]})",
     "| full,100,full"},
    {"ministral3", R"({})", "H4/2 D128 max512 eps=1e-05 act=1 | yarn theta=10000 factor=2 original=64 "},
    {"ministral3", R"({"rope_parameters":{"rope_type":"yarn","factor":16,"mscale":1,"mscale_all_dim":1,
                       "llama_4_scaling_beta":0.25,"max_position_embeddings":512,
                       "original_max_position_embeddings":32}})",
     "| yarn theta=10000 factor=16 original=32 fast=32 slow=1 attention=1 query=0.25 | full,full,full"},
    {"smollm3", R"({"num_hidden_layers":5})",
     "act=1 tied | default theta=2000000 | full,full,full,full:unrotated,full"},
    {"smollm3", R"({"num_attention_heads":8,"num_key_value_heads":"-"})", "H8/4 D8"},
    {"smollm3", R"({"no_rope_layer_interval":2})", "| full,full:unrotated,full"},
    {"smollm3", R"({"no_rope_layer_interval":2,"no_rope_layers":[0,1,1]})", "| full:unrotated,full,full"},
    {"smollm3", R"({"no_rope_layers":[0,1,1],"sliding_window":100})", "| full:unrotated,full,full"},
    {"smollm3", R"({"no_rope_layers":[0,1,1],"sliding_window":100,"use_sliding_window":true})",
     "| 100:unrotated,full,full"},
    {"smollm3", R"({"sliding_window":100,"use_sliding_window":true,
                    "layer_types":["full_attention","sliding_attention","full_attention"]})",
     "| full,100,full"},
    {"seed_oss", R"({})", "D128 max512 eps=1e-06 act=1 qkvbias | default theta=10000 | full,full,full"},
    {"seed_oss", R"({"attention_bias":false,"attention_out_bias":true,"mlp_bias":true})", "act=1 obias mlpbias |"},
    {"arcee", R"({})", "D16 max512 eps=1e-05 act=5 | default theta=10000 | full"},
    {"arcee", R"({"attention_bias":true,"mlp_bias":true,"hidden_act":"silu"})", "act=1 qkvbias obias mlpbias |"},
    {"exaone4", R"({"sliding_window":100,"num_hidden_layers":5})",
     "eps=1e-05 act=1 | default theta=10000 | 100,100,100,full:unrotated,100"},
    {"exaone4", R"({"num_attention_heads":64,"hidden_size":128,"num_key_value_heads":"-"})", "H64/32 D2"},
    // A window of at least max_position_embeddings is no window, but its layers are the rotated ones.
    {"exaone4", R"({"sliding_window_pattern":2})", "| full,full:unrotated,full"},
    {"exaone4", R"({"sliding_window":null})", "| full,full,full"},
    {"exaone4", R"({"sliding_window":null,"sliding_window_pattern":null,
                    "layer_types":["full_attention","full_attention","full_attention"]})",
     "| full,full,full"},
    {"starcoder2", R"({})", "eps=1e-05 act=2 tied layernorm qkvbias obias mlpbias | default theta=10000 | full"},
    {"starcoder2", R"({"use_bias":false,"sliding_window":100})", "tied layernorm | default theta=10000 | 100,100,100"},
    {"nemotron", R"({})", "D16 max512 eps=1e-05 act=5 layernorm 1+w | default theta=10000 rotary=8 | full"},
    {"nemotron", R"({"partial_rotary_factor":1,"attention_bias":true,"mlp_bias":true})",
     "layernorm 1+w qkvbias obias mlpbias | default theta=10000 | full"},
    {"stablelm", R"({})", "eps=1e-05 act=1 layernorm | default theta=10000 rotary=4 | full"},
    {"stablelm", R"({"use_qkv_bias":true,"use_parallel_residual":true})", "layernorm parallel1 qkvbias |"},
    {"ernie4_5", R"({})", "D128 max512 eps=1e-05 act=1 tied | default theta=500000 | full"},
    {"ernie4_5", R"({"use_bias":true,"head_dim":16})", "tied qkvbias obias mlpbias |"},
    {"glm4", R"({})", "D128 max512 eps=1.5625e-07 act=1 qkvbias | default theta=10000 rotary=64 | full"},
    {"glm4", R"({"rope_parameters":{"rope_type":"default","rope_theta":7}})", "| default theta=7 rotary=64 | full"},
    {"cohere2", R"({})", "act=1 tied layernorm nobias parallel1 logit*0.0625 | default theta=10000 | full,full,full"},
    {"cohere2", R"({"sliding_window":100,"num_hidden_layers":5})", "| 100,100,100,full:unrotated,100"},
    {"cohere2", R"({"sliding_window":100,"layer_types":["full_attention","sliding_attention","full_attention"]})",
     "| full:unrotated,100,full:unrotated"},
    {"qwen2_5_vl_text", R"({})", "eps=1e-05 act=1 qkvbias | default theta=1000000 | full"},
    {"qwen2_5_vl_text", R"({"sliding_window":100,"use_sliding_window":true})", "| full,full,full"},  // from layer 80 on
    {"qwen2_5_vl_text", R"({"rope_scaling":{"type":"mrope","mrope_section":[1,2,1]}})", "| default theta=1000000 |"},
    {"qwen3_vl_text", R"({})", "D128 max512 eps=1e-06 act=1 | default theta=500000 | full"},
    // Mixtures of experts.
    {"qwen3_moe", R"({"num_attention_heads":8,"num_key_value_heads":"-"})",
     "H8/4 D8 max512 eps=1e-06 act=1 experts=8/128x768 | default theta=10000 | full,full,full"},
    {"qwen3_moe", R"({"num_local_experts":16,"num_experts_per_tok":3,"decoder_sparse_step":2,"norm_topk_prob":true})",
     "experts=3/16x768 renormalised plain0 plain2 |"},
    {"qwen3_moe", R"({"num_experts":16,"num_local_experts":16,"mlp_only_layers":[1],"attention_bias":true})",
     "experts=8/16x768 plain1 qkvbias obias |"},
    {"qwen3_moe", R"({"use_sliding_window":true,"sliding_window":100})", "| 100,100,100"},
    {"qwen3_moe", R"({"use_sliding_window":true,"sliding_window":null})", "| full,full,full"},
    {"olmoe", R"({"clip_qkv":8.0,"num_key_value_heads":"-"})",
     "H4/4 D16 max512 eps=1e-05 act=1 widenorm experts=8/64x96 clip=8 |"},
    {"mixtral", R"({"num_attention_heads":16,"num_key_value_heads":"-"})",
     "H16/8 D4 max512 eps=1e-05 act=1 experts=2/8x96 renormalised | default theta=1000000 | full"},
    {"mixtral", R"({"num_experts":4,"sliding_window":100,"router_jitter_noise":0.1})", "experts=2/4x96 renormalised"},
    {"qwen2_moe", R"({"num_attention_heads":32,"hidden_size":128,"num_key_value_heads":"-"})",
     "H32/16 D4 max512 eps=1e-06 act=1 experts=4/60x1408 shared=5632 qkvbias |"},
    {"qwen2_moe", R"({"qkv_bias":false,"sliding_window":0,"mlp_only_layers":null})",
     "shared=5632 | default theta=10000"},
    {"qwen2_moe", R"({"use_sliding_window":true,"sliding_window":100,
                      "layer_types":["full_attention","sliding_attention","full_attention"]})",
     "| full,100,full"},
    {"gpt_oss", R"({"num_attention_heads":16,"num_key_value_heads":"-"})",
     "H16/8 D64 max512 eps=1e-05 act=7 alpha=1.702 limit=7 {\"attention_sink\":{\"mode\":\"learned\"}} "
     "experts=4/128x96 renormalised qkvbias obias | yarn theta=150000 factor=32 original=4096 fast=32 slow=1 "
     "untruncated attention=1.3465735902799727 | 128,full,128"},
    {"gpt_oss", R"({"num_experts":8,"swiglu_alpha":1.5,"swiglu_limit":3,"attention_bias":false,"sliding_window":64})",
     "alpha=1.5 limit=3 {\"attention_sink\":{\"mode\":\"learned\"}} experts=4/8x96 renormalised | yarn"},
    {"phi", R"({"num_key_value_heads":"-"})",
     "H4/4 D16 max512 eps=1e-05 act=2 layernorm parallel1 qkvbias obias mlpbias | default theta=10000 rotary=8 | full"},
    {"apertus", R"({"num_key_value_heads":"-"})",
     "H4/4 D16 max512 eps=1e-05 act=6 | llama3 theta=12000000 factor=8 low=1 high=4 original=8192 | full"},
    {"apertus", R"({"rope_scaling":{"rope_type":"default"},"hidden_act":"silu"})", "act=1 | default theta=12000000 |"},
    {"hunyuan_v1_dense", R"({"num_key_value_heads":"-"})",
     "H4/4 D16 max512 eps=1e-05 act=1 latenorm | default theta=10000 | full"},
    {"hunyuan_v1_dense", R"({"rope_scaling":{"type":"dynamic","factor":2,"alpha":0}})",
     "max1024 eps=1e-05 act=1 latenorm | dynamic theta=10000 factor=2 original=512 | full"},
    // Null: the width of all heads, divided.
    {"seed_oss", R"({"head_dim":null})", "H4/2 D16 max512"},
    {"ernie4_5", R"({"head_dim":null})", "H4/2 D16 max512"},
    {"ministral3", R"({"head_dim":null})", "H4/2 D16 max512"},
    {"qwen3_next", R"({"num_hidden_layers":5,"num_experts":16})",
     "D256 max512 eps=1e-06 act=1 1+w experts=10/16x512 renormalised shared=512 gate delta=16x128/32x128 conv=4 | default "
     "theta=10000 rotary=64 | state,state,state,full,state"},
    {"qwen3_next",
     R"({"layer_types":["full_attention","full_attention","full_attention"],"full_attention_interval":9})",
     "shared=512 gate | default theta=10000 rotary=64 | full,full,full"},
    {"qwen3_5_text", R"({"full_attention_interval":2,"linear_num_key_heads":2,"linear_num_value_heads":6,
                         "linear_key_head_dim":8,"linear_value_head_dim":24,"linear_conv_kernel_dim":2})",
     "1+w gate delta=2x8/6x24 conv=2 | default theta=10000 rotary=64 | state,full,state"},
    {"granitemoehybrid", R"({"mamba_n_heads":8})",
     "F48 L3 H4/2 D16 max512 eps=1e-06 act=1 experts=2/8x96 renormalised shared=48 ungated statespace=1x256/8x16 conv=4 "
     "convbias scale=1 | none | full,state,full"},
    {"granitemoehybrid",
     R"({"num_local_experts":0,"mamba_n_heads":8,"mamba_n_groups":2,"mamba_d_state":8,"mamba_d_head":16,
                             "mamba_conv_bias":false,"mamba_proj_bias":true,"position_embedding_type":"rope",
                             "layer_types":["linear_attention","full_attention","mamba"]})",
     "act=1 statespace=2x8/8x16 conv=4 statebias scale=1 | default theta=10000 | state,full,state"},
    {"granitemoehybrid", R"({"layer_types":["attention","attention","attention"],"num_local_experts":0,
                             "hidden_act":"gelu"})",
     "act=3 scale=1 | none | full,full,full"},
    {"falcon_h1", R"({"mamba_d_ssm":null,"mamba_n_heads":8,"mamba_rms_norm":true})",
     "F96 L3 H4/2 D16 max512 eps=1e-05 act=1 statespace=1x256/8x16 normfirst conv=4 convbias scale=0.25 | default "
     "theta=10000 | state+full,state+full,state+full"},
    {"falcon_h1", R"({"num_attention_heads":16,"num_key_value_heads":"-","mamba_rms_norm":true,
                      "mamba_norm_before_gate":false,"mamba_conv_bias":false})",
     "H16/8 D4 max512 eps=1e-05 act=1 statespace=1x256/128x8 conv=4 scale=0.5 |"},
    {"falcon_h1",
     R"({"mamba_n_heads":64,"attention_in_multiplier":2,"key_multiplier":0.5,"attention_out_multiplier":0.25,
                      "mlp_multipliers":[2,0.25],"ssm_multipliers":[1,2,3,4,5],"ssm_in_multiplier":0.5})",
     "act=8 alpha=2 limit=0 statespace=1x256/64x16 ungrouped conv=4 convbias space*0.5,1,1.5,2,2.5 out*0.5,1,0.5 scale=0.5"},
    {"bamba", R"({})",
     "F96 L3 H4/2 D16 max512 eps=1e-05 act=1 statespace=1x256/128x1 conv=4 convbias | default theta=10000 rotary=8 | "
     "full,state,full"},
    {"bamba", R"({"attn_layer_indices":[1],"attention_bias":true,"mlp_bias":true,"mamba_proj_bias":true,
                  "mamba_conv_bias":false,"mamba_n_heads":8,"mamba_n_groups":2,"rope_parameters":{"rope_theta":7,"rope_type":"default",
                  "partial_rotary_factor":0.25}})",
     "F96 L3 H4/2 D16 max512 eps=1e-05 act=1 statespace=2x256/8x16 conv=4 statebias qkvbias obias mlpbias | default "
     "theta=7 rotary=4 | state,full,state"},
    {"nemotron_h", R"({})",
     "F96 L3 H4/2 D128 max512 eps=1e-05 act=5 statespace=8x128/128x64 step=0.001 conv=4 convbias | none | "
     "state,full,mlp"},
    {"nemotron_h", R"({"layers_block_type":["mlp","full_attention","linear_attention","attention"],"time_step_min":0,
                       "mamba_num_heads":16,"mamba_head_dim":4,"n_groups":2,"use_bias":true,"use_conv_bias":false,
                       "mlp_bias":true,"head_dim":16})",
     "L4 H4/2 D16 max512 eps=1e-05 act=5 statespace=2x128/16x4 conv=4 statebias mlpbias | none | mlp,full,state,full"},
    {"lfm2", R"({})", "F256 L3 H4/2 D16 max512 eps=1e-05 act=1 tied | default theta=1000000 | full,full,full"},
    {"lfm2", R"({"full_attn_idxs":[0,2],"block_multiple_of":1,"block_ffn_dim_multiplier":1.5,"conv_bias":true})",
     "F96 L3 H4/2 D16 max512 eps=1e-05 act=1 tied conv=3 convbias statebias | default theta=1000000 | full,state,full"},
    {"lfm2", R"({"layer_types":["conv","full_attention","conv"],"block_auto_adjust_ff_dim":false,"block_ff_dim":40,
                 "tie_embedding":false,"conv_L_cache":4})",
     "F40 L3 H4/2 D16 max512 eps=1e-05 act=1 conv=4 | default theta=1000000 | state,full,state"},
    {"granitemoe", R"({"num_key_value_heads":"-"})",
     "H4/4 D16 max512 eps=1e-06 act=1 experts=2/8x96 renormalised scale=1 |"},
    // Options of blocks.
    {"llama", R"({"attention_bias":true,"mlp_bias":true,"head_dim":24})",
     "D24 max512 eps=1e-06 act=1 qkvbias obias mlpbias"},
    {"llama", R"({"hidden_act":"gelu"})", "act=3"},
    {"llama", R"({"hidden_act":"relu","head_dim":null})", "D16 max512 eps=1e-06 act=4"},
    {"qwen3", R"({"attention_bias":true})", "qkvbias obias"},
    {"gemma3_text", R"({"tie_word_embeddings":false,"hidden_activation":"gelu_new","query_pre_attn_scalar":64})",
     "act=2 1+w emb*8 scale=0.125"},
    {"gpt2", R"({"n_inner":100,"tie_word_embeddings":false,"activation_function":"relu"})",
     "F100 L3 H4/4 D16 max512 eps=1e-05 act=4 layernorm"},
    {"gpt2", R"({"n_inner":null,"scale_attn_weights":false})",
     "F256 L3 H4/4 D16 max512 eps=1e-05 act=2 tied layernorm qkvbias obias mlpbias scale=1 "},
    {"gpt_neox", R"({"use_parallel_residual":false,"attention_bias":false,"hidden_act":"gelu_fast"})",
     "act=2 layernorm mlpbias |"},
    {"granite", R"({"logits_scaling":4,"residual_multiplier":0.5,"attention_multiplier":0.1,"mlp_bias":true})",
     "mlpbias res*0.5 logit*0.25 scale=0.1"},
    // Windows.
    {"mistral", R"({"sliding_window":100})", "| 100,100,100"},
    {"mistral", R"({"sliding_window":512})", "| full,full,full"},
    {"mistral", R"({"sliding_window":100,"layer_types":["sliding_attention","sliding_attention","sliding_attention"]})",
     "| 100,100,100"},
    {"phi3", R"({"sliding_window":100})", "| 100,100,100"},
    {"llama", R"({"layer_types":["full_attention","full_attention","full_attention"]})", "| full,full,full"},
    {"qwen2", R"({"sliding_window":100})", "| full,full,full"},
    {"qwen2", R"({"sliding_window":100,"use_sliding_window":true})", "| full,full,full"},  // from layer 28 on
    {"qwen2", R"({"sliding_window":100,"use_sliding_window":true,"max_window_layers":1})", "| full,100,100"},
    {"qwen3", R"({"sliding_window":100,"use_sliding_window":true,"max_window_layers":0})", "| 100,100,100"},
    {"qwen3", R"({"sliding_window":100,"use_sliding_window":true,"max_window_layers":0,
                  "layer_types":["full_attention","sliding_attention","full_attention"]})",
     "| full,100,full"},
    {"qwen3", R"({"sliding_window":null,"use_sliding_window":true,"max_window_layers":0})", "| full,full,full"},
    {"gemma3_text", R"({"sliding_window":100})", "| 100:1,100:1,100:1"},
    {"gemma3_text", R"({"sliding_window":100,"sliding_window_pattern":2})", "| 100:1,full:0,100:1"},
    {"gemma3_text", R"({"sliding_window":100,"_sliding_window_pattern":6})", "| 100:1,100:1,100:1"},
    {"gemma3_text", R"({"sliding_window":100,"_sliding_window_pattern":2,"sliding_window_pattern":2,
                        "layer_types":["full_attention","full_attention","sliding_attention"]})",
     "| full:0,full:0,100:1"},
    // RoPE.
    {"llama", R"({"rope_scaling":{"type":"linear","factor":2}})", "| linear theta=10000 factor=2 |"},
    {"llama", R"({"rope_scaling":{"type":"linear","rope_type":"linear","factor":2.5},"rope_theta":100})",
     "| linear theta=100 factor=2.5 |"},
    // Keys that transformers does not read with this scaling.
    {"llama", R"({"rope_scaling":{"type":"linear","factor":2,"original_max_position_embeddings":64}})",
     "| linear theta=10000 factor=2 |"},
    {"llama", R"({"rope_scaling":{"type":"dynamic","factor":2.5,"original_max_position_embeddings":64}})",
     "max1280 eps=1e-06 act=1 | dynamic theta=10000 factor=2.5 original=512 |"},
    {"llama", R"({"rope_scaling":{"type":"yarn","factor":1,"finetuned":true,"attn_factor":1.0}})",
     "| yarn theta=10000 factor=1 original=512 fast=32 slow=1 attention=1 |"},
    {"llama", R"({"rope_parameters":{"rope_type":"default","mrope_section":[1,2,1],"mrope_interleaved":true}})",
     "| default theta=10000 |"},
    {"llama", R"({"rope_scaling":{"rope_type":"dynamic","factor":2.5}})",
     "max1280 eps=1e-06 act=1 | dynamic theta=10000 factor=2.5 original=512 |"},
    {"llama", R"({"rope_scaling":{"rope_type":"yarn","factor":1}})",
     "| yarn theta=10000 factor=1 original=512 fast=32 slow=1 attention=1 |"},
    {"llama", R"({"rope_scaling":{"rope_type":"yarn","factor":null,"original_max_position_embeddings":128,
                  "beta_fast":16,"beta_slow":2,"truncate":false,"attention_factor":1.25}})",
     "| yarn theta=10000 factor=4 original=128 fast=16 slow=2 untruncated attention=1.25 |"},
    {"llama", R"({"original_max_position_embeddings":64,"rope_scaling":{"rope_type":"yarn","factor":4,"mscale":1,
                  "mscale_all_dim":1}})",
     "factor=4 original=64 fast=32 slow=1 attention=1 |"},
    {"llama", R"({"rope_scaling":{"rope_type":"yarn","factor":4,"mscale":1,"mscale_all_dim":0,"attention_factor":2}})",
     "attention=2 |"},
    {"llama", R"({"rope_scaling":{"rope_type":"longrope","short_factor":[1,1,1,1,1,1,1,1],
                  "long_factor":[2,2,2,2,2,2,2,2]}})",
     "| longrope theta=10000 factor=1 original=512 attention=1 "},
    {"llama", R"({"rope_parameters":{}})", "| default theta=10000 |"},
    {"llama", R"({"rope_parameters":{"rope_type":"default"},"partial_rotary_factor":1})", "| default theta=10000 |"},
    {"gpt_neox", R"({"rotary_pct":1.0,"rotary_emb_base":500})", "| default theta=500 |"},
    {"gpt_neox", R"({"rotary_pct":0.3})", "| default theta=10000 rotary=4 |"},  // 4.8, truncated
    {"gpt_neox", R"({"rope_parameters":{"rope_theta":7,"partial_rotary_factor":0.5}})", "theta=7 rotary=8 |"},
    {"gpt_neox", R"({"rope_parameters":{"rope_theta":7,"rope_type":"default"},"rotary_pct":0.5})",
     "theta=7 rotary=8 |"},
    {"gpt_neox", R"({"rotary_emb_base":7,"rope_theta":7,"rotary_pct":0.5,"partial_rotary_factor":0.5,
                     "rope_scaling":{"type":"linear","factor":2}})",
     "| linear theta=7 rotary=8 factor=2 |"},
    {"phi3", R"({"partial_rotary_factor":0.5})", "| default theta=10000 rotary=8 |"},
    {"phi3", R"({"rope_scaling":{"type":"su","short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2,2,2]},
                 "original_max_position_embeddings":128})",
     "| longrope theta=10000 factor=4 original=128 attention=1.1338"},
    {"phi3", R"({"rope_scaling":{"type":"yarn","short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2,2,2]}})",
     "| longrope theta=10000 factor=0.125 original=4096 attention=1 "},
    {"gemma3_text", R"({"rope_theta":5,"rope_local_base_freq":6})", "| default theta=5; default theta=6 |"},
    {"gemma3_text", R"({"rope_scaling":{"rope_type":"dynamic","factor":2.0}})",
     "max1024 eps=1e-06 act=2 tied 1+w emb*8 scale=0.0625 | dynamic theta=1000000 factor=2 original=512; default "
     "theta=10000 | full:1"},
    {"gemma3_text", R"({"rope_parameters":{"full_attention":{"rope_theta":5.0,"rope_type":"linear","factor":2},
                        "sliding_attention":{"rope_type":"default","rope_theta":6}}})",
     "| linear theta=5 factor=2; default theta=6 |"},
    {"gemma3_text", R"({"rope_parameters":{"full_attention":{"rope_type":"default"},"sliding_attention":null},
                        "rope_theta":5,"rope_local_base_freq":6})",
     "| default theta=5; default theta=6 |"},
};

TEST(ArchitecturesTest, KeysAreInterpretedAsInTransformers) {
  for (const Meaning& m : kMeanings) {
    EXPECT_THAT(ParsedJson(Edited(m.model_type, m.edits)), HasSubstr(m.summary)) << m.model_type << " " << m.edits;
  }
}

TEST(ArchitecturesTest, Gpt2ScalesByLayer) {
  const auto config = ParseModelConfig(Edited("gpt2", R"({"scale_attn_by_inverse_layer_idx":true})").dump());
  ASSERT_TRUE(config.ok()) << config.status();
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(config->layers[i].attention_scale, 0.25 / (i + 1));
}

constexpr Meaning kRefusals[] = {
    // Other architectures, and ones that resemble a supported one.
    {"deepseek_v4", "{}", "\"model_type\" is \"deepseek_v4\"; supported are llama, mistral, qwen2, qwen3, "},
    {"llava", R"({"text_config":{"model_type":"llama"}})",
     "its text part is of type \"llama\": a checkpoint of that part alone"},
    {"llama4", R"({"text_config":{"model_type":"llama4_text"}})",
     "its text part is of type \"llama4_text\", which is not supported either"},
    {"llava", R"({"text_config":{}})", "its \"text_config\" does not state the type of the text part"},
    {"mistral", R"({"architectures":["MistralForSequenceClassification"]})", "must be [\"MistralForCausalLM\"]"},
    {"gpt2", R"({"architectures":["GPT2Model"]})", "must be [\"GPT2LMHeadModel\"]"},
    // Unsupported features that change the result.
    {"gemma3_text", R"({"attn_logit_softcapping":50.0})", "\"attn_logit_softcapping\" is 50.0; soft-caps are not"},
    {"gemma3_text", R"({"final_logit_softcapping":30})", "\"final_logit_softcapping\" is 30; soft-caps are not"},
    {"gemma3_text", R"({"use_bidirectional_attention":true})", "\"use_bidirectional_attention\" is true; only false"},
    {"llama", R"({"attention_sinks":4})", "\"attention_sinks\" is 4; this key is unknown"},
    {"llama", R"({"quantization_config":{"bits":4}})", "\"quantization_config\" has no \"quant_method\""},
    {"llama", R"({"hidden_act":"mish"})", "\"hidden_act\" is \"mish\"; supported are silu, swish, gelu, gelu_new"},
    {"gemma3_text", R"({"hidden_act":"silu"})", "\"hidden_act\" is \"silu\"; this key is unknown"},
    {"gpt2", R"({"activation_function":"tanh"})", "\"activation_function\" is \"tanh\""},
    {"gpt2", R"({"add_cross_attention":true})", "\"add_cross_attention\" is true; only false"},
    {"gpt2", R"({"hidden_size":64})", "\"hidden_size\" is 64; this key is unknown"},
    {"gpt2", R"({"n_embd":62})", "\"n_embd\" is 62; it must be a multiple of n_head, 4"},
    {"gpt2", R"({"n_inner":0})", "\"n_inner\" is 0"},
    {"gpt_neox", R"({"head_dim":16})", "\"head_dim\" is 16; this key is unknown"},
    {"gpt_neox", R"({"num_key_value_heads":2})", "\"num_key_value_heads\" is 2; this key is unknown"},
    {"mistral", R"({"num_key_value_heads":"-"})",
     "\"num_key_value_heads\" is 8 when it is missing; it must divide "
     "num_attention_heads, 4"},
    {"mistral", R"({"attention_bias":true})", "\"attention_bias\" is true; only false"},
    {"qwen2", R"({"attention_bias":false})", "\"attention_bias\" is false; only true"},
    {"qwen2", R"({"use_mrope":true})", "use_mrope"},
    {"olmo2", R"({"clip_qkv":8.0})", "\"clip_qkv\" is 8.0; only null"},
    {"phi3", R"({"lm_head_bias":true})", "lm_head_bias"},
    {"phi3", R"({"full_attn_mod":2})", "full_attn_mod"},
    {"granite", R"({"logits_scaling":0})", "\"logits_scaling\" is 0; it must be a positive, finite number"},
    {"granite", R"({"attention_multiplier":-1})", "\"attention_multiplier\" is -1"},
    {"gemma3_text", R"({"query_pre_attn_scalar":0})", "\"query_pre_attn_scalar\" is 0"},
    {"llama", R"({"max_sequence_length":256})", "\"max_sequence_length\" is 256; only 512"},
    {"gemma2", R"({"attn_logit_softcapping":0})", "\"attn_logit_softcapping\" is 0; it must be a positive"},
    {"gemma2", R"({"final_logit_softcapping":-1})", "\"final_logit_softcapping\" is -1"},
    {"gemma2", R"({"use_bidirectional_attention":true})", "\"use_bidirectional_attention\" is true; only false"},
    {"ministral", R"({"attention_bias":true})", "\"attention_bias\" is true; only false"},
    {"ministral3", R"({"mlp_bias":true})", "\"mlp_bias\" is true; only false"},
    {"exaone4", R"({"attention_bias":true})", "\"attention_bias\" is true; only false"},
    {"olmo3", R"({"clip_qkv":8.0})", "\"clip_qkv\" is 8.0; only null"},
    {"olmo3", R"({"num_local_experts":4})", "\"num_local_experts\" is 4; this key is unknown"},
    {"stablelm", R"({"qk_layernorm":true})", "\"qk_layernorm\" is true; only false"},
    {"stablelm", R"({"head_dim":16})", "\"head_dim\" is 16; this key is unknown"},
    {"starcoder2", R"({"mlp_type":"gated"})", "\"mlp_type\" is \"gated\""},
    {"starcoder2", R"({"norm_type":"rms_norm"})", "\"norm_type\" is \"rms_norm\""},
    {"ernie4_5", R"({"compression_ratio":2})", "\"compression_ratio\" is 2"},
    {"ernie4_5", R"({"moe_num_experts":64})", "\"moe_num_experts\" is 64; this key is unknown"},
    {"glm4", R"({"attention_bias":1})", "\"attention_bias\" is 1"},
    {"cohere2", R"({"sliding_window":null})", "\"sliding_window\" is null; a cohere2 without it has no rotation"},
    {"cohere2", R"({"use_qk_norm":true})", "\"use_qk_norm\" is true; only false"},
    {"cohere2", R"({"head_dim":32})", "\"head_dim\" is 32; only 16"},
    {"cohere2", R"({"use_parallel_block":false})", "\"use_parallel_block\" is false; only true"},
    {"cohere2", R"({"position_embedding_type":"alibi"})", "\"position_embedding_type\" is \"alibi\""},
    {"cohere2", R"({"logit_scale":0})", "\"logit_scale\" is 0; it must be a positive"},
    {"nemotron", R"({"partial_rotary_factor":0})", "\"partial_rotary_factor\" is 0"},
    {"seed_oss", R"({"attention_out_bias":1})", "\"attention_out_bias\" is 1"},
    {"smollm3", R"({"no_rope_layers":[1,0]})", "\"no_rope_layers\" has 2 entries; the model has 3 layers"},
    {"smollm3", R"({"no_rope_layers":7})", "\"no_rope_layers\" has 7; the model has 3 layers"},
    {"smollm3", R"({"no_rope_layers":[1,0,2]})", "\"no_rope_layers\"[2] is 2; it must be 1 (rotated) or 0"},
    {"smollm3", R"({"no_rope_layer_interval":0})", "\"no_rope_layer_interval\" is 0"},
    // Mixtures of experts.
    {"qwen3_moe", R"({"num_experts":0})", "\"num_experts\" is 0; it must lie in 1..512"},
    {"qwen3_moe", R"({"num_experts":16,"num_local_experts":8})", "\"num_local_experts\" is 8; only 16 is supported"},
    {"qwen3_moe", R"({"num_experts":4})", "\"num_experts_per_tok\" is 8 when it is missing; the model has 4 experts"},
    {"mixtral", R"({"num_experts_per_tok":9})", "\"num_experts_per_tok\" is 9; the model has 8 experts"},
    {"qwen3_moe", R"({"mlp_only_layers":[3]})", "\"mlp_only_layers\" is [3]; it must be a list of layers 0..2"},
    {"qwen2_moe", R"({"mlp_only_layers":1})", "\"mlp_only_layers\" is 1; it must be a list of layers 0..2"},
    {"qwen2_moe", R"({"decoder_sparse_step":0})", "\"decoder_sparse_step\" is 0"},
    {"qwen2_moe", R"({"num_local_experts":60})", "\"num_local_experts\" is 60; this key is unknown"},
    {"qwen2_moe", R"({"use_sliding_window":true,"sliding_window":100})",
     "\"use_sliding_window\" is true without \"layer_types\"; releases of transformers disagree"},
    {"qwen3_next", R"({"linear_num_value_heads":24})",
     "\"linear_num_value_heads\" is 24; it must be a multiple of linear_num_key_heads, 16"},
    {"qwen3_next", R"({"linear_conv_kernel_dim":17})", "\"linear_conv_kernel_dim\" is 17"},
    {"qwen3_next", R"({"layer_types":["sliding_attention","full_attention","full_attention"]})",
     "\"layer_types\"[0] is \"sliding_attention\"; supported are full_attention and linear_attention"},
    {"qwen3_next", R"({"hidden_act":"gelu"})", "\"hidden_act\" is not \"silu\""},
    {"granitemoehybrid", R"({"layer_types":"-"})", "\"layer_types\" is missing; a granitemoehybrid"},
    {"granitemoehybrid", R"({"layer_types":["mamba","mamba","mamba"],"mamba_n_heads":8})",
     "has attention; such a model is not supported"},
    {"granitemoehybrid", R"({"layer_types":["conv","mamba","attention"]})",
     "\"layer_types\"[0] is \"conv\"; supported are full_attention and linear_attention"},
    {"granitemoehybrid", R"({"position_embedding_type":"alibi"})", "\"position_embedding_type\" is \"alibi\""},
    {"granitemoehybrid", R"({"mamba_n_heads":7})", "\"mamba_n_heads\" is 7 and \"mamba_d_head\" missing"},
    {"granitemoehybrid", R"({"mamba_n_heads":8,"mamba_d_head":8})",
     "\"mamba_n_heads\" is 8 and \"mamba_d_head\" 8; together they must give 128 by mamba_expand"},
    {"granitemoehybrid", R"({"mamba_n_heads":8,"mamba_n_groups":3})",
     "\"mamba_n_heads\" is 8; it must be a multiple of mamba_n_groups, 3"},
    {"granitemoehybrid", R"({"mamba_n_heads":8,"time_step_limit":[0.0,0.1]})",
     "\"time_step_limit\" is [0.0,0.1]; only from 0 to infinity is supported"},
    {"granitemoehybrid", R"({"mamba_n_heads":8,"hidden_act":"gelu"})", "\"hidden_act\" is not \"silu\""},
    {"granitemoehybrid", R"({"mamba_n_heads":8,"normalization_function":"layernorm"})",
     "\"normalization_function\" is \"layernorm\"; only \"rmsnorm\""},
    {"falcon_h1", R"({"mamba_n_heads":7})",
     "\"mamba_n_heads\" is 7 and \"mamba_d_head\" missing; together they must "
     "give 1024 by mamba_d_ssm"},
    {"falcon_h1", R"({"ssm_multipliers":[1,1,1,1]})",
     "\"ssm_multipliers\" is [1,1,1,1]; it must be a list of 5 positive"},
    {"falcon_h1", R"({"mlp_multipliers":[1,0]})", "\"mlp_multipliers\" is [1,0]; it must be a list of 2 positive"},
    {"falcon_h1", R"({"mlp_multipliers":[1,"x"]})", "it must be a list of 2 positive"},
    {"falcon_h1", R"({"key_multiplier":0})", "\"key_multiplier\" is 0"},
    {"falcon_h1", R"({"projectors_bias":true})", "\"projectors_bias\" is true; only false"},
    {"falcon_h1", R"({"attn_layer_indices":[1]})", "\"attn_layer_indices\" is [1]; only null"},
    {"falcon_h1", R"({"time_step_limit":[0,1]})", "\"time_step_limit\" is [0,1]; only from 0 to infinity"},
    {"bamba", R"({"attn_layer_indices":"-"})", "\"attn_layer_indices\" is missing; a bamba without it has no"},
    {"bamba", R"({"attn_layer_indices":[]})", "has attention; such a model is not supported"},
    {"bamba", R"({"attn_layer_indices":[3]})", "\"attn_layer_indices\" is [3]; it must be a list of layers 0..2"},
    {"bamba", R"({"partial_rotary_factor":1.0})", "\"partial_rotary_factor\" is 1"},
    {"bamba", R"({"attn_rotary_emb":16})", "\"attn_rotary_emb\" is 16, but by \"rope_parameters\" it is 8"},
    {"bamba", R"({"hidden_act":"gelu"})", "\"hidden_act\" is not \"silu\""},
    {"bamba", R"({"time_step_limit":[0,1]})", "\"time_step_limit\" is [0,1]; only from 0 to infinity"},
    {"nemotron_h", R"({"hybrid_override_pattern":"MX*"})", "\"hybrid_override_pattern\"[1] is \"X\"; supported are"},
    {"nemotron_h", R"({"layers_block_type":["full_attention","expert"]})", "\"layers_block_type\"[1] is \"expert\""},
    {"nemotron_h", R"({"num_hidden_layers":4})",
     "\"num_hidden_layers\" is 4, but by \"hybrid_override_pattern\" it is 3"},
    {"nemotron_h", R"({"rms_norm_eps":1e-6})", "\"rms_norm_eps\" is 1e-06, but by \"layer_norm_epsilon\" it is 1e-05"},
    {"nemotron_h", R"({"attention_head_dim":64})", "\"attention_head_dim\" is 64, but by \"head_dim\" it is 128"},
    {"nemotron_h", R"({"sliding_window":64})", "\"sliding_window\" is 64; only null"},
    {"nemotron_h", R"({"time_step_limit":[0,1]})", "\"time_step_limit\" is [0,1]; only from 0 to infinity"},
    {"nemotron_h", R"({"mamba_hidden_act":"gelu"})", "\"mamba_hidden_act\" is \"gelu\"; only \"silu\""},
    {"nemotron_h", R"({"hybrid_override_pattern":""})", "\"hybrid_override_pattern\" is \"\"; it must state 1 to 4096"},
    {"nemotron_h", R"({"hybrid_override_pattern":"M-"})", "has attention; such a model is not supported"},
    {"nemotron_h", R"({"attention_bias":true})", "\"attention_bias\" is true; only false"},
    {"nemotron_h", R"({"num_nextn_predict_layers":1})", "\"num_nextn_predict_layers\" is 1; only 0"},
    {"nemotron_h", R"({"tie_word_embeddings":true})", "\"tie_word_embeddings\" is true; only false"},
    {"nemotron_h", R"({"time_step_min":-1})", "\"time_step_min\" is -1"},
    {"lfm2", R"({"full_attn_idxs":[3]})", "\"full_attn_idxs\" is [3]; it must be a list of layers 0..2"},
    {"lfm2", R"({"conv_dim":32})", "\"conv_dim\" is 32; only 64 is supported"},
    {"lfm2", R"({"conv_L_cache":17})", "\"conv_L_cache\" is 17"},
    {"lfm2", R"({"block_ffn_dim_multiplier":1e9})", "\"block_ffn_dim_multiplier\" is 1000000000"},
    {"lfm2", R"({"theta":5})", "\"theta\" is 5; only 1000000"},
    {"lfm2", R"({"hidden_act":"gelu"})", "\"hidden_act\" is not \"silu\""},
    {"qwen3_5_text", R"({"attn_output_gate":false})", "\"attn_output_gate\" is false; only true is supported"},
    {"qwen3_5_text", R"({"attention_bias":true})", "\"attention_bias\" is true; only false is supported"},
    {"olmoe", R"({"clip_qkv":0})", "\"clip_qkv\" is 0; it must be a positive"},
    {"mixtral", R"({"norm_topk_prob":true})", "\"norm_topk_prob\" is true; this key is unknown"},
    {"gpt_oss", R"({"hidden_act":"gelu"})", "\"hidden_act\" is \"gelu\"; only \"silu\" is supported"},
    {"gpt_oss", R"({"experts_per_token":2})", "\"experts_per_token\" is 2; only 4 is supported"},
    {"gpt_oss", R"({"swiglu_limit":0})", "\"swiglu_limit\" is 0; it must be a positive"},
    {"gpt_oss", R"({"norm_topk_prob":true})", "\"norm_topk_prob\" is true; this key is unknown"},
    {"gpt_oss", R"({"quantization_config":{"quant_method":"mxfp4","bits":4}})",
     "\"quantization_config.bits\" is 4; this key is unknown"},
    {"gpt_oss",
     R"({"quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.0.mlp.experts"]}})",
     "\"quantization_config.modules_to_not_convert\" is [\"model.layers.0.mlp.experts\"]; it must be a list of modules "
     "other than experts"},
    {"llama", R"({"hidden_act":"xielu"})", "\"hidden_act\" is \"xielu\"; supported are silu,"},
    {"apertus", R"({"qk_norm":false})", "\"qk_norm\" is false; only true"},
    {"apertus", R"({"rope_theta":1000})", "\"rope_theta\" is 1000 but without \"rope_parameters\" it is 1.2e+07"},
    {"apertus", R"({"post_norm":true})", "\"post_norm\" is true; only false"},
    {"phi", R"({"qk_layernorm":true})", "\"qk_layernorm\" is true; only false"},
    {"hunyuan_v1_dense", R"({"use_cla":true})", "\"use_cla\" is true; only false"},
    {"hunyuan_v1_dense", R"({"attention_head_dim":32})", "\"attention_head_dim\" is 32; only 16"},
    {"hunyuan_v1_dense", R"({"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":64}})",
     "an attention factor of 1.138"},
    {"hunyuan_v1_dense", R"({"rope_scaling":{"type":"dynamic","alpha":-1}})", "\"rope_scaling.alpha\" is -1"},
    {"llama", R"({"rope_scaling":{"type":"dynamic","factor":2,"alpha":50}})",
     "\"rope_scaling.alpha\" is 50; this key is unknown"},
    {"granitemoe", R"({"moe_intermediate_size":64})", "\"moe_intermediate_size\" is 64; this key is unknown"},
    {"llama", R"({"num_experts":8})", "\"num_experts\" is 8; this key is unknown"},
    // Windows.
    {"olmo3", R"({"sliding_window":null})", "\"layer_types\"[0] is \"sliding_attention\" while no sliding_window"},
    {"ministral", R"({"layer_types":["full_attention"]})", "\"layer_types\" has 1 entries; the model has 3 layers"},
    {"exaone4", R"({"sliding_window":100,"sliding_window_pattern":"LLLG"})", "\"sliding_window_pattern\" is \"LLLG\""},
    {"smollm3", R"({"layer_types":["sliding_attention","full_attention","full_attention"]})",
     "while no sliding_window is set"},
    {"seed_oss", R"({"sliding_window":100})", "\"sliding_window\" is 100; a seed_oss has no window layers"},
    {"llama", R"({"sliding_window":100})", "\"sliding_window\" is 100; a llama has no window layers"},
    {"granite", R"({"use_sliding_window":true})", "\"use_sliding_window\" is true"},
    {"olmo2", R"({"layer_types":["full_attention","sliding_attention","full_attention"]})",
     "\"layer_types\"[1] is \"sliding_attention\"; all layers of olmo2 are equal, and sliding_window is not set"},
    {"mistral", R"({"sliding_window":0})", "\"sliding_window\" is 0; it must lie in 1..1073741824"},
    {"mistral", R"({"sliding_window":100,"layer_types":["full_attention","full_attention","full_attention"]})",
     "\"layer_types\"[0] is \"full_attention\"; all layers of mistral are equal, and sliding_window is 100"},
    {"qwen2", R"({"layer_types":["full_attention"]})", "\"layer_types\" has 1 entries; the model has 3 layers"},
    {"qwen2", R"({"layer_types":7})", "\"layer_types\" has 7; the model has 3 layers"},
    {"qwen2", R"({"layer_types":["full_attention","full_attention","chunked_attention"]})",
     "\"layer_types\"[2] is \"chunked_attention\"; supported are full_attention and sliding_attention"},
    {"qwen3", R"({"sliding_window":100,"layer_types":["full_attention","sliding_attention","full_attention"]})",
     "\"layer_types\"[1] is \"sliding_attention\" while no sliding_window is set"},
    {"gemma3_text", R"({"sliding_window":null})", "while no sliding_window is set"},
    {"gemma3_text", R"({"sliding_window_pattern":0})", "\"sliding_window_pattern\" is 0"},
    {"gemma3_text", R"({"_sliding_window_pattern":2})", "\"_sliding_window_pattern\" is 2; only 6"},
    // RoPE.
    {"olmo3", R"({"rope_theta":10000})",
     "\"rope_theta\" is 10000 without \"rope_parameters\"; releases of transformers disagree"},
    {"olmo3", R"({"rope_parameters":{"rope_type":"yarn","factor":2}})", "\"rope_parameters."},
    {"olmo3", R"({"rope_local_base_freq":10000})", "\"rope_local_base_freq\" is 10000; this key is unknown"},
    {"ministral3", R"({"rope_parameters":"-"})", "\"rope_parameters\" is missing"},
    {"ministral3", R"({"rope_parameters":{"rope_type":"linear","factor":2,"llama_4_scaling_beta":0.1}})",
     "\"rope_parameters.llama_4_scaling_beta\" is 0.1 with \"linear\"; it is supported with yarn alone"},
    {"ministral3", R"({"rope_parameters":{"rope_type":"yarn","factor":2,"llama_4_scaling_beta":-1}})",
     "\"rope_parameters.llama_4_scaling_beta\" is -1"},
    {"ministral3", R"({"focal_attention":{"mode":"learned","tau_min":3.5,"tau_max":8.0}})",
     "\"focal_attention.mode\" is \"learned\"; it is not supported where queries are scaled by their position"},
    {"mistral", R"({"rope_scaling":{"rope_type":"yarn","factor":2,"llama_4_scaling_beta":0.1}})",
     "\"rope_scaling.llama_4_scaling_beta\" is 0.1; this key is unknown"},
    {"llama", R"({"rope_scaling":{"type":"mrope","mrope_section":[1,2,1]}})", "\"mrope\"; supported are default"},
    {"llama", R"({"rope_scaling":{"rope_type":"proportional","factor":2}})",
     "\"proportional\"; supported are default, linear"},
    {"llama", R"({"rope_scaling":{"type":"dynamic","factor":0.5}})", "\"rope_scaling.factor\" is 0.5"},
    {"llama", R"({"head_dim":2,"rope_scaling":{"type":"dynamic","factor":2}})", "2 rotary dimensions; it needs 3"},
    {"llama", R"({"rope_scaling":{"type":"yarn","factor":2,"mscale":-1}})", "\"rope_scaling.mscale\" is -1"},
    {"llama", R"({"rope_scaling":{"type":"yarn","factor":2,"truncate":1}})", "\"rope_scaling.truncate\" is 1"},
    {"llama", R"({"rope_theta":1,"rope_scaling":{"type":"yarn","factor":2}})", "of \"yarn\" it must be above 1"},
    {"llama", R"({"rope_scaling":{"type":"yarn","factor":2,"attn_factor":2}})",
     "\"rope_scaling.attn_factor\" is 2; only 1 is supported"},
    {"llama", R"({"rope_scaling":{"type":"yarn","original_max_position_embeddings":64}})",
     "\"rope_scaling.factor\" is missing"},
    {"llama", R"({"rope_scaling":{"type":"linear","factor":2,"mrope_section":[1,2,1]}})",
     "\"rope_scaling.mrope_section\" is [1,2,1]"},
    {"llama", R"({"original_max_position_embeddings":64,"rope_scaling":{"type":"yarn","factor":2,
                  "original_max_position_embeddings":128}})",
     "is 128 but at the top level, which takes precedence, 64"},
    {"llama", R"({"rope_theta":1e31})", "\"rope_theta\" is 1e+31; it must lie in 1e-30..1e+30"},
    {"llama", R"({"rms_norm_eps":1e-31})", "\"rms_norm_eps\" is 1e-31; it must lie in"},
    {"llama", R"({"rope_scaling":{"type":"yarn","factor":2,"original_max_position_embeddings":1e20}})",
     "\"rope_scaling.original_max_position_embeddings\" is 1e+20; the limit is"},
    {"llama", R"({"rope_scaling":{"rope_type":"longrope","long_factor":[1,1,1,1,1,1,1,1]}})",
     "\"rope_scaling.short_factor\" is missing"},
    {"llama", R"({"rope_scaling":{"rope_type":"longrope","short_factor":[1,1],"long_factor":[1,1]}})",
     "\"rope_scaling.short_factor\" has 2 numbers; it must be a list of 8"},
    {"llama", R"({"rope_scaling":{"rope_type":"longrope","short_factor":3}})",
     "\"rope_scaling.short_factor\" has number; it must be a list of 8"},
    {"llama", R"({"rope_scaling":{"rope_type":"longrope","short_factor":[1,1,1,1,1,1,1,0],"long_factor":[]}})",
     "\"rope_scaling.short_factor\"[7] is 0"},
    {"phi3", R"({"original_max_position_embeddings":1,"rope_scaling":{"type":"su","short_factor":[1,1,1,1,1,1,1,1],
                 "long_factor":[2,2,2,2,2,2,2,2]}})",
     "of \"longrope\" it must be above 1"},
    {"phi3", R"({"rope_scaling":{"type":"linear","factor":2}})", "\"linear\"; supported are default, longrope"},
    {"phi3", R"({"partial_rotary_factor":1.5})", "\"partial_rotary_factor\" is 1.5"},
    {"gpt_neox", R"({"rotary_pct":0.01})", "of heads of 16 dimensions at least one"},
    {"gpt_neox", R"({"rope_theta":500})",
     "\"rope_theta\" is 500 but \"rotary_emb_base\" is missing, which means 10000"},
    {"gpt_neox", R"({"rope_theta":500,"rotary_emb_base":400})", "\"rope_theta\" is 500 but \"rotary_emb_base\" is 400"},
    {"gpt_neox", R"({"rope_theta":500,"rope_parameters":{"rope_theta":400}})", "is 500 but in the RoPE parameters 400"},
    {"gpt_neox", R"({"rotary_pct":0.5,"partial_rotary_factor":0.25})", "rotate 8 of 16 dimensions"},
    {"qwen2", R"({"partial_rotary_factor":0.5})", "partial_rotary_factor\" is 0.5; only 1.0 is supported"},
    {"qwen3", R"({"rope_parameters":{"full_attention":{"rope_type":"default"}}})",
     "\"rope_parameters.full_attention\""},
    {"gemma3_text", R"({"rope_parameters":{"rope_type":"default","rope_theta":5}})", "\"rope_parameters.rope_t"},
    {"gemma3_text", R"({"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2,"truncate":false}}})",
     "\"rope_parameters.full_attention.truncate\" is false; only true"},
    {"gemma3_text", R"({"rope_theta":5,"rope_parameters":{"full_attention":{"rope_theta":6}}})",
     "\"rope_theta\" is 5 but in the RoPE parameters 6"},
    {"gemma3_text", R"({"rope_scaling":{"rope_type":"linear","factor":2},"rope_parameters":{"full_attention":
                        {"rope_type":"linear","factor":4}}})",
     "but \"rope_parameters.full_attention\" is"},
};

TEST(ArchitecturesTest, ErrorsNameKeyAndValue) {
  for (const Meaning& m : kRefusals) {
    const std::string message = ParsedJson(Edited(m.model_type, m.edits));
    EXPECT_THAT(message, testing::StartsWith("refused: ")) << m.model_type << " " << m.edits;
    EXPECT_THAT(message, HasSubstr(m.summary)) << m.model_type << " " << m.edits;
  }
}

// An unknown key is rejected for every row, and so is a missing required key.
TEST(ArchitecturesTest, EveryRowIsStrict) {
  for (const Architecture& row : Architectures()) {
    const Json good = Small(row.model_type);
    EXPECT_THAT(ParsedJson(good), testing::Not(HasSubstr("refused"))) << row.model_type;
    Json unknown = good;
    unknown["a_new_setting"] = 1;
    EXPECT_THAT(ParsedJson(unknown), Message("\"a_new_setting\"", "1")) << row.model_type;
    for (const auto& [key, value] : good.items()) {
      if (key == "num_key_value_heads") continue;  // has a default
      Json without = good;
      without.erase(key);
      EXPECT_THAT(ParsedJson(without), HasSubstr(absl::StrCat("\"", key, "\" is missing"))) << row.model_type;
      if (key == "rope_parameters" || value.is_array()) continue;
      Json wrong = good;
      wrong[key] = Json::array();
      EXPECT_THAT(ParsedJson(wrong), HasSubstr(absl::StrCat("\"", key, "\" is []"))) << row.model_type;
    }
    if (absl::string_view(row.model_type) == "ministral3") continue;
    // Focal attention is supported for all others.
    Json focal = good;
    focal["focal_attention"] = *ParseJson(R"({"mode":"learned","tau_min":3.5,"tau_max":8.0})");
    EXPECT_THAT(ParsedJson(focal), testing::Not(HasSubstr("refused"))) << row.model_type;
  }
}

// As Python's json module writes it, and as transformers 5 does.
TEST(ArchitecturesTest, AnInfiniteStepLimitIsNone) {
  Json file = Edited("granitemoehybrid", R"({"mamba_n_heads":8,"init_method":"Infinity"})");
  file["time_step_limit"] = "LIMIT";
  for (const char* limit : {R"([0.0, Infinity])", R"([0.0,Infinity])", R"([0.0, {"__float__": "Infinity"}])", "null"}) {
    const std::string text = absl::StrReplaceAll(file.dump(), {{"\"LIMIT\"", limit}});
    EXPECT_THAT(Parsed(text), testing::Not(HasSubstr("refused"))) << limit;
  }
  for (const char* limit :
       {R"([0.0, -Infinity])", R"([0.0, NaN])", R"([0.001, Infinity])", R"([0, 100])", "Infinity"}) {
    const std::string text = absl::StrReplaceAll(file.dump(), {{"\"LIMIT\"", limit}});
    EXPECT_THAT(Parsed(text), testing::StartsWith("refused: ")) << limit;
  }
}

// ---- Page groups ----

TEST(PageGroupsTest, LayersWithEqualWindowsShareAGroup) {
  ModelConfig config;
  config.max_position = 1000;
  for (const int64_t window : {200, 0, 64, 200, 1000, 5000, 64}) config.layers.push_back({.window = window});
  GroupLayers(config);
  ASSERT_EQ(config.page_groups.size(), 3u);  // windows of at least max_position are full
  const std::vector<std::pair<int64_t, int64_t>> groups = {{0, 3}, {64, 2}, {200, 2}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(config.page_groups[i].window, groups[i].first);
    EXPECT_EQ(config.page_groups[i].layer_count, groups[i].second);
  }
  const std::vector<std::pair<int64_t, int64_t>> places = {{2, 0}, {0, 0}, {1, 0}, {2, 1}, {0, 1}, {0, 2}, {1, 1}};
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(config.layers[i].page_group, places[i].first) << i;
    EXPECT_EQ(config.layers[i].group_layer, places[i].second) << i;
  }
}

// Settings that no published file of the table has, merged into a small Llama of three layers with heads of 16 dimensions.
constexpr const char* kSettings[] = {
    R"({"rope_theta":500000.0,"rope_scaling":{"rope_type":"linear","factor":2.0}})",
    R"({"rope_scaling":{"type":"dynamic","factor":2.0}})",
    R"({"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512,"beta_fast":32,"beta_slow":1,
        "mscale":1.0,"mscale_all_dim":1.0,"attention_factor":1.5,"truncate":false}})",
    R"({"rope_scaling":{"rope_type":"longrope","factor":4.0,"original_max_position_embeddings":512,"attention_factor":1.2,
        "short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,2,3,4,5,6,7,8]}})",
    R"({"rope_parameters":{"rope_type":"llama3","rope_theta":10000.0,"factor":8.0,"low_freq_factor":1.0,
        "high_freq_factor":4.0,"original_max_position_embeddings":512},"partial_rotary_factor":1.0})",
    R"({"focal_attention":{"mode":"constant","temperature":[0.4,1,0.7]},"log_n_attention":{"mode":"constant","trained_length":512}})",
    R"({"focal_attention":{"mode":"full_layers_only","temperature":0.7},"trained_context_length":512})",
    R"({"focal_attention":{"mode":"learned","tau_min":3.5,"tau_max":8.0,"tau_mean":"token"}})",
    R"({"log_n_attention":{"mode":"learned"},"training":{"arm":"focal","seed":3,"tokens":4096,"context_length":512}})",
    R"({"focus_attention":{"assignment_temperature":0.2,"bias":"paged","group_count":8,"layers":[0,1,2],"regime":"frozen",
        "routing_dim":4,"top_k":1,"trained_context_length":2048,"window":128}})",
};

TEST(ArchitecturesTest, EveryChangeOfAKeyIsAcceptedOrRefusedByName) {
  std::vector<Json> files;
  for (const Published& file : AllPublished()) files.push_back(*ParseJson(file.json));
  for (const char* settings : kSettings) {
    files.push_back(Small("llama"));
    files.back().update(*ParseJson(settings));
    const auto config = ParseModelConfig(files.back().dump());
    EXPECT_TRUE(config.ok()) << settings << ": " << config.status();
  }
  int refused_count = 0;
  for (const Json& file : files) {
    testing_support::ForEachChange(file, [&](const testing_support::JsonChange& change) {
      const auto config = ParseModelConfig(change.changed.dump());
      if (config.ok()) {
        const bool is_ignored = absl::StartsWith(change.path, "/task_specific_params") ||
                                absl::StartsWith(change.path, "/auto_map") ||
                                absl::StartsWith(change.path, "/vision_config");
        EXPECT_TRUE(change.what != "unknown key" || is_ignored) << change.path;
        return;
      }
      ++refused_count;
      SCOPED_TRACE(absl::StrCat(change.path, ": ", change.what, ": ", config.status().ToString()));
      EXPECT_TRUE(absl::IsInvalidArgument(config.status()) || absl::IsUnimplemented(config.status()));
      EXPECT_THAT(std::string(config.status().message()), testing::Not(HasSubstr("\n")));
      // A value that is valid by itself may contradict another key, which is named; the head width may be a quotient.
      const bool may_be_valid =
          change.what == "7" || change.what == "0.5" || change.what == "null" || change.what == "removed";
      bool names_a_key = may_be_valid && (absl::StrContains(config.status().message(), '"') ||
                                          absl::StrContains(config.status().message(), "head width"));
      for (absl::string_view key : absl::StrSplit(change.path, '/', absl::SkipEmpty())) {
        names_a_key = names_a_key || absl::StrContains(config.status().message(), key);
      }
      EXPECT_TRUE(names_a_key);
    });
  }
  EXPECT_GT(refused_count, 1000);
}

}  // namespace
}  // namespace varifocal

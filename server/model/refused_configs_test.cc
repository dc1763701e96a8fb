// What a row of the table of architectures refuses, each by key and value.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "tests/support/architecture_configs.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

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
    ForEachChange(file, [&](const JsonChange& change) {
      const auto config = ParseModelConfig(change.changed.dump());
      if (config.ok()) {
        const bool is_ignored =
            absl::StartsWith(change.path, "/task_specific_params") || absl::StartsWith(change.path, "/auto_map") ||
            absl::StartsWith(change.path, "/vision_config") || absl::StartsWith(change.path, "/audio_config");
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
      for (absl::string_view key : absl::StrSplit(change.path, '/', absl::SkipEmpty()))
        names_a_key = names_a_key || absl::StrContains(config.status().message(), key);
      EXPECT_TRUE(names_a_key);
    });
  }
  EXPECT_GT(refused_count, 1000);
}

}  // namespace
}  // namespace varifocal

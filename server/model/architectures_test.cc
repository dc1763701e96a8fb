// Every row of the table of architectures: published config files, equivalent older and newer keys, defaults of missing
// keys; refused_configs_test.cc has what a row rejects. Files are given in full (sizes included) and compared with a summary that can
// be checked against transformers' configuration classes.
#include "server/model/architectures.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "server/model/config.h"
#include "tests/support/architecture_configs.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

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
  for (const Meaning& m : kMeanings)
    EXPECT_THAT(ParsedJson(Edited(m.model_type, m.edits)), HasSubstr(m.summary)) << m.model_type << " " << m.edits;
}

TEST(ArchitecturesTest, Gpt2ScalesByLayer) {
  const auto config = ParseModelConfig(Edited("gpt2", R"({"scale_attn_by_inverse_layer_idx":true})").dump());
  ASSERT_TRUE(config.ok()) << config.status();
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(config->layers[i].attention_scale, 0.25 / (i + 1));
}

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

}  // namespace
}  // namespace varifocal

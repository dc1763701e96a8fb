// Every row of the table of architectures: published config files, equivalent older and newer keys, defaults of missing
// keys, and everything that a row rejects. Files are given in full (sizes included) and compared with a summary that can
// be checked against transformers' configuration classes.
#include "server/model/architectures.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/config.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

std::string Windows(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    absl::StrAppend(&text, text.empty() ? "" : ",", layer.window == 0 ? "full" : absl::StrCat(layer.window));
    if (config.ropes.size() > 1) absl::StrAppend(&text, ":", layer.rope_index);
  }
  return text;
}

// Summary of a config in one line.
std::string Summary(const ModelConfig& config) {
  const BlockConfig& b = config.blocks;
  std::string text = absl::StrCat("V", config.vocabulary_size, " M", config.width, " F", config.feed_forward_width,
                                  " L", config.layer_count, " H", config.head_count, "/", config.kv_head_count, " D",
                                  config.head_width, " max", config.max_position, " eps=", ShortNumber(b.norm_epsilon),
                                  " act=", static_cast<int>(b.activation));
  if (config.tied_embeddings) text += " tied";
  if (b.norm == kernels::NormKind::kLayer) text += " layernorm";
  if (b.norms_add_one) text += " 1+w";
  if (b.head_norm_over_width) text += " widenorm";
  if (b.parallel_residual) text += " parallel";
  if (b.query_key_value_bias) text += " qkvbias";
  if (b.attention_output_bias) text += " obias";
  if (b.mlp_bias) text += " mlpbias";
  if (b.embedding_multiplier != 1) absl::StrAppend(&text, " emb*", b.embedding_multiplier);
  if (b.residual_multiplier != 1) absl::StrAppend(&text, " res*", b.residual_multiplier);
  if (b.logit_multiplier != 1) absl::StrAppend(&text, " logit*", b.logit_multiplier);
  if (config.layers[0].attention_scale != 0) absl::StrAppend(&text, " scale=", config.layers[0].attention_scale);
  return absl::StrCat(text, " | ", RopesToString(config.ropes), " | ", Windows(config));
}

std::string Parsed(absl::string_view json) {
  const auto config = ParseModelConfig(json);
  return config.ok() ? Summary(*config) : absl::StrCat("refused: ", config.status().message());
}
std::string ParsedJson(const Json& json) { return Parsed(json.dump()); }

// ---- Published files ----

struct Published {
  const char* name;
  const char* json;
  const char* summary;
};

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
};

TEST(ArchitecturesTest, PublishedFilesAreRead) {
  for (const Published& file : kPublished) EXPECT_EQ(Parsed(file.json), file.summary) << file.name;
}

TEST(ArchitecturesTest, EveryRowHasAPublishedFile) {
  std::set<std::string> seen;
  for (const Published& file : kPublished) seen.insert((*ParseJson(file.json))["model_type"]);
  for (const Architecture& row : Architectures()) EXPECT_TRUE(seen.contains(row.model_type)) << row.model_type;
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
  if (model_type == "gpt_neox") json.erase("num_key_value_heads");
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
    {"gemma2", "{}",
     "\"model_type\" is \"gemma2\"; supported are llama, mistral, qwen2, qwen3, gemma3_text, olmo2, gpt2, "
     "gpt_neox, phi3, granite"},
    {"gpt_oss", R"({"sinks":true})", "\"gpt_oss\"; supported are"},
    {"gemma3", R"({"text_config":{"model_type":"gemma3_text"}})", "\"gemma3\"; supported are llama"},
    {"gemma3", R"({"text_config":{"model_type":"gemma3_text"}})",
     "its text part is of type \"gemma3_text\": a checkpoint of that part alone"},
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
    {"llama", R"({"quantization_config":{"bits":4}})", "quantized weights are not supported"},
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
    // Windows.
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
      Json wrong = good;
      wrong[key] = Json::array();
      EXPECT_THAT(ParsedJson(wrong), HasSubstr(absl::StrCat("\"", key, "\" is []"))) << row.model_type;
    }
    // Focal attention is supported for all of them.
    Json focal = good;
    focal["focal_attention"] = *ParseJson(R"({"mode":"learned","tau_min":3.5,"tau_max":8.0})");
    EXPECT_THAT(ParsedJson(focal), testing::Not(HasSubstr("refused"))) << row.model_type;
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
  for (const Published& file : kPublished) files.push_back(*ParseJson(file.json));
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
        const bool is_ignored =
            absl::StartsWith(change.path, "/task_specific_params") || absl::StartsWith(change.path, "/auto_map");
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

#include "server/model/supported.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "server/model/architectures.h"

namespace varifocal {
namespace {

struct Evidence {
  const char* model_type;
  const char* examples;
  const char* verified;
  const char* refused;
};

constexpr Evidence kEvidence[] = {
    {"llama", "Llama 3.2, SmolLM2",
     "llama-biases llama-linear llama-dynamic llama-yarn llama-yarn-attention-factor llama-yarn-mscale llama-longrope",
     "rope_interleaved"},
    {"mistral", "Mistral 7B", "mistral-window mistral-full", "attention_bias mlp_bias"},
    {"qwen2", "Qwen2.5", "qwen2-older qwen2-window", "mlp_bias use_mrope"},
    {"qwen3", "Qwen3", "qwen3-wide-heads qwen3-layer-types", "mlp_bias"},
    {"qwen2_5_vl_text", "inside qwen2_5_vl", "qwen2-5-vl", "mlp_bias use_mrope"},
    {"qwen3_vl_text", "inside qwen3_vl", "qwen3-vl", "sliding_window mlp_bias"},
    {"qwen3_moe", "Qwen3 30B-A3B", "qwen3-moe qwen3-moe-fused", "mlp_bias"},
    {"olmoe", "OLMoE 1B-7B", "olmoe olmoe-fused", "sliding_window"},
    {"mixtral", "Mixtral 8x7B", "mixtral mixtral-window", "attention_bias mlp_bias norm_topk_prob"},
    {"qwen2_moe", "Qwen1.5-MoE-A2.7B", "qwen2-moe qwen2-moe-window", "attention_bias mlp_bias"},
    {"qwen3_next", "Qwen3-Next 80B-A3B", "qwen3-next", "attention_bias mlp_bias attn_output_gate"},
    {"qwen3_5_text", "inside qwen3_5", "qwen3-5 qwen3-5-wrapped", "attention_bias mlp_bias attn_output_gate"},
    {"granitemoe", "Granite 3 1B-A400M, 3B-A800M", "granitemoe granitemoe-newer", "sliding_window norm_topk_prob"},
    {"granitemoehybrid", "Granite 4.0 350M, 1B, Micro, Tiny, Small", "granitemoehybrid granitemoehybrid-dense",
     "mlp_bias position_embedding_type time_step_limit"},
    {"falcon_h1", "Falcon-H1 0.5B to 34B", "falcon-h1 falcon-h1-normed",
     "attention_bias mlp_bias projectors_bias time_step_limit"},
    {"bamba", "Bamba 9B", "bamba bamba-newer", "time_step_limit"},
    {"nemotron_h", "Nemotron-H 4B, 8B, 47B, 56B, Nemotron Nano 2, Nemotron 3 Nano 30B-A3B",
     "nemotron-h-experts nemotron-h-groups nemotron-h nemotron-h-older",
     "attention_bias sliding_window num_nextn_predict_layers time_step_limit moe_latent_size"},
    {"lfm2", "LFM2 350M, 700M, 1.2B, 2.6B", "lfm2 lfm2-newer", "attention_bias block_use_swiglu use_pos_enc"},
    {"gpt_oss", "gpt-oss 20B, 120B", "gpt-oss gpt-oss-mxfp4", "hidden_act norm_topk_prob"},
    {"gemma2", "Gemma 2 2B, 9B, 27B", "gemma2-older gemma2-newer", "use_bidirectional_attention"},
    {"gemma3_text", "Gemma 3 270M, 1B", "gemma3-older gemma3-newer",
     "attn_logit_softcapping final_logit_softcapping use_bidirectional_attention"},
    {"gemma3n_text", "inside gemma3n", "gemma3n gemma3n-shared", "attn_logit_softcapping"},
    {"gemma4_text", "inside gemma4", "gemma4 gemma4-shared gemma4-experts",
     "attn_logit_softcapping use_bidirectional_attention"},
    {"olmo2", "OLMo 2", "olmo2 olmo2-llama3", "clip_qkv sliding_window"},
    {"gpt2", "GPT-2", "gpt2 gpt2-bare-names", "add_cross_attention"},
    {"gpt_neox", "Pythia", "gpt-neox-parallel gpt-neox-sequential", "sliding_window"},
    {"phi", "Phi-1, Phi-1.5, Phi-2", "phi phi-grouped", "qk_layernorm"},
    {"phi3", "Phi-3, Phi-4-mini", "phi3-older phi3-newer phi3-window", "full_attn_mod lm_head_bias"},
    {"granite", "Granite 3", "granite granite-newer", "sliding_window"},
    {"olmo3", "OLMo 3", "olmo3-older olmo3-newer", "clip_qkv"},
    {"ministral", "Ministral 8B", "ministral-older ministral-newer", "attention_bias mlp_bias"},
    {"smollm3", "SmolLM3 3B", "smollm3-older smollm3-newer", "rope_interleaved"},
    {"seed_oss", "Seed-OSS 36B", "seed-oss seed-oss-biases", "sliding_window"},
    {"arcee", "AFM 4.5B", "arcee arcee-biases", "sliding_window"},
    {"apertus", "Apertus 8B, 70B", "apertus apertus-newer", "mlp_bias post_norm qk_norm"},
    {"hunyuan_v1_dense", "Hunyuan 0.5B to 7B", "hunyuan hunyuan-newer", "mlp_bias use_cla use_qk_norm"},
    {"ministral3", "Ministral 3", "ministral3", "attention_bias mlp_bias"},
    {"starcoder2", "StarCoder2", "starcoder2", "mlp_type norm_type"},
    {"nemotron", "Minitron", "nemotron", "sliding_window"},
    {"stablelm", "Stable LM 2", "stablelm stablelm-parallel", "qk_layernorm"},
    {"ernie4_5", "ERNIE 4.5 0.3B", "ernie4-5", "compression_ratio"},
    {"glm4", "GLM-4-0414", "glm4", "sliding_window"},
    {"cohere2", "Command R7B", "cohere2", "use_qk_norm position_embedding_type"},
    {"exaone4", "EXAONE 4.0", "exaone4-hybrid exaone4-full", "attention_bias mlp_bias"},
    {"deepseek_v2", "DeepSeek-V2, V2-Lite, Coder-V2", "deepseek-v2 deepseek-v2-lite",
     "mlp_bias norm_topk_prob scoring_func moe_layer_freq"},
    {"deepseek_v3", "DeepSeek-V3, R1, Moonlight 16B-A3B", "deepseek-v3 deepseek-v3-plain deepseek-v3-wide",
     "topk_method scoring_func moe_layer_freq"},
    {"minicpm3", "MiniCPM3 4B", "minicpm3 minicpm3-newer", "mlp_bias"},
    {"gemma3", "Gemma 3 4B, 12B, 27B", "gemma3-wrapped", "attn_logit_softcapping"},
    {"gemma3n", "Gemma 3n E2B, E4B", "gemma3n-wrapped", "attn_logit_softcapping"},
    {"gemma4", "Gemma 4 E2B, E4B, 26B-A4B, 31B", "gemma4-wrapped", "attn_logit_softcapping"},
    {"mistral3", "Mistral Small 3.1, Ministral 3", "mistral3-wrapped ministral3-wrapped", "attn_logit_softcapping"},
    {"qwen2_5_vl", "Qwen2.5-VL", "qwen2-5-vl", "attn_logit_softcapping"},
    {"qwen3_vl", "Qwen3-VL", "qwen3-vl", "attn_logit_softcapping"},
    {"qwen3_5", "Qwen3.5 0.8B, 2B, 4B, 9B, 27B", "qwen3-5-wrapped", "attn_logit_softcapping"},
};

SupportedCheckpoint MakeSupported(const char* model_type, const char* class_name, std::string text_types) {
  const auto* row = std::find_if(std::begin(kEvidence), std::end(kEvidence),
                                 [&](const Evidence& r) { return absl::string_view(r.model_type) == model_type; });
  VF_CHECK(row != std::end(kEvidence), "every type has a row");
  return {model_type, class_name, std::move(text_types), row->examples, row->verified, row->refused};
}

}  // namespace

std::vector<SupportedCheckpoint> SupportedCheckpoints() {
  std::vector<SupportedCheckpoint> all;
  for (const Architecture& row : Architectures()) all.push_back(MakeSupported(row.model_type, row.class_name, ""));
  for (const Wrapper& row : Wrappers()) {
    std::vector<std::string> types;
    for (const Wrapper::TextPart& part : row.text) {
      if (part.model_type != nullptr) types.emplace_back(part.model_type);
    }
    all.push_back(MakeSupported(row.model_type, row.class_name, absl::StrJoin(types, " ")));
  }
  return all;
}

}  // namespace varifocal

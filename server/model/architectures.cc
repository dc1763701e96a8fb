#include "server/model/architectures.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status ReadLlama(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.attention_bias, reader.Bool("attention_bias", false));
  RETURN_IF_ERROR(reader.Only("mlp_bias", false));
  RETURN_IF_ERROR(reader.Only("hidden_act", "silu"));
  RETURN_IF_ERROR(reader.Only("partial_rotary_factor", 1.0));
  RETURN_IF_ERROR(reader.Only("rope_interleaved", false));
  // Tensor-parallel arithmetic of the original training run: the same function.
  reader.Ignore({"pretraining_tp", "is_llama_config"});
  return absl::OkStatus();
}

constexpr Architecture kArchitectures[] = {
    {"llama",
     "LlamaForCausalLM",
     {.embedding = "model.embed_tokens.weight",
      .input_norm = "model.layers.{}.input_layernorm.weight",
      .query = "model.layers.{}.self_attn.q_proj",
      .key = "model.layers.{}.self_attn.k_proj",
      .value = "model.layers.{}.self_attn.v_proj",
      .attention_output = "model.layers.{}.self_attn.o_proj",
      .post_attention_norm = "model.layers.{}.post_attention_layernorm.weight",
      .gate = "model.layers.{}.mlp.gate_proj",
      .up = "model.layers.{}.mlp.up_proj",
      .down = "model.layers.{}.mlp.down_proj",
      .final_norm = "model.norm.weight",
      .head = "lm_head.weight",
      .tau = "model.layers.{}.self_attn.tau_proj",
      .skipped = {"model.layers.{}.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"}},
     ReadLlama},
};

}  // namespace

absl::Span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* FindArchitecture(absl::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

std::string LayerTensorName(const char* pattern, int64_t layer, absl::string_view suffix) {
  return absl::StrCat(absl::StrReplaceAll(pattern, {{"{}", absl::StrCat(layer)}}), suffix);
}

}  // namespace varifocal

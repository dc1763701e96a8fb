// Random-weight checkpoints, generated from a seed, of the shape used by the CPU goals: a LLaMA of 30 million
// parameters (8 layers, width 512, 8 heads of 64 over 4, FFN 1408, 16,384 tokens, tied), and a Mixtral of which a token
// uses as many (4 of 16 experts of 352).
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"

namespace varifocal {

// Writes the directory unless it exists; false on failure.
inline bool WriteBenchModel(const std::string& directory, bool has_experts = false) {
  if (std::filesystem::exists(directory + "/model.safetensors")) return true;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  constexpr int kExperts = 16;
  std::ofstream(directory + "/config.json")
      << (has_experts ? R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 16,
 "num_experts_per_tok": 4, "intermediate_size": 352, "sliding_window": null,)"
                      : R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 1408,
 "attention_bias": false, "mlp_bias": false,)")
      << R"( "vocab_size": 16384, "hidden_size": 512,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
 "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 500000.0, "max_position_embeddings": 65536,
 "tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": 1,
 "torch_dtype": "float32"})";
  struct Tensor {
    std::string name;
    int64_t rows, columns;  // rows 0: a vector
  };
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", 16384, 512}, {"model.norm.weight", 0, 512}};
  for (int layer = 0; layer < 8; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const Tensor& tensor : {Tensor{"input_layernorm", 0, 512},
                                 {"post_attention_layernorm", 0, 512},
                                 {"self_attn.q_proj", 512, 512},
                                 {"self_attn.k_proj", 256, 512},
                                 {"self_attn.v_proj", 256, 512},
                                 {"self_attn.o_proj", 512, 512}}) {
      tensors.push_back({prefix + tensor.name + ".weight", tensor.rows, tensor.columns});
    }
    if (!has_experts) {
      tensors.push_back({prefix + "mlp.gate_proj.weight", 1408, 512});
      tensors.push_back({prefix + "mlp.up_proj.weight", 1408, 512});
      tensors.push_back({prefix + "mlp.down_proj.weight", 512, 1408});
      continue;
    }
    tensors.push_back({prefix + "block_sparse_moe.gate.weight", kExperts, 512});
    for (int e = 0; e < kExperts; ++e) {
      const std::string expert = prefix + "block_sparse_moe.experts." + std::to_string(e) + ".";
      tensors.push_back({expert + "w1.weight", 352, 512});
      tensors.push_back({expert + "w3.weight", 352, 512});
      tensors.push_back({expert + "w2.weight", 512, 352});
    }
  }
  std::string header = "{";
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t bytes = std::max<int64_t>(tensor.rows, 1) * tensor.columns * 4;
    header += (offset == 0 ? "\"" : ", \"") + tensor.name + "\": {\"dtype\": \"F32\", \"shape\": [" +
              (tensor.rows > 0 ? std::to_string(tensor.rows) + ", " : "") + std::to_string(tensor.columns) +
              "], \"data_offsets\": [" + std::to_string(offset) + ", " + std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  // Written under a temporary name and renamed, so that an interrupted run leaves no partial directory.
  const std::string partial = directory + "/model.safetensors.partial";
  std::ofstream out(partial, std::ios::binary);
  const uint64_t header_bytes = header.size();
  out.write(reinterpret_cast<const char*>(&header_bytes), 8);
  out << header;
  Random random("cpu bench model");
  for (const Tensor& tensor : tensors) {
    std::vector<float> values(std::max<int64_t>(tensor.rows, 1) * tensor.columns, 1.0f);
    if (tensor.rows > 0) {
      for (float& value : values) {
        value = 0.04f * (static_cast<float>(random.Below(1 << 16)) / 65536.0f - 0.5f) *
                (tensor.name == "model.embed_tokens.weight" ? 1.0f : 2.0f);
      }
    }
    out.write(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }
  out.close();
  if (!out) return false;
  std::filesystem::rename(partial, directory + "/model.safetensors", error);
  return !error;
}

}  // namespace varifocal

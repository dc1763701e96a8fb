// Random-weight checkpoints, generated from a seed, of the shape used by the CPU goals: a LLaMA of 30 million
// parameters (8 layers, width 512, 8 heads of 64 over 4, FFN 1408, 16,384 tokens, tied), a Mixtral of which a token
// uses as many (4 of 16 experts of 352), and a Qwen3.5 of which three layers of four are recurrent (8 heads of 64 over 4).
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"

namespace varifocal {

enum class BenchModelKind { kLlama, kExperts, kHybrid };

// Keys of config.json beside the sizes that all of them have.
inline const char* BenchModelKeys(BenchModelKind kind) {
  switch (kind) {
    case BenchModelKind::kLlama:
      return R"("architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 1408,
 "attention_bias": false, "mlp_bias": false)";
    case BenchModelKind::kExperts:
      return R"("architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 16,
 "num_experts_per_tok": 4, "intermediate_size": 352, "sliding_window": null)";
    case BenchModelKind::kHybrid:
      return R"("architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "intermediate_size": 1408,
 "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
 "linear_num_key_heads": 4, "linear_num_value_heads": 8, "partial_rotary_factor": 0.25)";
  }
  return "";
}

// Writes the directory unless it exists; false on failure.
inline bool WriteBenchModel(const std::string& directory, BenchModelKind kind = BenchModelKind::kLlama) {
  if (std::filesystem::exists(directory + "/model.safetensors")) return true;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  constexpr int kExperts = 16;
  std::ofstream(directory + "/config.json")
      << "{" << BenchModelKeys(kind) << R"(, "vocab_size": 16384, "hidden_size": 512,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
 "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 500000.0, "max_position_embeddings": 65536,
 "tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": 1,
 "torch_dtype": "float32"})";
  struct Tensor {
    std::string name;
    int64_t rows, columns;  // rows 0: a vector
    float of_vector = 1;
    int64_t taps = 0;  // of a convolution: a third axis
  };
  const bool is_hybrid = kind == BenchModelKind::kHybrid;
  const float norm = is_hybrid ? 0 : 1;  // Qwen3.5 adds one
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", 16384, 512}, {"model.norm.weight", 0, 512, norm}};
  for (int layer = 0; layer < 8; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::vector<Tensor>& of_layer) {
      for (Tensor tensor : of_layer) {
        tensor.name = prefix + tensor.name;
        tensors.push_back(std::move(tensor));
      }
    };
    add({{"input_layernorm.weight", 0, 512, norm}, {"post_attention_layernorm.weight", 0, 512, norm}});
    if (is_hybrid && layer % 4 != 3) {
      // Decays of 0.96 a token, about: states neither forget at once nor keep all.
      add({{"linear_attn.in_proj_qkv.weight", 1024, 512},
           {"linear_attn.in_proj_z.weight", 512, 512},
           {"linear_attn.in_proj_b.weight", 8, 512},
           {"linear_attn.in_proj_a.weight", 8, 512},
           {"linear_attn.conv1d.weight", 1024, 1, 1, 4},
           {"linear_attn.A_log", 0, 8, -2},
           {"linear_attn.dt_bias", 0, 8, -1},
           {"linear_attn.norm.weight", 0, 64, 1},
           {"linear_attn.out_proj.weight", 512, 512}});
    } else {
      add({{"self_attn.q_proj.weight", is_hybrid ? 1024 : 512, 512},  // Qwen3.5: with gates
           {"self_attn.k_proj.weight", 256, 512},
           {"self_attn.v_proj.weight", 256, 512},
           {"self_attn.o_proj.weight", 512, 512}});
      if (is_hybrid) add({{"self_attn.q_norm.weight", 0, 64, 0}, {"self_attn.k_norm.weight", 0, 64, 0}});
    }
    if (kind != BenchModelKind::kExperts) {
      add({{"mlp.gate_proj.weight", 1408, 512},
           {"mlp.up_proj.weight", 1408, 512},
           {"mlp.down_proj.weight", 512, 1408}});
      continue;
    }
    add({{"block_sparse_moe.gate.weight", kExperts, 512}});
    for (int e = 0; e < kExperts; ++e) {
      const std::string expert = "block_sparse_moe.experts." + std::to_string(e) + ".";
      add({{expert + "w1.weight", 352, 512}, {expert + "w3.weight", 352, 512}, {expert + "w2.weight", 512, 352}});
    }
  }
  std::string header = "{";
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t bytes = std::max<int64_t>(tensor.rows, 1) * tensor.columns * std::max<int64_t>(tensor.taps, 1) * 4;
    header += (offset == 0 ? "\"" : ", \"") + tensor.name + "\": {\"dtype\": \"F32\", \"shape\": [" +
              (tensor.rows > 0 ? std::to_string(tensor.rows) + ", " : "") + std::to_string(tensor.columns) +
              (tensor.taps > 0 ? ", " + std::to_string(tensor.taps) : "") + "], \"data_offsets\": [" +
              std::to_string(offset) + ", " + std::to_string(offset + bytes) + "]}";
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
    const int64_t count = std::max<int64_t>(tensor.rows, 1) * tensor.columns * std::max<int64_t>(tensor.taps, 1);
    std::vector<float> values(count, tensor.of_vector);
    const float spread = tensor.taps > 0 ? 0.8f : tensor.name == "model.embed_tokens.weight" ? 0.04f : 0.08f;
    if (tensor.rows > 0) {
      for (float& value : values) value = spread * (static_cast<float>(random.Below(1 << 16)) / 65536.0f - 0.5f);
    }
    out.write(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }
  out.close();
  if (!out) return false;
  std::filesystem::rename(partial, directory + "/model.safetensors", error);
  return !error;
}

}  // namespace varifocal

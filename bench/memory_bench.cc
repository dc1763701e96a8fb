// Memory of one long prompt: planned against measured.
//
//   memory_bench [MODEL_DIRECTORY=gemma-shaped] [PROMPT_TOKENS=32768 - 8] [DTYPE=f32]
//
// `gemma-shaped` creates a checkpoint of the shape of Gemma 3 270M with random weights in a temporary directory (540 MB).
// Planned: weights, peak KV pages of every group, a step's buffers, rotation tables. Measured: the peak of the resident
// set (VmHWM) over the prompt, minus its size before loading; and separately the peak during loading, which includes file
// contents and the packed weights.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/random.h"
#include "server/engine/engine.h"
#include "server/model/transformer.h"

namespace varifocal {
namespace {

constexpr int64_t kNewTokens = 8;

// Writes config.json and model.safetensors: bf16, values of magnitude 2^-6 with random signs, norms of zeros.
class GemmaShaped {
 public:
  GemmaShaped() : directory_(std::filesystem::temp_directory_path() / absl::StrCat("gemma-shaped-", getpid())) {
    std::filesystem::create_directory(directory_);
    Json types = Json::array();
    for (int layer = 0; layer < kLayers; ++layer)
      types.push_back(layer % 6 == 5 ? "full_attention" : "sliding_attention");
    const Json config = {{"model_type", "gemma3_text"},
                         {"architectures", {"Gemma3ForCausalLM"}},
                         {"hidden_size", kWidth},
                         {"intermediate_size", kFeedForward},
                         {"num_hidden_layers", kLayers},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 1},
                         {"head_dim", 256},
                         {"vocab_size", kVocabulary},
                         {"max_position_embeddings", 32768},
                         {"rms_norm_eps", 1e-6},
                         {"hidden_activation", "gelu_pytorch_tanh"},
                         {"query_pre_attn_scalar", 256},
                         {"sliding_window", 512},
                         {"layer_types", types},
                         {"rope_parameters",
                          {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                           {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}},
                         {"tie_word_embeddings", true}};
    std::ofstream(directory_ / "config.json") << config.dump();
    Add("model.embed_tokens.weight", {kVocabulary, kWidth});
    Add("model.norm.weight", {kWidth});
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string at = absl::StrCat("model.layers.", layer, ".");
      for (const char* norm :
           {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
        Add(absl::StrCat(at, norm, ".weight"), {kWidth});
      }
      Add(at + "self_attn.q_norm.weight", {256});
      Add(at + "self_attn.k_norm.weight", {256});
      Add(at + "self_attn.q_proj.weight", {1024, kWidth});
      Add(at + "self_attn.k_proj.weight", {256, kWidth});
      Add(at + "self_attn.v_proj.weight", {256, kWidth});
      Add(at + "self_attn.o_proj.weight", {kWidth, 1024});
      Add(at + "mlp.gate_proj.weight", {kFeedForward, kWidth});
      Add(at + "mlp.up_proj.weight", {kFeedForward, kWidth});
      Add(at + "mlp.down_proj.weight", {kWidth, kFeedForward});
    }
    Write();
  }
  ~GemmaShaped() { std::filesystem::remove_all(directory_); }
  std::string directory() const { return directory_.string(); }

 private:
  static constexpr int64_t kWidth = 640, kFeedForward = 2048, kVocabulary = 262144;
  static constexpr int kLayers = 18;

  void Add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    header_[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {end_, end_ + 2 * count}}};
    end_ += 2 * count;
    tensors_.push_back({count, shape.size() == 1});
  }

  void Write() const {
    std::string header = header_.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t size = header.size();
    std::ofstream file(directory_ / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file << header;
    Random random("weights");
    std::vector<uint16_t> values;
    for (const auto& [count, is_norm] : tensors_) {
      values.assign(count, 0);
      uint64_t bits = 0;
      for (size_t i = 0; !is_norm && i < values.size(); ++i) {
        if (i % 64 == 0) bits = random.Next();
        values[i] = static_cast<uint16_t>(0x3C80 | (bits >> (i % 64) & 1) << 15);
      }
      file.write(reinterpret_cast<const char*>(values.data()), 2 * count);
    }
  }

  const std::filesystem::path directory_;
  Json header_ = Json::object();
  int64_t end_ = 0;
  std::vector<std::pair<int64_t, bool>> tensors_;  // elements, and whether it is a norm
};

// A line of /proc/self/status, in bytes.
int64_t ProcessBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Measure(const std::string& directory, int64_t token_count, const std::string& dtype) {
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const int64_t before = ProcessBytes("VmRSS:");
  auto model = LoadModel(directory, {.dtype = dtype});
  if (!model.ok()) return Fail(model.status());
  const int64_t loading = ProcessBytes("VmHWM:") - before, loaded = ProcessBytes("VmRSS:") - before;
  std::ofstream("/proc/self/clear_refs") << 5;
  auto engine = Engine::Create(*model, {});
  if (!engine.ok()) return Fail(engine.status());
  Random random("memory");
  std::vector<int32_t> ids(token_count);
  for (int32_t& id : ids) id = random.Below((*model)->config().vocabulary_size);
  const auto result =
      (*engine)->Run({.token_ids = ids, .work = GenerateWork{.max_new_tokens = kNewTokens, .ignore_eos = true}});
  if (!result.ok()) return Fail(result.status());
  const int64_t peak = ProcessBytes("VmHWM:") - before;
  const EngineDescription description = (*engine)->Describe();
  const ModelConfig& config = (*model)->config();
  int64_t ropes = 0;
  for (const RopeConfig& rope : config.ropes)
    ropes += description.context_tokens_max * rope.RotaryWidth(config.head_width) * 4;
  const int64_t weights = description.model.weight_bytes, pages = (*engine)->Status().cache_bytes_peak;
  const int64_t planned = weights + pages + description.buffer_bytes + ropes;
  absl::PrintF("%s, %s, %d prompt tokens in %.1f s\n", directory.c_str(), description.model.kernels.c_str(),
               token_count, 1e-6 * result->prefill_us);
  std::printf("  weights %.1f MiB, KV pages %.1f MiB, buffers of a step %.1f MiB, rotation tables %.1f MiB\n",
              Mebibytes(weights), Mebibytes(pages), Mebibytes(description.buffer_bytes), Mebibytes(ropes));
  std::printf("  planned %.1f MiB, peak %.1f MiB: %+.1f %%\n", Mebibytes(planned), Mebibytes(peak),
              100.0 * (peak - planned) / planned);
  std::printf("  after loading %.1f MiB, while loading %.1f MiB at most\n", Mebibytes(loaded), Mebibytes(loading));
  return 0;
}

int Main(const std::string& directory, int64_t token_count, const std::string& dtype) {
  if (directory != "gemma-shaped") return Measure(directory, token_count, dtype);
  const GemmaShaped checkpoint;
  return Measure(checkpoint.directory(), token_count, dtype);
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  const long long tokens = argc > 2 ? std::atoll(argv[2]) : 32768 - varifocal::kNewTokens;
  if (tokens < 1) {
    std::fprintf(stderr, "usage: memory_bench [MODEL_DIRECTORY] [PROMPT_TOKENS] [f32|bf16]\n");
    return 2;
  }
  return varifocal::Main(argc > 1 ? argv[1] : "gemma-shaped", tokens, argc > 3 ? argv[3] : "");
}

// A loaded model: its config, its weights on a backend, and its provenance.
//
// A directory has Hugging Face layout: config.json, weights, and optionally tokenizer.json and generation_config.json.
// Without a tokenizer, scoring and generation take ids. Every key of config.json is supported or rejected by name. The
// SHA-256 of the weights is computed once and cached outside the directory.
//
// Errors:  NOT_FOUND (no such file), INVALID_ARGUMENT (malformed, with file, key and value), UNIMPLEMENTED (well-formed
//          but not supported, by name),
//          RESOURCE_EXHAUSTED (does not fit).
// Threads: immutable once loaded; the backend inside is driven by one engine at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/model_config.h"
#include "tokenizer/token_rules.h"

namespace varifocal {

namespace kernels {
class Backend;
}
class Tokenizer;
class Transformer;

struct ModelOptions {
  std::string device = "auto";   // auto, cpu, reference, cuda:N; of a daemon also a list (device_list.h)
  std::string dtype;             // f32 or bf16; empty takes the backend's default
  std::string cpu_isa;           // empty takes the best that the processor has
  bool cuda_graphs = false;      // kernels/backend.h
  std::string attention_kernel;  // kernels/backend.h; empty: the default
  std::string product_kernel;    // the same
  std::string decode_kernels;    // kernels/backend.h; empty: the default
  int threads = 0;               // 0 takes one per processor this process may use
  TokenizerRules tokenizer_rules = TokenizerRules::kAgreed;
  std::vector<std::string> ignored_config_keys;  // "KEY", or "NAME:KEY" of one model of a server (KeysOfModel)
  // Cache of weight hashes; empty: $XDG_CACHE_HOME/varifocal or ~/.cache/varifocal. Failure to read or write it only
  // costs time.
  std::string cache_directory;
  // Called before weights are packed: whether the backend has memory for this many bytes that are not resident yet.
  std::function<absl::Status(const kernels::Backend& backend, int64_t needed_bytes)> admit;
  std::string adapter_directory;  // of an adapter that is merged into the weights (adapter.h); empty: none
  // Overrides the options above; for tests.
  std::shared_ptr<kernels::Backend> backend;
  std::map<std::string, std::shared_ptr<kernels::Backend>> backends;  // the same by device, of a daemon; for tests
};

// Whether the devices, number format, threads and instruction set can be used here, without a model.
absl::Status CheckModelOptions(const ModelOptions& options);

// Recorded with every result.
struct ModelProvenance {
  std::string backend;  // "cpu", "reference", "cuda"
  std::string isa;      // instruction set or kernel family, e.g. "avx512"; may be empty
  std::string kernels;  // the whole choice in one name, e.g. "cpu-avx512-f32"; equal names give equal bits
  std::string device;   // in words, e.g. the processor's model name
  std::string dtype;    // "f32", "bf16"
  int threads = 0;
  std::string weights_sha256;    // 64 hex characters
  std::string tokenizer_sha256;  // empty without a tokenizer
  std::string attention;         // AttentionSetting::Label()
  std::string weights_from;      // how weights were stored, and an adapter, in words; empty: as they are used
  std::string function_json;     // FunctionJson(); of a hosted model with its chat format
  int64_t page_bytes = 0;        // one page of 128 tokens, all layers
  int64_t weight_bytes = 0;      // on the backend
  int64_t parameter_count = 0;
};

class LoadedModel {
 public:
  ~LoadedModel();

  const std::string& directory() const { return directory_; }
  const ModelConfig& config() const { return config_; }
  const AttentionSetting& attention() const { return config_.attention; }
  const std::string& weights_sha256() const { return provenance_.weights_sha256; }
  const ModelProvenance& provenance() const { return provenance_; }
  // Null when the directory has none.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  // Tokens that end a generation; may be empty.
  const std::vector<int32_t>& eos_token_ids() const { return config_.eos_token_ids; }

  Transformer& transformer() const { return *transformer_; }

 private:
  friend absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadModel(const std::string& directory,
                                                                      const ModelOptions& options);
  LoadedModel();

  std::string directory_;
  ModelConfig config_;
  ModelProvenance provenance_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Transformer> transformer_;
};

absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadModel(const std::string& directory, const ModelOptions& options);

// The config of a directory without its weights; the ends of a generation are those of generation_config.json, else of
// config.json.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory,
                                            const std::vector<std::string>& ignored_keys = {},
                                            const std::string& adapter_directory = "");

}  // namespace varifocal

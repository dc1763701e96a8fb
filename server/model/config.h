// What config.json says, as numbers the forward pass can use.
//
// Reading is strict: a key that is neither honoured nor known to be harmless is an error that names it, because a setting
// that is silently ignored makes every later number wrong. Which keys mean what is decided per architecture, by the
// table in architectures.h; both generations of Hugging Face keys are read (`rope_theta` + `rope_scaling`, and the newer
// `rope_parameters`).
//
// Errors: INVALID_ARGUMENT naming the key, its value and the limit; UNIMPLEMENTED naming what is not supported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

enum class AttentionMode { kBaseline, kFocalConstant, kFocalLearned };
enum class TauMean { kCausal, kToken, kSequence };

// How sharply queries look: one per model, or per request when a run-time temperature replaces it.
struct AttentionSetting {
  AttentionMode mode = AttentionMode::kBaseline;
  std::vector<double> temperatures;  // constant: one per layer; softmax(q.k * base / t)
  double tau_min = 0;                // learned: softmax(q.k / tau), tau within [tau_min, tau_max]
  double tau_max = 0;
  TauMean tau_mean = TauMean::kCausal;

  // "baseline", "focal t=0.4", "focal t=0.4,0.5,..", "focal tau=[3.5,8] causal"; numbers round-trip. Names the setting in
  // records and in the key of the prefix cache.
  std::string ToString() const;
  // True when the mean over the whole prompt is needed before any row can attend: no chunks, no prefix reuse.
  bool NeedsWholePrompt() const { return mode == AttentionMode::kFocalLearned && tau_mean == TauMean::kSequence; }
};

enum class RopeKind { kDefault, kLinear, kLlama3 };

// Where a key is. Lengths and bases as in Hugging Face's rope_parameters.
struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double factor = 1;                      // linear, llama3
  double low_freq_factor = 1;             // llama3
  double high_freq_factor = 4;            // llama3
  double original_max_position = 8192;    // llama3
  std::string ToString() const;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama", a row of the table
  int64_t vocabulary_size = 0;
  int64_t width = 0;               // M
  int64_t feed_forward_width = 0;  // F
  int64_t layer_count = 0;         // L
  int64_t head_count = 0;          // H
  int64_t kv_head_count = 0;       // K
  int64_t head_width = 0;          // D
  double rms_norm_epsilon = 1e-6;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  RopeConfig rope;
  int64_t max_position = 0;                      // prompt and generated tokens together never exceed it
  std::optional<int64_t> trained_context_length; // beyond it a result is labelled extrapolated
  AttentionSetting attention;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
};

// `json_text` is the content of config.json.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text);

// The eos ids of generation_config.json, when it names any; other generation settings there are decoding defaults that
// varifocal never applies silently, and are checked for being well formed only.
absl::StatusOr<std::optional<std::vector<int32_t>>> ParseGenerationConfigEos(absl::string_view json_text);

}  // namespace varifocal

// A model's weights on a backend, named by function.
//
// A checkpoint must have exactly the tensors that the architecture's row names, with the shapes implied by the config:
// missing and unused tensors are errors. A head that is stored although the config ties it to the embedding is used when
// it differs (as in transformers 5), and skipped when it is a copy. Values are checked to be finite.
//
// Errors:  INVALID_ARGUMENT naming tensors (the first five and their count), shapes and positions; backend errors.
// Threads: immutable once loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/model/architectures.h"
#include "server/model/latent_weights.h"
#include "server/model/layer_parts.h"
#include "server/model/model_config.h"
#include "server/model/stream_weights.h"
#include "server/model/weight_source.h"

namespace varifocal {

struct NormWeights {
  std::unique_ptr<kernels::Buffer> weight;
  std::unique_ptr<kernels::Buffer> bias;  // LayerNorm alone
  bool read_once = false;                 // kernels::NormArgs::read_once
};

// A matrix and its bias.
struct LinearWeights {
  std::shared_ptr<kernels::Weight> weight;
  std::unique_ptr<kernels::Buffer> bias;
};

// Null where the architecture has none.
struct LayerWeights {
  NormWeights attention_norm;                       // [M]; none: the block reads the residual itself
  LinearWeights query_key_value;                    // [(H + 2K) D, M], or [H D, M] where keys are another layer's; or
  LatentWeights latent;                             // latent attention
  std::shared_ptr<kernels::Weight> attention_gate;  // [H D, M]
  std::unique_ptr<kernels::Buffer> query_norm;      // [D], or [H D] over the width
  std::unique_ptr<kernels::Buffer> key_norm;        // [D], or [K D]
  LinearWeights attention_output;                   // [M, H D]
  // Of a recurrent layer (kernels/recurrence.h).
  LinearWeights recurrence_inputs;                   // [input width, M]
  std::unique_ptr<kernels::Buffer> recurrence_conv;  // [W, channels]
  std::unique_ptr<kernels::Buffer> conv_bias;        // [channels]
  std::unique_ptr<kernels::Buffer> decay_log;        // [value heads]
  std::unique_ptr<kernels::Buffer> decay_bias;       // [value heads]
  std::unique_ptr<kernels::Buffer> skip;             // [value heads]
  std::unique_ptr<kernels::Buffer> recurrence_norm;  // [value width]
  LinearWeights recurrence_output;                   // [M, value width]
  NormWeights attention_post_norm;                   // [M], of the attention output
  NormWeights mlp_norm;                              // [M]
  LinearWeights gate_up;                             // [2F, M], or
  LinearWeights up;                                  // [F, M] without a gate
  LinearWeights down;                                // [M, F]
  NormWeights mlp_post_norm;                         // [M]
  std::unique_ptr<kernels::Buffer> router;           // [E, M]: a mixture of experts, whose gate_up and down are
                                                     // [E, 2F, M] and [E, M, F]; without gates [E, F, M]
  std::unique_ptr<kernels::Buffer> shared_gate;      // [M], and of its shared expert
  std::unique_ptr<kernels::Buffer> router_bias;      // [E]
  std::unique_ptr<kernels::Buffer> choice_bias;      // [E]
  kernels::ActivationTerms activation_terms;         // of the config, or learned
  std::shared_ptr<kernels::Weight> shared_gate_up;   // [2F', M]
  std::shared_ptr<kernels::Weight> shared_down;      // [M, F']
  LayerPartWeights parts;
  LayerStreamWeights streams;
  std::optional<float> cut_deviations;                   // of gates; then gate_up is kPlain
  std::vector<LoadedAttentionTensor> attention_tensors;  // AttentionSetting::Tensors()
};

class Transformer {
 public:
  // Called before packing: whether there is memory for this many bytes of weights that are not resident yet.
  using Admit = std::function<absl::Status(const kernels::Backend& backend, int64_t needed_bytes)>;
  // Weights whose tensors have digests are shared with loaded models that have equal ones.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const Architecture& architecture, const ModelConfig& config,
                                                           const WeightSource& source,
                                                           std::shared_ptr<kernels::Backend> backend,
                                                           const TensorDigests& digests = {}, const Admit& admit = {});

  // As given, but not tied where the checkpoint stores a head that differs from the embedding.
  const ModelConfig& config() const { return config_; }
  kernels::Backend& backend() const { return *backend_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const kernels::Weight& embedding() const { return *embedding_; }
  const kernels::Weight* positions() const { return positions_.get(); }  // null: no learned positions
  const kernels::Weight& head() const { return head_ != nullptr ? *head_ : *embedding_; }
  const std::unique_ptr<kernels::Buffer>& head_bias() const { return head_bias_; }  // [V], or null
  const NormWeights& final_norm() const { return final_norm_; }
  const LayerInputWeights& layer_inputs() const { return layer_inputs_; }
  const StreamWeights& streams() const { return streams_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t shared_weight_bytes() const;  // of them, shared with other models now
  int64_t parameter_count() const { return parameter_count_; }

  kernels::KvShape KvShape(int64_t page_group) const;
  int64_t PageBytes(int64_t page_group) const;  // one page of 128 tokens, all layers of that group
  int64_t PageBytes() const;                    // one page of every group

 private:
  Transformer() = default;

  ModelConfig config_;
  std::shared_ptr<kernels::Backend> backend_;  // outlives the weights below
  std::vector<LayerWeights> layers_;
  std::shared_ptr<kernels::Weight> embedding_;
  std::shared_ptr<kernels::Weight> positions_;
  std::shared_ptr<kernels::Weight> head_;  // null: tied
  std::unique_ptr<kernels::Buffer> head_bias_;
  NormWeights final_norm_;
  LayerInputWeights layer_inputs_;
  StreamWeights streams_;
  int64_t weight_bytes_ = 0;
  int64_t parameter_count_ = 0;
};

}  // namespace varifocal

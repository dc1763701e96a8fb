// The content of config.json as used by the forward pass; parsed by config.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "server/model/attention/setting.h"
#include "server/model/rope.h"
#include "server/model/training.h"

namespace varifocal {

struct Adapter;
struct PackedWeights;

// One layer: what its attention sees, its rotation, and softmax scale before any temperature; or a recurrent state.
struct LayerConfig {
  bool has_attention = true;
  bool has_mlp = true;         // or a mixture
  bool is_recurrent = false;   // ModelConfig::recurrence, in place of attention or beside it
  int64_t window = 0;          // a query at p sees keys p-window+1..p; 0: all keys up to p
  int64_t rope_index = 0;      // into ModelConfig::ropes; -1: no rotation
  double attention_scale = 0;  // softmax(q.k * scale); 0 means head_width^-1/2
  int64_t page_group = -1;     // of attention, into ModelConfig::page_groups
  int64_t group_layer = 0;     // index of the layer in that group
  int64_t state_layer = 0;     // and in the group of states
  bool has_mixture = false;    // of experts, in place of the MLP
  // Of this layer alone; 0: as of the model.
  int64_t head_width = 0;
  int64_t kv_head_count = 0;
  int64_t feed_forward_width = 0;
  int64_t source_layer = -1;     // an earlier one, whose keys and values attention reads; -1: its own
  bool keys_are_values = false;  // before the norms
  // Of gates, were they normally distributed, so many are below the cut that they are lowered to; 0: they are not cut.
  double cut_share = 0;
};

// Latent attention: keys and values of all heads are products of one latent per token, and so may queries be. Both are
// computed before pages are written, so that attention sees plain heads of `head_width`: the rotated dimensions, those that
// are not rotated, and zeros up to it. Values are followed by zeros likewise.
struct LatentConfig {
  int64_t rank = 0;             // of the latent of keys and values; 0: no latent attention
  int64_t query_rank = 0;       // of that of queries; 0: queries are a product of the input
  int64_t rotated_width = 0;    // dimensions of a head; those of keys are the same in all heads
  int64_t unrotated_width = 0;  // others
  int64_t value_width = 0;
  bool neighbours = false;  // pairs of rotated dimensions are stored as (2i, 2i + 1)
  int64_t key_width() const { return rotated_width + unrotated_width; }
  int64_t width() const { return rank == 0 ? 0 : rank + rotated_width; }  // of what keys and values are computed from
};

// Of the norms of latents: transformers has no key for it.
inline constexpr float kLatentNormEpsilon = 1e-6f;

// A mixture of experts.
struct MixtureConfig {
  int64_t expert_count = 0;   // E; 0: no layer has one
  int64_t per_token = 0;      // experts of a row
  int64_t width = 0;          // F of an expert
  int64_t shared_width = 0;   // F of the expert that every row has; 0: there is none
  bool shared_gate = true;    // its weight in a row is computed; else 1
  bool renormalised = false;  // a row's weights sum to 1; else they are its experts' shares of all
  bool normed_apart = false;  // the shared expert's output and the others' sum are normed before they are added
  bool gated = true;          // else act(up x) alone, in the shared one too
  bool choice_bias = false;   // added to scores where experts are chosen
  kernels::ExpertRouting routing;
};

// ModelConfig::model_type of a model behind an endpoint, which has no checkpoint.
inline constexpr char kEndpointArchitecture[] = "endpoint";

// The window of a row that reads the state after the row before it, and nothing earlier.
inline constexpr int64_t kStateWindow = 2;

// Layers with the same window and heads: they share page numbers, a pool and a mask, and free pages together.
struct PageGroup {
  int64_t window = 0;  // 0: full layers; these are group 0 when there are any, windows follow from small to large
  int64_t layer_count = 0;
  bool holds_states = false;  // of recurrent layers, the last group; its window is kStateWindow
  int64_t head_width = 0;     // of attention, as the next one
  int64_t kv_head_count = 0;
};

// What each layer adds at its end: of the row's token, and of its embedding.
struct LayerInputConfig {
  int64_t width = 0;       // P; 0: there are none
  int64_t vocabulary = 0;  // V'; ids from there on have the inputs of id 0
};

// Several residual streams, and a product of low rank beside attention (kernels/residual_streams.h).
struct StreamConfig {
  int64_t count = 0;              // S; 0: the residual is the only one
  int64_t active = 0;             // that layers work on
  int64_t low_rank = 0;           // R
  bool scales_corrected = false;  // where the layer's input is computed from it
};

// Of the inputs of a state space: what the parts of a row of x (kernels/recurrence.h) are multiplied with.
struct StateSpaceMultipliers {
  double z = 1, u = 1, b = 1, c = 1, step = 1;
};

// Options of blocks where architectures differ in more than sizes. The tensor names (architectures.h) determine which
// norms, biases and fused tensors a block has.
struct BlockConfig {
  kernels::NormKind norm = kernels::NormKind::kRms;
  double norm_epsilon = 1e-6;
  bool norm_bias = true;              // of LayerNorms
  bool norms_add_one = false;         // weights are stored as w of (1 + w)
  bool head_norm_over_width = false;  // norms of queries and keys run over all heads together
  bool head_norm_after_rotation = false;
  bool value_norm = false;  // of each head, without a weight
  kernels::Activation activation = kernels::Activation::kSilu;
  kernels::ActivationTerms activation_terms;  // of kClampedGate and kSlopedSilu; those of kXielu are tensors
  bool parallel_residual = false;             // x += attention(norm(x)) + mlp(norm'(x)) instead of one after the other
  bool attention_gate = false;   // attention's output times sigmoid(gate x), the gate's rows beside the queries
  bool conv_bias = false;        // of the convolutions of recurrent layers
  bool recurrence_bias = false;  // of the products around these
  bool one_norm = false;         // both branches of a parallel block read the norm before attention
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  double embedding_multiplier = 1;
  double residual_multiplier = 1;  // of what attention and MLP add
  // Of what each adds, times residual_multiplier.
  double attention_output_multiplier = 1;
  double recurrence_output_multiplier = 1;
  double mlp_output_multiplier = 1;
  StateSpaceMultipliers state_space;
  double logit_multiplier = 1;
  double score_soft_cap = 0;        // c: scaled scores s become c tanh(s / c), before the mask; 0: not
  double logit_soft_cap = 0;        // the same of logits
  double query_key_value_clip = 0;  // q, k and v are clamped to +- this, after the norms; 0: not
};

// Larger lengths indicate a damaged file.
inline constexpr int64_t kPositionMax = int64_t{1} << 30;

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama", a row of the table
  std::string wrapper;       // "gemma3", a row of the table of multimodal checkpoints; empty: it is text alone
  int64_t vocabulary_size = 0;
  int64_t width = 0;               // M
  int64_t feed_forward_width = 0;  // F
  int64_t layer_count = 0;         // L
  int64_t further_layers = 0;      // stored after them, to predict further tokens; not read
  int64_t head_count = 0;          // H
  int64_t kv_head_count = 0;       // K
  int64_t head_width = 0;          // D
  bool tied_embeddings = false;    // of a loaded model: in effect, a stored head that differs is used
  BlockConfig blocks;
  MixtureConfig mixture;
  LatentConfig latent;
  kernels::RecurrenceShape recurrence;  // kNone: no layer is recurrent
  LayerInputConfig layer_inputs;
  StreamConfig streams;
  std::vector<RopeConfig> ropes;  // one, or one of full and one of window layers; none with learned positions
  std::vector<LayerConfig> layers;
  std::vector<PageGroup> page_groups;
  int64_t max_position = 0;                       // prompt and generated tokens together never exceed it
  int64_t extended_position_max = 0;              // nor under any run-time rotation
  std::optional<int64_t> trained_context_length;  // results beyond it are marked extrapolated
  Training training;
  AttentionSetting attention;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> image_token_ids;                 // stand for images, which are not supported; sorted
  std::shared_ptr<const PackedWeights> packed_weights;  // null: stored as they are
  std::shared_ptr<const Adapter> adapter;               // merged into the weights; null: none
  std::vector<std::string> ignored_keys;                // keys of config.json that the user chose to ignore; sorted
  std::vector<std::string> notes;                       // for the user: what was limited or left out, a sentence each
};

// Of one layer.
int64_t HeadWidth(const ModelConfig& config, const LayerConfig& layer);
int64_t KvHeadCount(const ModelConfig& config, const LayerConfig& layer);
int64_t FeedForwardWidth(const ModelConfig& config, const LayerConfig& layer);
// Of the layers with that rotation; of the model where there is none.
int64_t RopeHeadWidth(const ModelConfig& config, int64_t rope_index);
// K and D of attention, each the largest of any layer.
kernels::HeadShape LargestHeads(const ModelConfig& config);
bool HasCutGates(const ModelConfig& config);

// Fills page_groups, and each layer's index in them, from the layers' windows and heads. A layer with a source has the
// place of that one. A window of at least max_position is dropped, and then bounds extended_position_max.
void GroupLayers(ModelConfig& config);

// Dimensions of a head that a rotation may be of.
int64_t RotationWidth(const ModelConfig& config);

// Layers that have attention.
int64_t AttentionLayerCount(const ModelConfig& config);

// The largest width of MLPs that all rows of a layer have; 1 where there is none.
int64_t PlainWidth(const ModelConfig& config);

// Model properties for attention variants; the layers' windows must be set.
AttentionModel AttentionModelOf(const ModelConfig& config);

// The length that determines the rotation of a sequence of `total_length` positions (prompt and all tokens that may
// follow): sequences with equal values share tables and cached pages. 0 for most models, which do not depend on it.
int64_t RopeLength(const std::vector<RopeConfig>& ropes, int64_t total_length);
std::string RopesToString(const std::vector<RopeConfig>& ropes);

}  // namespace varifocal

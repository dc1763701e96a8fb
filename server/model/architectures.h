// The table of architectures: config.json keys and tensor names of each model type.
//
// There is one forward pass (forward.h); a row states its differences from a llama as data: the names of its keys and
// tensors, the defaults of missing keys (as in transformers), options of its blocks. A block has the norms, biases and
// fused tensors that its row names. Adding an architecture is a row in architectures.cc, and a BlockConfig option
// (model_config.h, used by forward.cc) where it needs one that is not implemented yet.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/model/config_reader.h"
#include "server/model/layer_windows.h"
#include "server/model/model_config.h"
#include "server/model/rope_keys.h"

namespace varifocal {

// Keys of config.json whose names or defaults differ between architectures. Null: no such key.
struct ConfigKeys {
  const char* width = "hidden_size";
  const char* feed_forward_width = "intermediate_size";
  bool feed_forward_by_layer = false;              // or a list of them, which `read_layers` reads
  const char* feed_forward_width_first = nullptr;  // another name, which takes precedence
  int64_t feed_forward_default_ratio = 0;          // times the width, where the key is missing; 0: it is required
  const char* layer_count = "num_hidden_layers";
  // nemotron_h: what each layer is, as a list or a character each; its length is their number.
  const char* layer_kinds = nullptr;
  const char* layer_pattern = nullptr;
  const char* head_count = "num_attention_heads";
  const char* kv_head_count = "num_key_value_heads";
  int64_t kv_head_default = 0;  // where the key is missing; 0: as many as query heads
  const char* head_width = "head_dim";
  int64_t head_width_default = 0;  // where the key is missing; 0: width / heads
  const char* max_position = "max_position_embeddings";
  const char* norm_epsilon = "rms_norm_eps";
  double norm_epsilon_default = 1e-6;
  const char* activation = "hidden_act";
  const char* activation_default = "silu";
  bool tied_default = false;
  bool soft_caps = false;  // reads them; else they are refused
};

// Rotations: one (layers without any are read with the windows), one for full and one for window layers, none.
enum class PositionKind { kRope, kRopePerLayerType, kLearned };

// Which dimensions of a head are rotated together.
enum class RotaryPairs {
  kHalves,      // (i, i + rotary width / 2), as the kernels do
  kNeighbours,  // (2i, 2i + 1): rows of queries and keys are reordered when they are loaded, which is the same function
};

enum class FusedOrder {
  kStacked,  // all queries, all keys, all values
  kPerHead,  // query, key and value of the first head, then of the second..
};

// Keys of latent attention, whose names are the same everywhere; defaults of missing ones.
struct LatentKeys {
  int64_t rank_default = 0;  // of `kv_lora_rank`; 0: no latent attention
  int64_t query_rank_default = 0;
  int64_t rotated_default = 0;
  int64_t unrotated_default = 0;
  int64_t value_default = 0;  // 0: width / heads
  bool neighbours = false;    // unless `rope_interleave`, where it is read, is another
  bool neighbours_by_key = false;
};

// Tensors of latent attention.
struct LatentNames {
  const char* query_down = "self_attn.q_a_proj";
  const char* query_norm = "self_attn.q_a_layernorm";
  const char* query_up = "self_attn.q_b_proj";
  const char* down = "self_attn.kv_a_proj_with_mqa";
  const char* norm = "self_attn.kv_a_layernorm";
  const char* up = "self_attn.kv_b_proj";
};

// Keys of a mixture of experts; `num_experts_per_tok` has one name.
struct MixtureKeys {
  const char* expert_count = nullptr;      // null: no layer has one
  const char* expert_count_too = nullptr;  // another name of it
  int64_t expert_count_default = 0;
  int64_t per_token_default = 0;
  bool none_allowed = false;    // a count of 0: all layers have the plain MLP
  const char* width = nullptr;  // of an expert; null: that of a plain MLP
  int64_t width_default = 0;    // 0: it is required, as of the next one
  const char* shared_width = nullptr;
  int64_t shared_width_default = 0;
  bool chooses_layers = false;       // `decoder_sparse_step` and `mlp_only_layers` are read; else every layer has one
  bool always_renormalised = false;  // else by `norm_topk_prob`
  bool renormalised_default = false;
  bool never_renormalised = false;  // a true `norm_topk_prob` is refused
  kernels::ExpertScore score = kernels::ExpertScore::kSoftmax;
  bool choice_bias = false;
  bool gated = true;
  // `n_group` and `topk_group` are read; which score of a group, where they are.
  bool reads_groups = false;
  int64_t groups_default = 1;
  int64_t groups_kept_default = 1;
  kernels::GroupScore group_score = kernels::GroupScore::kLargest;
  const char* scaling = nullptr;  // of weights
  double scaling_default = 1;
  const char* dense_first = nullptr;  // so many layers have the plain MLP
  int64_t dense_first_default = 0;
  const char* shared_count = nullptr;  // experts of one width in place of shared_width
  int64_t shared_count_default = 1;
};

// Tensors of a mixture of experts. A file has a tensor for each expert, or all of them stacked.
struct MixtureNames {
  const char* router = "mlp.gate";
  const char* gate = "mlp.experts.{}.gate_proj";  // null: files are stacked
  const char* up = "mlp.experts.{}.up_proj";
  const char* down = "mlp.experts.{}.down_proj";
  const char* stacked_router = "mlp.gate";
  const char* stacked_gate_up = "mlp.experts.gate_up_proj";  // whole names: [E, 2F, M] and [E, M, F]
  const char* stacked_down = "mlp.experts.down_proj";
  // Stacks are [E, M, 2F], the outputs of gates and ups in turn, and [E, F, M]. All products have biases.
  bool inputs_first = false;
  const char* stacked_gate_up_bias = nullptr;  // whole names: [E, 2F] and [E, M]
  const char* stacked_down_bias = nullptr;
  bool router_bias = false;
  const char* choice_bias = "mlp.gate.e_score_correction_bias";  // whole name, where there is one
  // Where the shared expert and the others are normed apart (MixtureConfig::normed_apart).
  const char* router_norm = nullptr;   // whole name, [M]: the router reads the residual's norm times this / sqrt(M)
  const char* expert_scale = nullptr;  // whole name, [E], multiplies the experts' weights
  const char* norm = nullptr;          // of what they read
  const char* post_norm = nullptr;     // of their sum
  const char* shared_post_norm = nullptr;
  // Where there is a shared one: [1, M]; null: its weight is 1 in every row.
  const char* shared_gate_of_row = "mlp.shared_expert_gate";
  const char* shared_gate = "mlp.shared_expert.gate_proj";
  const char* shared_up = "mlp.shared_expert.up_proj";
  const char* shared_gate_up = nullptr;  // one tensor in place of the two
  const char* shared_down = "mlp.shared_expert.down_proj";
};

// Tensors of inputs that each layer adds at its end, LayerInputConfig. Without ".weight".
struct LayerInputNames {
  const char* table = nullptr;       // [V', L P]; null: there are none
  const char* projection = nullptr;  // [L P, M], of the embedding
  const char* norm = nullptr;        // [P], of what that gives
  // Of a layer:
  const char* gate = nullptr;       // [P, M]
  const char* output = nullptr;     // [M, P]
  const char* post_norm = nullptr;  // [M]
};

// Tensors of residual streams, StreamConfig, and of the product of low rank beside attention. Without ".weight"; "{}" is a
// stream's number, from 0 for stream 1.
struct StreamNames {
  const char* start = nullptr;  // [M, M], of the embedding; null: there are none
  const char* end = nullptr;    // [M, M]
  // Of a layer:
  const char* router_norm = nullptr;  // [M]
  const char* router = nullptr;       // [S, M], reads the norm / M
  const char* predict = nullptr;      // [S S, S]
  const char* correct = nullptr;      // [S, S]
  const char* scale = nullptr;        // whole name, [M]
  const char* low_rank_in = nullptr;  // [R, M]
  const char* low_rank_out = nullptr;
  const char* low_rank_norm = nullptr;  // [M]
};

// Keys of layers with a recurrent state. Which layers these are is read with the windows.
struct RecurrenceKeys {
  kernels::RecurrenceKind kind = kernels::RecurrenceKind::kNone;  // no layer has one
  const char* conv_width = nullptr;
  int64_t conv_width_default = 0;
  // Where there are heads; a convolution is as wide as the model.
  const char* key_head_count = "linear_num_key_heads";
  const char* value_head_count = "linear_num_value_heads";
  const char* key_dim = "linear_key_head_dim";
  const char* value_dim = "linear_value_head_dim";
  int64_t key_head_count_default = 16;
  int64_t value_head_count_default = 32;
  int64_t key_dim_default = 128;
  int64_t value_dim_default = 128;
  // Of kStateSpace. All heads are as wide as the model times a number; a value dim of "auto" follows.
  const char* expansion = nullptr;
  int64_t expansion_default = 2;
  const char* step_min = nullptr;  // the least step
  double step_min_default = 0;
  const char* width = nullptr;  // takes precedence over that product; null, not missing: it does not
  int64_t width_default = 0;
  // Whether there is a norm, and whether the gate follows it; null: it does not, and there is one.
  const char* norm = nullptr;
  const char* norm_first = nullptr;
  const char* step_limit = nullptr;  // of softplus: only none is supported
  // Biases of the convolution, and of the products around it; null: there are none.
  const char* conv_bias = nullptr;
  bool conv_bias_default = false;
  const char* bias = nullptr;
};

// Tensors of a layer with a recurrent state, whose inputs are computed by one product (kernels/recurrence.h).
struct RecurrenceNames {
  // Of kDeltaRule: rows of q, k, v; of z; of b; of a. Of a convolution: all rows in the first. Of kStateSpace: z, u, B, C
  // and d in the first, and its convolution's channels are u, B and C.
  const char* inputs[4] = {"linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b",
                           "linear_attn.in_proj_a"};
  // In place of the four: q, k, v and z of the first key head, then of the second..; b and a likewise.
  const char* inputs_by_key_head[2] = {nullptr, nullptr};
  const char* conv = "linear_attn.conv1d";      // [channels, 1, W], and its bias
  const char* decay_log = "linear_attn.A_log";  // whole names
  const char* decay_bias = "linear_attn.dt_bias";
  const char* skip = nullptr;             // of kStateSpace
  const char* norm = "linear_attn.norm";  // its weight is never stored as w of (1 + w)
  const char* output = "linear_attn.out_proj";
};

// Tensor names of a checkpoint, without ".weight" and ".bias". Null: there is no such tensor.
struct TensorNames {
  const char* prefix = "model.";  // of all tensors but the head; absent in a checkpoint without the head
  const char* embedding = "embed_tokens";
  const char* positions = nullptr;  // [positions, M], added to the embedding
  const char* final_norm = "norm";
  const char* head = "lm_head";  // absent when embeddings are tied
  const char* older_head = nullptr;
  bool head_bias = false;
  const char* skipped = "rotary_emb.inv_freq";  // computed, but stored by old exports; full name
  const char* skipped_prefix = nullptr;         // of tensors that the function does not depend on

  // Of a layer: "{}" is its number.
  const char* layer = "layers.{}.";  // before all below
  const char* attention_norm = "input_layernorm";
  const char* query = "self_attn.q_proj";
  const char* key = "self_attn.k_proj";
  const char* value = "self_attn.v_proj";
  const char* query_key_value = nullptr;  // one tensor in place of the three
  FusedOrder fused_order = FusedOrder::kStacked;
  RotaryPairs rotary_pairs = RotaryPairs::kHalves;  // kNeighbours: of separate tensors without norms
  const char* query_norm = nullptr;
  const char* key_norm = nullptr;
  const char* attention_output = "self_attn.o_proj";
  const char* attention_post_norm = nullptr;
  const char* mlp_norm = "post_attention_layernorm";
  const char* gate = "mlp.gate_proj";
  const char* up = "mlp.up_proj";  // without a gate: act(up x) alone
  const char* gate_up = nullptr;   // one tensor in place of the two
  const char* down = "mlp.down_proj";
  const char* mlp_post_norm = nullptr;
  const char* activation_terms = nullptr;  // before the learned numbers of xielu
  LatentNames latent;
  const char* layer_scale = nullptr;  // whole name, [1]: multiplies the residual at the end of the layer
  LayerInputNames layer_inputs;
  StreamNames streams;
  MixtureNames mixture;
  RecurrenceNames recurrence;
  const char* attention = "self_attn.";                              // before tensors of attention variants
  const char* layer_skipped[3] = {"self_attn.rotary_emb.inv_freq"};  // whole names, as `skipped`
  bool transposed = false;  // matrices of layers are stored as [inputs, outputs]
};

struct Architecture {
  const char* model_type;  // config.json's "model_type"
  const char* class_name;  // its "architectures" entry
  ConfigKeys keys;
  PositionKind positions = PositionKind::kRope;
  RopeKeys rope;
  TensorNames names;
  MixtureKeys mixture;
  LatentKeys latent;
  const char* attention = "{}";  // JSON of the attention keys that every checkpoint of the type has
  RecurrenceKeys recurrence;
  BlockConfig blocks;
  // Reads which layers have a sliding window, no rotation, or a recurrent state (layer_windows.h).
  absl::Status (*read_layers)(ConfigReader& reader, ModelConfig& config) = ReadNoWindows;
  // Reads the keys specific to this architecture (config.cc has the common ones).
  absl::Status (*read_config)(ConfigReader& reader, ModelConfig& config);
};

// A multimodal checkpoint whose text part is evaluated: its keys are an object of config.json, its tensors have a
// prefix, and tensors of images and sound are not read. A text part has the rules of its row, but for the tied head,
// which is a key of the whole.
struct Wrapper {
  struct TextPart {
    const char* model_type;  // of a row; the first is that of a `text_config` without one
    const char* defaults;    // JSON: the sizes of its configuration class, for keys that files leave out
  };
  const char* model_type;
  const char* class_name;
  TextPart text[2];           // null: none
  bool tied_default = false;  // of the whole's tie_word_embeddings
  bool tied_inside = false;   // true in `text_config` ties as well
  bool flat = false;          // without a `text_config` its keys stand at the top
  const char* prefixes[2];    // of all text tensors but the head; a checkpoint has one of them
  const char* older_head = "language_model.lm_head";
  const char* skipped[4];  // prefixes of tensors that are not read
  const char*
      image_tokens[3];  // keys of token ids in whose place images or sounds stand: prompts with them are refused
  // Key of `vision_config` and `audio_config`, and its default: ids from there on stand for images and sounds, too.
  const char* image_tokens_from = nullptr;
  int64_t image_tokens_from_default = 0;
  const char* ignored[7];  // keys of the whole that text does not depend on
};

absl::Span<const Wrapper> Wrappers();
// Null when there is no such row.
const Wrapper* FindWrapper(absl::string_view model_type);

absl::Span<const Architecture> Architectures();
// Null when there is no such row.
const Architecture* FindArchitecture(absl::string_view model_type);

}  // namespace varifocal

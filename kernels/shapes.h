// Shapes that are fixed when a backend creates rotations, pages and scratch.
#pragma once

#include <span>
#include <vector>

#include "kernels/recurrence.h"

namespace varifocal::kernels {

struct RopeTableSpec {
  // [position_count, rotary_dim / 2] each, position-major. Attention factors (YaRN) are already inside.
  std::span<const float> cosines;
  std::span<const float> sines;
  int position_count = 0;
  int rotary_dim = 0;  // at most D; the rest of a head passes unrotated. Pairs are (i, i + rotary_dim / 2)
};

struct KvShape {
  int layer_count = 0;  // layers that share this pool's page numbers
  int kv_head_count = 0;
  int head_dim = 0;
  // Stored per token in addition to keys and values and copied with a page: those of FocalTau, then those of
  // RouteGroups. A page has [annotation][128 tokens].
  int annotation_bytes = 0;
  // Each key is stored contiguously, so that decode can read those of a row's groups alone (DecodeListsKeys). A hint.
  bool row_keys = false;
  // Not kNone: layers of Recur. A page has no keys and values but a state, that after the last row of the page's tokens
  // that was computed.
  RecurrenceShape recurrence;

  bool holds_states() const { return recurrence.kind != RecurrenceKind::kNone; }
};

// K and D of some layers.
struct HeadShape {
  int kv_head_count = 0;
  int head_dim = 0;

  bool operator==(const HeadShape&) const = default;
};

struct StepShape {
  int row_count_max = 0;
  int sequence_count_max = 0;
  int head_row_count_max = 0;  // rows of one LmHead call
  int context_length_max = 0;  // positions a sequence can reach
  int model_dim = 0;           // M
  int query_head_count = 0;    // H
  int kv_head_count = 0;       // K
  int head_dim = 0;            // D
  // Where layers differ: of those that attend under each mask; K and D are the largest. Empty: they do not.
  std::vector<HeadShape> mask_heads = {};
  int layer_input_width = 0;  // P of LayerInputs; 0: there are none
  int layer_input_count = 0;  // L of it
  int low_rank_dim = 0;       // inputs of a product of low rank; 0: there is none
  int ffn_dim = 0;            // F
  int vocab_size = 0;         // V
  int gather_top_k_max = 0;   // groups per token of an attention by groups; 0: Attend has none
  int expert_count = 0;       // E of a Mixture; 0: there is none
  int experts_per_token = 0;
  int expert_ffn_dim = 0;  // of one of them; F is the largest of plain blocks, a Mixture's shared one included
  bool shared_expert = false;
  RecurrenceShape recurrence;  // of Recur; kNone: there is none
  int query_latent_dim = 0;    // of latent attention: inputs of its products; 0: there are none
  int latent_dim = 0;
};

}  // namespace varifocal::kernels

// Parses the rotary keys of a config.json, older and newer.
//
// Older files have `rope_theta` and `rope_scaling`, newer ones `rope_parameters`; both are allowed when they agree.
// Where kinds of layers have different rotations (gemma3, olmo3), `rope_parameters` has one object per kind, and the
// older keys are `rope_theta`, gemma3's `rope_local_base_freq`, and a `rope_scaling` that applies to the full layers
// only.
//
// Errors: INVALID_ARGUMENT naming the key; UNIMPLEMENTED naming the scaling.
// Source: transformers 5.23, modeling_rope_utils (RotaryEmbeddingConfigMixin) and the configurations of the models.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/config_reader.h"
#include "server/model/rope.h"

namespace varifocal {

// Names and limits of an architecture's rotary keys.
struct RopeKeys {
  const char* theta = "rope_theta";  // older top-level keys and their defaults
  double theta_default = 10000;
  // Of window layers, where they have a rotation of their own; null: a missing value is the default of full layers, and
  // releases of transformers disagree on whether `theta` applies to window layers.
  const char* window_theta = nullptr;
  double window_theta_default = 10000;
  const char* partial = "partial_rotary_factor";
  double partial_default = 1;
  bool partial_allowed = false;  // partial rotation of a head
  // Multimodal: "mrope" is an old name of default; the positions of its sections are equal for text.
  bool mrope_is_default = false;
  // gpt_oss, apertus: the object where neither `rope_scaling` nor `rope_parameters` is there, JSON; null: unscaled.
  const char* missing = nullptr;
  // hunyuan: dynamic has an `alpha`, which multiplies theta by alpha^(D / (D - 2)) at every length.
  bool alpha = false;
  bool proportional = false;  // gemma4: that kind is there
  // deepseek: mscale_all_dim of yarn scales scores by the square of its attention factor.
  bool scales_scores = false;
  bool query_scale = false;  // ministral3: yarn has llama_4_scaling_beta, and is required
  // phi3: only default and longrope; "su" and "yarn" are old names of longrope in its files.
  bool longrope_alone = false;
  double original_default = 0;  // phi3: default of original_max_position_embeddings; 0: max_position_embeddings
};

struct RopeSizes {
  int64_t head_width = 0;
  int64_t max_position = 0;     // as in the file
  int64_t full_head_width = 0;  // of full layers, where there is a rotation for each kind; 0: the same
};

// One rotation for all layers.
absl::StatusOr<RopeConfig> ReadRope(ConfigReader& reader, const RopeKeys& keys, const RopeSizes& sizes);
// `current`, which must be unscaled, under a scaling whose other parameters have the defaults of a config.json with `factor`
// and the model's longest context as the original length.
absl::StatusOr<RopeConfig> ScaleRope(const RopeConfig& current, RopeKind kind, double factor, const RopeKeys& keys,
                                     const RopeSizes& sizes);
// Two: of full layers, of window layers.
absl::StatusOr<std::vector<RopeConfig>> ReadRopePerLayerType(ConfigReader& reader, const RopeKeys& keys,
                                                             const RopeSizes& sizes);

}  // namespace varifocal

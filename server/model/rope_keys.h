// Reads the rotary keys of a config.json, older and newer.
//
// Older files say `rope_theta` and `rope_scaling`, newer ones `rope_parameters`; both may stand there when they agree.
// Where layers of different kinds turn differently (gemma3), `rope_parameters` has one object per kind, and the older
// keys are `rope_theta`, `rope_local_base_freq` and a `rope_scaling` that acts on the full layers alone.
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

// How an architecture spells and limits its rotary keys.
struct RopeKeys {
  const char* theta = "rope_theta";  // older top-level keys, and what stands for them when they are missing
  const char* partial = "partial_rotary_factor";
  double partial_default = 1;
  bool partial_allowed = false;  // may a part of a head stay unturned?
  // phi3: default and longrope alone; "su" and "yarn" are what its files called longrope before.
  bool longrope_alone = false;
  double original_default =
      0;  // phi3: original_max_position_embeddings when nobody says it; 0: max_position_embeddings
};

struct RopeSizes {
  int64_t head_width = 0;
  int64_t max_position = 0;  // as the file has it
};

// One rotation for all layers.
absl::StatusOr<RopeConfig> ReadRope(ConfigReader& reader, const RopeKeys& keys, const RopeSizes& sizes);
// Two: of full layers, of window layers.
absl::StatusOr<std::vector<RopeConfig>> ReadRopePerLayerType(ConfigReader& reader, const RopeSizes& sizes);

}  // namespace varifocal

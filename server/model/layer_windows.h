// Which layers have a sliding window, which no rotation, and which a recurrent state: one reader per family of config keys.
//
// A window of W positions lets a query at p see keys p-W+1..p. Each reader fills LayerConfig::window of every layer
// (0: sees all keys) from the keys of its family, LayerConfig::rope_index (-1: not rotated) and is_recurrent where
// layers differ, and rejects contradictions.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
// Source: the configurations of the models in transformers 5.24; masking_utils, sliding_window_overlay.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Of a key with a list of layers, whether each is in it; nullopt when the key is missing.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerList(ConfigReader& reader, const char* key,
                                                               int64_t layer_count);

// No window layers: `sliding_window` is missing or null.
absl::Status ReadNoWindows(ConfigReader& reader, ModelConfig& config);
// mistral: every layer, unless `sliding_window` is null; 4096 when it is missing.
absl::Status ReadWindowOrDefault(ConfigReader& reader, ModelConfig& config);
// phi3: every layer when `sliding_window` is given.
absl::Status ReadWindow(ConfigReader& reader, ModelConfig& config);
// qwen3_moe: none unless `use_sliding_window`; then every layer, unless `sliding_window` is null.
absl::Status ReadUsedWindowEverywhere(ConfigReader& reader, ModelConfig& config);
// qwen2_moe: none unless `use_sliding_window`; then `layer_types`.
absl::Status ReadUsedWindowsByType(ConfigReader& reader, ModelConfig& config);
// qwen: none unless `use_sliding_window`; then `layer_types`, or the layers from `max_window_layers` on.
absl::Status ReadUsedWindows(ConfigReader& reader, ModelConfig& config);
// qwen2_5_vl: the same, where the default of `max_window_layers` is 80 instead of 28.
absl::Status ReadUsedWindowsFrom80(ConfigReader& reader, ModelConfig& config);
// gemma3: `layer_types`, or all but every sixth (`sliding_window_pattern`).
absl::Status ReadWindowPattern(ConfigReader& reader, ModelConfig& config);
// gemma4: `layer_types`, or all but every sixth; never the last, of 512 positions where `sliding_window` is missing.
absl::Status ReadShortWindowsButSixthAndLast(ConfigReader& reader, ModelConfig& config);
// gemma3n: `layer_types`, or all but every fifth, of 512 positions where `sliding_window` is missing.
absl::Status ReadShortWindowsButFifth(ConfigReader& reader, ModelConfig& config);
// gemma2: `layer_types`, or every other layer, the first one too.
absl::Status ReadWindowsButSecond(ConfigReader& reader, ModelConfig& config);
// gpt_oss: the same, of 128 positions where `sliding_window` is missing.
absl::Status ReadShortWindowsButSecond(ConfigReader& reader, ModelConfig& config);
// olmo3: `layer_types`, or all but every fourth.
absl::Status ReadWindowsButFourth(ConfigReader& reader, ModelConfig& config);
// ministral: `layer_types`, or every layer unless `sliding_window` is null.
absl::Status ReadWindowsByType(ConfigReader& reader, ModelConfig& config);
// smollm3: `no_rope_layers`, or every `no_rope_layer_interval`-th layer without rotation; `layer_types`, or windows in
// the layers without rotation under `use_sliding_window`.
absl::Status ReadUnrotatedLayers(ConfigReader& reader, ModelConfig& config);
// cohere2: full layers are not rotated; `layer_types`, or full layers by `sliding_window_pattern`.
absl::Status ReadRotatedWindowsAlone(ConfigReader& reader, ModelConfig& config);
// exaone4: with a `sliding_window`, full layers are not rotated; `layer_types`, or full layers by
// `sliding_window_pattern`.
absl::Status ReadRotatedWindows(ConfigReader& reader, ModelConfig& config);
// lfm2: `layer_types`, else all layers but those of `full_attn_idxs` are convolutions.
absl::Status ReadConvolutionsButListed(ConfigReader& reader, ModelConfig& config);
// bamba: layers in `attn_layer_indices` have attention, the others a recurrent state.
absl::Status ReadStateSpacesButListed(ConfigReader& reader, ModelConfig& config);
// falcon_h1: every layer has a recurrent state beside its attention.
absl::Status ReadStateSpacesEverywhere(ConfigReader& reader, ModelConfig& config);
// nemotron_h: `layers_block_type`, else a character each of `hybrid_override_pattern`: a layer has one part, a state (M),
// attention (*), which is not rotated, or an MLP (-).
absl::Status ReadLayersOfOnePart(ConfigReader& reader, ModelConfig& config);
// granitemoehybrid: `layer_types`; attention is rotated where `position_embedding_type` is "rope".
absl::Status ReadStateSpacesByType(ConfigReader& reader, ModelConfig& config);
// qwen3_next: `layer_types`, or all but every `full_attention_interval`-th with a recurrent state.
absl::Status ReadRecurrentButFourth(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal

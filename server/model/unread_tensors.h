// Tensors that files of some types hold without effect, for tests of loading.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/model/model_config.h"

namespace varifocal {

// Keys and values of layers that read another's, and a scale that the config turns off.
inline bool IsUnread(const ModelConfig& config, absl::string_view name) {
  if (config.streams.count > 0 && !config.streams.scales_corrected && absl::EndsWith(name, ".correct_output_scale"))
    return true;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.layers[layer].source_layer < 0) continue;
    for (const char* unread : {"k_proj.", "v_proj.", "k_norm."}) {
      if (absl::StrContains(name, absl::StrCat("layers.", layer, ".self_attn.", unread))) return true;
    }
  }
  return false;
}

}  // namespace varifocal

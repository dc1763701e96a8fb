#include "server/model/model_config.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_join.h"

namespace varifocal {

int64_t HeadWidth(const ModelConfig& config, const LayerConfig& layer) {
  return layer.head_width > 0 ? layer.head_width : config.head_width;
}

int64_t KvHeadCount(const ModelConfig& config, const LayerConfig& layer) {
  return layer.kv_head_count > 0 ? layer.kv_head_count : config.kv_head_count;
}

int64_t FeedForwardWidth(const ModelConfig& config, const LayerConfig& layer) {
  return layer.feed_forward_width > 0 ? layer.feed_forward_width : config.feed_forward_width;
}

int64_t RopeHeadWidth(const ModelConfig& config, int64_t rope_index) {
  for (const LayerConfig& layer : config.layers) {
    if (layer.has_attention && layer.rope_index == rope_index) return HeadWidth(config, layer);
  }
  return config.head_width;
}

kernels::HeadShape LargestHeads(const ModelConfig& config) {
  kernels::HeadShape largest;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.has_attention) continue;
    largest.kv_head_count = std::max(largest.kv_head_count, static_cast<int>(KvHeadCount(config, layer)));
    largest.head_dim = std::max(largest.head_dim, static_cast<int>(HeadWidth(config, layer)));
  }
  return largest;
}

bool HasCutGates(const ModelConfig& config) {
  const auto& layers = config.layers;
  return std::any_of(layers.begin(), layers.end(), [](const LayerConfig& layer) { return layer.cut_share > 0; });
}

void GroupLayers(ModelConfig& config) {
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  const auto key_of = [&](const LayerConfig& layer) {
    return Key(layer.window, HeadWidth(config, layer), KvHeadCount(config, layer));
  };
  std::map<Key, int64_t> group_of;  // by window, in order
  config.extended_position_max = kPositionMax;
  for (LayerConfig& layer : config.layers) {
    if (!layer.has_attention) continue;
    if (layer.window >= config.max_position) {
      config.extended_position_max = std::min(config.extended_position_max, layer.window);
      layer.window = 0;
    }
    group_of.emplace(key_of(layer), 0);
  }
  config.page_groups.clear();
  for (auto& [key, group] : group_of) {
    group = config.page_groups.size();
    const auto& [window, head_width, kv_head_count] = key;
    config.page_groups.push_back({.window = window, .head_width = head_width, .kv_head_count = kv_head_count});
  }
  const auto is_recurrent = [](const LayerConfig& layer) { return layer.is_recurrent; };
  if (std::any_of(config.layers.begin(), config.layers.end(), is_recurrent))
    config.page_groups.push_back({.window = kStateWindow, .holds_states = true});
  for (LayerConfig& layer : config.layers) {
    if (layer.has_attention) {
      layer.page_group = group_of[key_of(layer)];
      layer.group_layer = layer.source_layer < 0 ? config.page_groups[layer.page_group].layer_count++
                                                 : config.layers[layer.source_layer].group_layer;
    }
    if (layer.is_recurrent) layer.state_layer = config.page_groups.back().layer_count++;
  }
}

int64_t RotationWidth(const ModelConfig& config) {
  return config.latent.rank > 0 ? config.latent.rotated_width : config.head_width;
}

int64_t AttentionLayerCount(const ModelConfig& config) {
  return std::count_if(config.layers.begin(), config.layers.end(),
                       [](const LayerConfig& layer) { return layer.has_attention; });
}

int64_t PlainWidth(const ModelConfig& config) {
  int64_t width = std::max<int64_t>(1, config.mixture.shared_width);
  for (const LayerConfig& layer : config.layers) {
    if (layer.has_mlp && !layer.has_mixture) width = std::max(width, FeedForwardWidth(config, layer));
  }
  return width;
}

AttentionModel AttentionModelOf(const ModelConfig& config) {
  AttentionModel model{
      .layer_count = config.layer_count, .head_count = config.head_count, .width = config.width, .windows = {}};
  for (const LayerConfig& layer : config.layers) {
    model.windows.push_back(layer.window);
    model.shares_keys = model.shares_keys || layer.source_layer >= 0;
  }
  for (const RopeConfig& rope : config.ropes) model.scales_queries = model.scales_queries || rope.query_beta != 0;
  return model;
}

int64_t RopeLength(const std::vector<RopeConfig>& ropes, int64_t total_length) {
  // The maximum serves all ropes: a rope whose own is 0 is below its original length at that length, too.
  int64_t settled = 0;
  for (const RopeConfig& rope : ropes) settled = std::max(settled, rope.RopeLength(total_length));
  return settled;
}

std::string RopesToString(const std::vector<RopeConfig>& ropes) {
  if (ropes.empty()) return "none";
  return absl::StrJoin(ropes, "; ", [](std::string* out, const RopeConfig& rope) { out->append(rope.ToString()); });
}

}  // namespace varifocal

#include "server/model/model_config.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace varifocal {

void GroupLayers(ModelConfig& config) {
  std::map<int64_t, int64_t> group_of;  // by window, in order
  config.extended_position_max = kPositionMax;
  for (LayerConfig& layer : config.layers) {
    if (!layer.has_attention) continue;
    if (layer.window >= config.max_position) {
      config.extended_position_max = std::min(config.extended_position_max, layer.window);
      layer.window = 0;
    }
    group_of.emplace(layer.window, 0);
  }
  config.page_groups.clear();
  for (auto& [window, group] : group_of) {
    group = config.page_groups.size();
    config.page_groups.push_back({.window = window});
  }
  const auto is_recurrent = [](const LayerConfig& layer) { return layer.is_recurrent; };
  if (std::any_of(config.layers.begin(), config.layers.end(), is_recurrent)) {
    config.page_groups.push_back({.window = kStateWindow, .holds_states = true});
  }
  for (LayerConfig& layer : config.layers) {
    if (layer.has_attention) {
      layer.page_group = group_of[layer.window];
      layer.group_layer = config.page_groups[layer.page_group].layer_count++;
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
  const bool has_plain = std::any_of(config.layers.begin(), config.layers.end(),
                                     [](const LayerConfig& layer) { return layer.has_mlp && !layer.has_mixture; });
  return std::max(has_plain ? config.feed_forward_width : 1, config.mixture.shared_width);
}

AttentionModel AttentionModelOf(const ModelConfig& config) {
  AttentionModel model{
      .layer_count = config.layer_count, .head_count = config.head_count, .width = config.width, .windows = {}};
  for (const LayerConfig& layer : config.layers) model.windows.push_back(layer.window);
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

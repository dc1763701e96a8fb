#include "server/model/layer_windows.h"

#include <algorithm>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kWindowMax = int64_t{1} << 30;
constexpr int64_t kWindowDefault = 4096;  // of transformers' configurations, where the key is missing

// Per layer of `layer_types`, whether it is not of full attention but of `other`; nullopt when the key is missing.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerTypes(ConfigReader& reader, int64_t layer_count,
                                                                const char* other = "sliding_attention") {
  const Json* types = reader.Take("layer_types");
  if (types == nullptr) return std::optional<std::vector<bool>>();
  if (!types->is_array() || std::ssize(*types) != layer_count) {
    return InvalidArgument(reader.Name("layer_types"), " has ",
                           types->is_array() ? absl::StrCat(types->size(), " entries") : ShownValue(*types),
                           "; the model has ", layer_count, " layers");
  }
  std::vector<bool> windows;
  for (const Json& stored : *types) {
    // Older names, as in transformers.
    const Json type = stored == "attention" ? "full_attention" : stored == "mamba" ? "linear_attention" : stored;
    if (type != "full_attention" && type != other) {
      return Unimplemented(reader.Name("layer_types"), "[", windows.size(), "] is ", ShownValue(stored),
                           "; supported are full_attention and ", other);
    }
    windows.push_back(type == other);
  }
  return std::optional(std::move(windows));
}

// `sliding_window`, 0 when null.
absl::StatusOr<int64_t> ReadSize(ConfigReader& reader, int64_t when_missing) {
  const int64_t fallback = reader.IsPresent("sliding_window") ? 0 : when_missing;
  return reader.Int("sliding_window", {1, kWindowMax}, fallback);
}

absl::Status SetWindows(const ConfigReader& reader, const std::vector<bool>& windows, int64_t size,
                        ModelConfig& config) {
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i] && size == 0) {
      return InvalidArgument(reader.Name("layer_types"), "[", i,
                             "] is \"sliding_attention\" while no sliding_window is set");
    }
    config.layers[i].window = windows[i] ? size : 0;
  }
  return absl::OkStatus();
}

// Which layers have a window where every `pattern`-th has none.
std::vector<bool> AllButEvery(int64_t pattern, const ModelConfig& config) {
  std::vector<bool> windows;
  for (int64_t i = 0; i < config.layer_count; ++i) windows.push_back((i + 1) % pattern != 0);
  return windows;
}

void SetRecurrent(const std::vector<bool>& recurrent, ModelConfig& config) {
  for (int64_t i = 0; i < config.layer_count; ++i) {
    config.layers[i].is_recurrent = recurrent[i];
    config.layers[i].has_attention = !recurrent[i];
    if (recurrent[i]) config.layers[i].rope_index = -1;
  }
}

absl::Status RequireAttention(const ConfigReader& reader, const char* key, const ModelConfig& config) {
  if (AttentionLayerCount(config) > 0) return absl::OkStatus();
  return Unimplemented("by ", reader.Name(key), " no layer of the ", config.model_type,
                       " has attention; such a model is not supported");
}

absl::Status NoAttentionWithout(const ConfigReader& reader, const char* key, const ModelConfig& config) {
  return InvalidArgument(reader.Name(key), " is missing; a ", config.model_type,
                         " without it has no attention layers, which is not supported");
}

// All layers equal. transformers ignores `layer_types` here: it may only agree.
absl::Status SetEverywhere(ConfigReader& reader, int64_t size, ModelConfig& config) {
  for (LayerConfig& layer : config.layers) layer.window = size;
  ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> types, ReadLayerTypes(reader, config.layer_count));
  for (size_t i = 0; types.has_value() && i < types->size(); ++i) {
    if ((*types)[i] == (size != 0)) continue;
    return Unimplemented(reader.Name("layer_types"), "[", i, "] is \"",
                         (*types)[i] ? "sliding_attention" : "full_attention", "\"; all layers of ", config.model_type,
                         " are equal, and sliding_window is ", size == 0 ? "not set" : absl::StrCat(size));
  }
  return absl::OkStatus();
}

absl::Status ReadWindowsFrom(int64_t first_default, ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool used, reader.Bool("use_sliding_window", false));
  ASSIGN_OR_RETURN(int64_t size, ReadSize(reader, kWindowDefault));
  if (!used) size = 0;
  ASSIGN_OR_RETURN(const int64_t first, reader.Int("max_window_layers", {0, kWindowMax}, first_default));
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  if (!windows.has_value()) {
    windows.emplace();
    for (int64_t i = 0; i < config.layer_count; ++i) windows->push_back(size != 0 && i >= first);
  }
  return SetWindows(reader, *windows, size, config);
}

absl::Status ReadWindowsButEvery(int64_t pattern, ConfigReader& reader, ModelConfig& config,
                                 int64_t when_missing = kWindowDefault) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, when_missing));
  ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  return SetWindows(reader, windows.has_value() ? *windows : AllButEvery(pattern, config), size, config);
}

}  // namespace

absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerList(ConfigReader& reader, const char* key,
                                                               int64_t layer_count) {
  const Json* list = reader.Take(key);
  if (list == nullptr) return std::optional<std::vector<bool>>();
  const auto is_layer = [&](const Json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < layer_count;
  };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_layer)) {
    return InvalidArgument(reader.Name(key), " is ", ShownValue(*list), "; it must be a list of layers 0..",
                           layer_count - 1);
  }
  std::vector<bool> is_listed(layer_count, false);
  for (const Json& item : *list) is_listed[item.get<int64_t>()] = true;
  return std::optional(std::move(is_listed));
}

absl::Status ReadNoWindows(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(reader.RequireValue("use_sliding_window", false));
  if (const Json* window = reader.Take("sliding_window"); window != nullptr) {
    return Unimplemented(reader.Name("sliding_window"), " is ", ShownValue(*window), "; a ", config.model_type,
                         " has no window layers");
  }
  return SetEverywhere(reader, 0, config);
}

absl::Status ReadWindowOrDefault(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, kWindowDefault));
  RETURN_IF_ERROR(reader.RequireValue("use_sliding_window", size != 0));
  return SetEverywhere(reader, size, config);
}

absl::Status ReadWindow(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, 0));
  return SetEverywhere(reader, size, config);
}

absl::Status ReadUsedWindowEverywhere(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool used, reader.Bool("use_sliding_window", false));
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, kWindowDefault));
  reader.Ignore({"max_window_layers"});  // of the configuration that it was derived from; not read
  return SetEverywhere(reader, used ? size : 0, config);
}

absl::Status ReadUsedWindowsByType(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool used, reader.Bool("use_sliding_window", false));
  // 5.24 writes 0 where windows are not used.
  ASSIGN_OR_RETURN(int64_t size, reader.Int("sliding_window", {used ? 1 : 0, kWindowMax},
                                            reader.IsPresent("sliding_window") ? 0 : kWindowDefault));
  if (!used) size = 0;
  reader.Ignore({"max_window_layers"});
  ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  if (used && size != 0 && !windows.has_value()) {
    return Unimplemented(
        reader.Name("use_sliding_window"),
        " is true without \"layer_types\"; releases of transformers disagree which layers have a window");
  }
  return SetWindows(reader, windows.value_or(std::vector<bool>(config.layer_count, false)), size, config);
}

absl::Status ReadUsedWindows(ConfigReader& reader, ModelConfig& config) { return ReadWindowsFrom(28, reader, config); }

absl::Status ReadUsedWindowsFrom80(ConfigReader& reader, ModelConfig& config) {
  return ReadWindowsFrom(80, reader, config);
}

absl::Status ReadWindowPattern(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, kWindowDefault));
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  if (windows.has_value()) {
    reader.Ignore({"sliding_window_pattern", "_sliding_window_pattern"});  // the list takes precedence
    return SetWindows(reader, *windows, size, config);
  }
  ASSIGN_OR_RETURN(const int64_t pattern, reader.Int("sliding_window_pattern", {1, kWindowMax}, 6));
  // Written but not read by transformers: it may only agree.
  RETURN_IF_ERROR(reader.RequireValue("_sliding_window_pattern", pattern));
  return SetWindows(reader, AllButEvery(pattern, config), size, config);
}

absl::Status ReadShortWindowsButSixthAndLast(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadWindowsButEvery(6, reader, config, 512));
  config.layers.back().window = 0;  // as in transformers, whatever the list has
  return absl::OkStatus();
}

absl::Status ReadShortWindowsButFifth(ConfigReader& reader, ModelConfig& config) {
  return ReadWindowsButEvery(5, reader, config, 512);
}

absl::Status ReadWindowsButSecond(ConfigReader& reader, ModelConfig& config) {
  return ReadWindowsButEvery(2, reader, config);
}

absl::Status ReadShortWindowsButSecond(ConfigReader& reader, ModelConfig& config) {
  return ReadWindowsButEvery(2, reader, config, 128);
}

absl::Status ReadWindowsButFourth(ConfigReader& reader, ModelConfig& config) {
  return ReadWindowsButEvery(4, reader, config);
}

absl::Status ReadWindowsByType(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, kWindowDefault));
  ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  const std::vector<bool> equal(config.layer_count, size != 0);
  return SetWindows(reader, windows.has_value() ? *windows : equal, size, config);
}

absl::Status ReadUnrotatedLayers(ConfigReader& reader, ModelConfig& config) {
  constexpr absl::string_view kLayers = "no_rope_layers";
  ASSIGN_OR_RETURN(const int64_t interval, reader.Int("no_rope_layer_interval", {1, kWindowMax}, 4));
  std::vector<bool> rotated = AllButEvery(interval, config);
  if (const Json* flags = reader.Take(kLayers); flags != nullptr) {  // takes precedence over the interval
    if (!flags->is_array() || std::ssize(*flags) != config.layer_count) {
      return InvalidArgument(reader.Name(kLayers), " has ",
                             flags->is_array() ? absl::StrCat(flags->size(), " entries") : ShownValue(*flags),
                             "; the model has ", config.layer_count, " layers");
    }
    for (int64_t i = 0; i < config.layer_count; ++i) {
      const Json& flag = (*flags)[i];
      if (flag != 0 && flag != 1) {
        return InvalidArgument(reader.Name(kLayers), "[", i, "] is ", ShownValue(flag),
                               "; it must be 1 (rotated) or 0 (not rotated)");
      }
      rotated[i] = flag == 1;
    }
  }
  for (int64_t i = 0; i < config.layer_count; ++i) config.layers[i].rope_index = rotated[i] ? 0 : -1;
  ASSIGN_OR_RETURN(const bool used, reader.Bool("use_sliding_window", false));
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, 0));
  reader.Ignore({"max_window_layers"});  // of the configuration that it was derived from; not read
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  if (!windows.has_value()) {
    windows.emplace();
    for (int64_t i = 0; i < config.layer_count; ++i) windows->push_back(used && size != 0 && !rotated[i]);
  }
  return SetWindows(reader, *windows, size, config);
}

absl::Status ReadRotatedWindowsAlone(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadRotatedWindows(reader, config));
  if (reader.Has("sliding_window") || !reader.IsPresent("sliding_window")) return absl::OkStatus();
  return Unimplemented(reader.Name("sliding_window"), " is null; a ", config.model_type, " without it has no rotation");
}

absl::Status ReadRotatedWindows(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t size, ReadSize(reader, kWindowDefault));
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> windows, ReadLayerTypes(reader, config.layer_count));
  if (windows.has_value() || size == 0) {
    // The list takes precedence; without a window there is nothing to repeat.
    reader.Ignore({"sliding_window_pattern", "_sliding_window_pattern"});
  } else {
    ASSIGN_OR_RETURN(const int64_t pattern, reader.Int("sliding_window_pattern", {1, kWindowMax}, 4));
    RETURN_IF_ERROR(reader.RequireValue("_sliding_window_pattern", pattern));
    windows = AllButEvery(pattern, config);
  }
  if (windows.has_value()) RETURN_IF_ERROR(SetWindows(reader, *windows, size, config));
  for (LayerConfig& layer : config.layers) layer.rope_index = size == 0 || layer.window != 0 ? 0 : -1;
  return absl::OkStatus();
}

absl::Status ReadRecurrentButFourth(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> recurrent,
                   ReadLayerTypes(reader, config.layer_count, "linear_attention"));
  if (recurrent.has_value()) {
    reader.Ignore({"full_attention_interval"});  // the list takes precedence
  } else {
    ASSIGN_OR_RETURN(const int64_t interval, reader.Int("full_attention_interval", {1, kWindowMax}, 4));
    recurrent = AllButEvery(interval, config);
  }
  SetRecurrent(*recurrent, config);
  return absl::OkStatus();
}

absl::Status ReadConvolutionsButListed(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> recurrent, ReadLayerTypes(reader, config.layer_count, "conv"));
  ASSIGN_OR_RETURN(const auto listed, ReadLayerList(reader, "full_attn_idxs", config.layer_count));
  const bool by_type = recurrent.has_value();
  if (!by_type) {
    recurrent.emplace(config.layer_count, false);
    for (int64_t i = 0; listed.has_value() && i < config.layer_count; ++i) (*recurrent)[i] = !(*listed)[i];
  }
  SetRecurrent(*recurrent, config);
  return RequireAttention(reader, by_type ? "layer_types" : "full_attn_idxs", config);
}

absl::Status ReadStateSpacesButListed(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(std::optional<std::vector<bool>> listed,
                   ReadLayerList(reader, "attn_layer_indices", config.layer_count));
  if (!listed.has_value()) return NoAttentionWithout(reader, "attn_layer_indices", config);
  listed->flip();
  SetRecurrent(*listed, config);
  return RequireAttention(reader, "attn_layer_indices", config);
}

absl::Status ReadStateSpacesEverywhere(ConfigReader&, ModelConfig& config) {
  for (LayerConfig& layer : config.layers) layer.is_recurrent = true;
  return absl::OkStatus();
}

absl::Status ReadLayersOfOnePart(ConfigReader& reader, ModelConfig& config) {
  const Json* list = reader.Take("layers_block_type");
  const char* key = list != nullptr ? "layers_block_type" : "hybrid_override_pattern";
  if (list == nullptr) list = reader.Take(key);
  for (int64_t i = 0; i < config.layer_count; ++i) {
    LayerConfig& layer = config.layers[i];
    const Json kind = list->is_string() ? Json(std::string(1, list->get_ref<const std::string&>()[i])) : list->at(i);
    layer.rope_index = -1;
    layer.is_recurrent = kind == "M" || kind == "linear_attention" || kind == "mamba";
    layer.has_attention = kind == "*" || kind == "full_attention" || kind == "attention";
    layer.has_mixture = kind == "E" || kind == "moe";
    layer.has_mlp = kind == "-" || kind == "mlp" || layer.has_mixture;
    if (layer.is_recurrent || layer.has_attention || layer.has_mlp) continue;
    return Unimplemented(reader.Name(key), "[", i, "] is ", ShownValue(kind),
                         "; supported are linear_attention (M), full_attention (*), mlp (-) and moe (E)");
  }
  const auto is_mixture = [](const LayerConfig& layer) { return layer.has_mixture; };
  if (std::none_of(config.layers.begin(), config.layers.end(), is_mixture)) config.mixture = {};
  return RequireAttention(reader, key, config);
}

absl::Status ReadStateSpacesByType(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> recurrent,
                   ReadLayerTypes(reader, config.layer_count, "linear_attention"));
  if (!recurrent.has_value()) return NoAttentionWithout(reader, "layer_types", config);
  const Json* positions = reader.Take("position_embedding_type");
  if (positions == nullptr || *positions == "nope") {
    for (LayerConfig& layer : config.layers) layer.rope_index = -1;
  } else if (*positions != "rope") {
    return Unimplemented(reader.Name("position_embedding_type"), " is ", ShownValue(*positions),
                         "; supported are rope, nope and null");
  }
  SetRecurrent(*recurrent, config);
  return RequireAttention(reader, "layer_types", config);
}

}  // namespace varifocal

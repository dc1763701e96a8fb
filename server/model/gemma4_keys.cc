#include "server/model/gemma4_keys.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "server/model/layer_windows.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kLayerHeadWidthMax = 1024;
constexpr int64_t kLayerHeadsMax = 1 << 20;
constexpr int64_t kInputWidthMax = 1 << 16;
constexpr int64_t kInputsWidthMax = 1 << 22;  // of all layers
constexpr int64_t kInputVocabularyMax = 1 << 24;
constexpr int64_t kWidthOfExpertMax = 1 << 20;

struct Heads {
  int64_t width = 0, kv_count = 0;
  friend bool operator==(const Heads&, const Heads&) = default;
};

// The names are those of the keys.
absl::Status CheckHeads(const Heads& heads, const std::string& width, const std::string& count,
                        const ModelConfig& config) {
  if (heads.width % 2 != 0) return InvalidArgument(width, " is ", heads.width, "; a head width must be even");
  if (config.head_count % heads.kv_count != 0)
    return InvalidArgument(count, " is ", heads.kv_count, "; it must divide num_attention_heads, ", config.head_count);
  if (config.head_count * heads.width > kLayerHeadsMax) {
    return InvalidArgument(width, " times num_attention_heads is ", config.head_count * heads.width, "; the limit is ",
                           kLayerHeadsMax);
  }
  return absl::OkStatus();
}

// `per_layer_config`, which 5.24 writes: by layer, what differs from the keys of the whole.
absl::Status ReadHeadsByLayer(ConfigReader& reader, const Json& by_layer, ModelConfig& config) {
  constexpr absl::string_view kKey = "per_layer_config";
  if (!by_layer.is_object())
    return InvalidArgument(reader.Name(kKey), " is ", ShownValue(by_layer), "; it must be an object");
  for (const auto& [number, value] : by_layer.items()) {
    int64_t index = -1;
    if (!absl::SimpleAtoi(number, &index) || index < 0 || index >= config.layer_count || !value.is_object()) {
      return InvalidArgument(reader.Name(kKey), " has \"", number, "\": ", ShownValue(value),
                             "; it must have objects for layers 0..", config.layer_count - 1);
    }
    ConfigReader inner(value, absl::StrCat(reader.Place(kKey), ".", number));
    LayerConfig& layer = config.layers[index];
    ASSIGN_OR_RETURN(layer.head_width, inner.Int("head_dim", {2, kLayerHeadWidthMax}, config.head_width));
    ASSIGN_OR_RETURN(layer.kv_head_count, inner.Int("num_key_value_heads", {1, kLayerHeadsMax}, config.kv_head_count));
    RETURN_IF_ERROR(inner.RefuseUnread());
    RETURN_IF_ERROR(CheckHeads({layer.head_width, layer.kv_head_count}, inner.Name("head_dim"),
                               inner.Name("num_key_value_heads"), config));
  }
  // A rotation is of one head width.
  std::optional<Heads> of_kind[2];
  for (const LayerConfig& layer : config.layers) {
    const Heads heads{HeadWidth(config, layer), KvHeadCount(config, layer)};
    std::optional<Heads>& others = of_kind[layer.window == 0 ? 0 : 1];
    if (others.value_or(heads) != heads) {
      return Unimplemented(reader.Name(kKey), " has heads of ", others->width, " and ", heads.width,
                           " dimensions, or other key heads, in layers of one kind; "
                           "only those of full and window layers may differ");
    }
    others = heads;
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(ConfigReader& reader, bool keys_are_values, ModelConfig& config) {
  if (const Json* by_layer = reader.Take("per_layer_config"); by_layer != nullptr) {
    // transformers then ignores both.
    reader.Ignore({"global_head_dim", "num_global_key_value_heads"});
    return ReadHeadsByLayer(reader, *by_layer, config);
  }
  Heads full{.kv_count = config.kv_head_count};
  ASSIGN_OR_RETURN(full.width, reader.Int("global_head_dim", {2, kLayerHeadWidthMax}, 512));
  ASSIGN_OR_RETURN(const int64_t stated,
                   reader.Int("num_global_key_value_heads", {1, kLayerHeadsMax}, config.kv_head_count));
  if (keys_are_values) full.kv_count = stated;  // without effect otherwise
  RETURN_IF_ERROR(CheckHeads(full, reader.Name("global_head_dim"), reader.Name("num_global_key_value_heads"), config));
  for (LayerConfig& layer : config.layers) {
    if (layer.window != 0) continue;
    layer.head_width = full.width;
    layer.kv_head_count = full.kv_count;
  }
  return absl::OkStatus();
}

absl::Status ReadWidths(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool is_double, reader.Bool("use_double_wide_mlp", false));
  for (LayerConfig& layer : config.layers) {
    if (is_double && layer.source_layer >= 0) layer.feed_forward_width = 2 * config.feed_forward_width;
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool has_experts, reader.Bool("enable_moe_block", false));
  if (!has_experts) {
    reader.Ignore({"num_experts", "top_k_experts", "moe_intermediate_size"});
    return absl::OkStatus();
  }
  for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
    if (reader.Has(key)) continue;
    return InvalidArgument(reader.Name("enable_moe_block"), " is true, and ", reader.Name(key), " is missing");
  }
  MixtureConfig& mixture = config.mixture;
  ASSIGN_OR_RETURN(mixture.expert_count, reader.Int("num_experts", {1, kernels::kExpertsMax}));
  ASSIGN_OR_RETURN(mixture.per_token, reader.Int("top_k_experts", {1, mixture.expert_count}));
  ASSIGN_OR_RETURN(mixture.width, reader.Int("moe_intermediate_size", {1, kWidthOfExpertMax}));
  mixture.shared_width = config.feed_forward_width;
  mixture.shared_gate = false;
  mixture.renormalised = true;
  mixture.normed_apart = true;
  for (LayerConfig& layer : config.layers) {
    layer.has_mixture = true;
    if (layer.feed_forward_width == 0) continue;
    return Unimplemented(reader.Name("use_double_wide_mlp"),
                         " is true with \"enable_moe_block\" "
                         "and layers that read the keys of another, which is not supported");
  }
  return absl::OkStatus();
}

absl::Status ReadLayerInputs(ConfigReader& reader, ModelConfig& config) {
  LayerInputConfig& inputs = config.layer_inputs;
  ASSIGN_OR_RETURN(inputs.width, reader.Int("hidden_size_per_layer_input", {0, kInputWidthMax}, 256));
  if (reader.IsPresent("hidden_size_per_layer_input") && !reader.Has("hidden_size_per_layer_input")) inputs.width = 0;
  ASSIGN_OR_RETURN(inputs.vocabulary, reader.Int("vocab_size_per_layer_input", {1, kInputVocabularyMax}, 262144));
  if (inputs.width == 0) {
    inputs.vocabulary = 0;
    return absl::OkStatus();
  }
  if (inputs.vocabulary < config.vocabulary_size) {
    return InvalidArgument(reader.Name("vocab_size_per_layer_input"), " is ", inputs.vocabulary,
                           "; it must be at least vocab_size, ", config.vocabulary_size);
  }
  if (inputs.width * config.layer_count > kInputsWidthMax) {
    return InvalidArgument(reader.Name("hidden_size_per_layer_input"), " is ", inputs.width, "; those of ",
                           config.layer_count, " layers may have at most ", kInputsWidthMax, " numbers together");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadKeySources(ConfigReader& reader, int64_t missing, ModelConfig& config) {
  constexpr absl::string_view kKey = "num_kv_shared_layers";
  ASSIGN_OR_RETURN(const int64_t shared, reader.Int(kKey, {0, config.layer_count - 1}, missing));
  if (shared >= config.layer_count) {
    return InvalidArgument(reader.Name(kKey), " is missing, which means ", shared, "; it must lie in 0..",
                           config.layer_count - 1);
  }
  const int64_t first = config.layer_count - shared;
  for (int64_t i = first; i < config.layer_count; ++i) {
    LayerConfig& layer = config.layers[i];
    for (int64_t earlier = 0; earlier < first; ++earlier) {
      if ((config.layers[earlier].window == 0) == (layer.window == 0)) layer.source_layer = earlier;
    }
    if (layer.source_layer < 0) {
      return InvalidArgument(
          reader.Name(kKey), " is ", shared, "; layer ", i, " reads the keys of an earlier layer with ",
          layer.window == 0 ? "full attention" : "a window", ", and the first ", first, " have none");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadGemma4Layers(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadShortWindowsButSixthAndLast(reader, config));
  ASSIGN_OR_RETURN(const bool keys_are_values, reader.Bool("attention_k_eq_v", false));
  RETURN_IF_ERROR(ReadHeads(reader, keys_are_values, config));
  RETURN_IF_ERROR(ReadKeySources(reader, 0, config));
  RETURN_IF_ERROR(ReadWidths(reader, config));
  for (LayerConfig& layer : config.layers) {
    // As of the model.
    if (layer.head_width == config.head_width) layer.head_width = 0;
    if (layer.kv_head_count == config.kv_head_count) layer.kv_head_count = 0;
    layer.attention_scale = 1;
    layer.keys_are_values = keys_are_values && layer.window == 0 && layer.source_layer < 0;
  }
  return absl::OkStatus();
}

absl::Status ReadGemma4(ConfigReader& reader, ModelConfig& config) {
  BlockConfig& blocks = config.blocks;
  ASSIGN_OR_RETURN(blocks.query_key_value_bias, reader.Bool("attention_bias", false));
  blocks.attention_output_bias = blocks.query_key_value_bias;
  // Of images alone.
  const Json* both_ways = reader.Take("use_bidirectional_attention");
  if (both_ways != nullptr && *both_ways != "vision") {
    return Unimplemented(reader.Name("use_bidirectional_attention"), " is ", ShownValue(*both_ways),
                         "; only null and \"vision\" are supported");
  }
  RETURN_IF_ERROR(reader.RequireValue("attn_logit_softcapping", nullptr));
  if (reader.Has("final_logit_softcapping")) {
    ASSIGN_OR_RETURN(blocks.logit_soft_cap, reader.Positive("final_logit_softcapping"));
  }
  blocks.embedding_multiplier = std::sqrt(config.width);
  RETURN_IF_ERROR(ReadLayerInputs(reader, config));
  return ReadExperts(reader, config);
}

}  // namespace varifocal

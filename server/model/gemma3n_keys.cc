#include "server/model/gemma3n_keys.h"

#include <cmath>

#include "base/status_macros.h"
#include "server/model/gemma4_keys.h"
#include "server/model/layer_windows.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kStreamInputsMax = 1 << 22;  // of all layers
constexpr int64_t kStreamRankMax = 1 << 16;
constexpr int64_t kStreamVocabularyMax = 1 << 24;

absl::Status CheckListOfLayers(const ConfigReader& reader, const char* key, const Json& list,
                               const ModelConfig& config) {
  if (list.is_array() && std::ssize(list) == config.layer_count) return absl::OkStatus();
  return InvalidArgument(reader.Name(key), " is ", ShownValue(list), "; it must have a number for each of the ",
                         config.layer_count, " layers");
}

// The numbers of a list are checked; F is the largest.
absl::Status ReadWidthsByLayer(ConfigReader& reader, ModelConfig& config) {
  constexpr char kKey[] = "intermediate_size";
  const Json* widths = reader.Take(kKey);
  if (widths == nullptr || !widths->is_array()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckListOfLayers(reader, kKey, *widths, config));
  for (int64_t i = 0; i < config.layer_count; ++i) {
    const int64_t width = (*widths)[i].get<int64_t>();
    if (width != config.feed_forward_width) config.layers[i].feed_forward_width = width;
  }
  return absl::OkStatus();
}

absl::Status ReadCuts(ConfigReader& reader, ModelConfig& config) {
  constexpr char kKey[] = "activation_sparsity_pattern";
  constexpr int64_t kCutLayers = 10;
  const Json* shares = reader.Take(kKey);
  if (shares == nullptr) {
    for (int64_t i = 0; config.layer_count > kCutLayers && i < kCutLayers; ++i) config.layers[i].cut_share = 0.95;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckListOfLayers(reader, kKey, *shares, config));
  for (int64_t i = 0; i < config.layer_count; ++i) {
    const Json& share = (*shares)[i];
    if (!share.is_number() || share < 0 || share >= 1) {
      return InvalidArgument(reader.Name(kKey), "[", i, "] is ", ShownValue(share),
                             "; it must be at least 0 and less than 1");
    }
    config.layers[i].cut_share = share.get<double>();
  }
  return absl::OkStatus();
}

absl::Status ReadStreams(ConfigReader& reader, ModelConfig& config) {
  StreamConfig& streams = config.streams;
  ASSIGN_OR_RETURN(streams.count, reader.Int("altup_num_inputs", {2, kernels::kStreamsMax}, 4));
  ASSIGN_OR_RETURN(streams.active, reader.Int("altup_active_idx", {0, streams.count - 1}, 0));
  ASSIGN_OR_RETURN(streams.scales_corrected, reader.Bool("altup_correct_scale", true));
  ASSIGN_OR_RETURN(streams.low_rank, reader.Int("laurel_rank", {1, kStreamRankMax}, 64));
  // Of training; and what published files state but transformers does not read.
  reader.Ignore({"altup_coef_clip", "altup_lr_multiplier", "query_pre_attn_scalar"});
  return absl::OkStatus();
}

absl::Status ReadInputs(ConfigReader& reader, ModelConfig& config) {
  constexpr char kWidth[] = "hidden_size_per_layer_input";
  LayerInputConfig& inputs = config.layer_inputs;
  ASSIGN_OR_RETURN(inputs.width, reader.Int(kWidth, {1, kStreamInputsMax}, 256));
  ASSIGN_OR_RETURN(inputs.vocabulary, reader.Int("vocab_size_per_layer_input", {1, kStreamVocabularyMax}, 262144));
  if (inputs.width * config.layer_count <= kStreamInputsMax) return absl::OkStatus();
  return InvalidArgument(reader.Name(kWidth), " is ", inputs.width, "; those of ", config.layer_count,
                         " layers may have at most ", kStreamInputsMax, " numbers together");
}

}  // namespace

absl::Status ReadGemma3nLayers(ConfigReader& reader, ModelConfig& config) {
  RETURN_IF_ERROR(ReadShortWindowsButFifth(reader, config));
  RETURN_IF_ERROR(ReadKeySources(reader, 15, config));
  RETURN_IF_ERROR(ReadWidthsByLayer(reader, config));
  for (LayerConfig& layer : config.layers) layer.attention_scale = 1;
  return ReadCuts(reader, config);
}

absl::Status ReadGemma3n(ConfigReader& reader, ModelConfig& config) {
  BlockConfig& blocks = config.blocks;
  ASSIGN_OR_RETURN(blocks.query_key_value_bias, reader.Bool("attention_bias", false));
  blocks.attention_output_bias = blocks.query_key_value_bias;
  RETURN_IF_ERROR(reader.RequireValue("attn_logit_softcapping", nullptr));
  if (!reader.IsPresent("final_logit_softcapping") || reader.Has("final_logit_softcapping")) {
    ASSIGN_OR_RETURN(blocks.logit_soft_cap, reader.Positive("final_logit_softcapping", 30));
  }
  blocks.embedding_multiplier = std::sqrt(config.width);
  RETURN_IF_ERROR(ReadStreams(reader, config));
  return ReadInputs(reader, config);
}

}  // namespace varifocal

#include "server/model/config.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "server/model/architectures.h"
#include "server/model/rope_keys.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file; the limits keep all later products far from overflow.
constexpr int64_t kWidthMax = 1 << 20;
constexpr int64_t kVocabularyMax = 1 << 24;
constexpr int64_t kLayersMax = 4096;
constexpr int64_t kHeadWidthMax = 1024;

// Keys that do not affect the computation:
// provenance, training, storage of other programs, their generation defaults.
constexpr const char* kHarmless[] = {
    "_name_or_path",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "use_cache",
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "decoder_start_token_id",
    "auto_map",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "finetuning_task",
    "task_specific_params",
    "tokenizer_class",
    "prefix",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict_in_generate",
    "torchscript",
    "use_bfloat16",
    "tf_legacy_loss",
    "chunk_size_feed_forward",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_return_sequences",
    "attn_implementation",
    "_attn_implementation_autoset",
    "use_flash_attention_2",
    "bad_words_ids",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "suppress_tokens",
    "begin_suppress_tokens",
    "exponential_decay_length_penalty",
    "cache_implementation",
    "classifier_dropout",
    "name_or_path",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "_num_labels",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
};

absl::StatusOr<std::vector<int32_t>> ReadTokenIds(ConfigReader& reader, absl::string_view key,
                                                  int64_t vocabulary_size) {
  std::vector<int32_t> ids;
  const Json* value = reader.Take(key);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() >= vocabulary_size) {
      return absl::InvalidArgumentError(absl::StrCat(reader.Name(key), " is ",
                                                     item.dump(-1, ' ', true, Json::error_handler_t::replace),
                                                     "; a token id must lie in 0..", vocabulary_size - 1));
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

absl::StatusOr<const Architecture*> ReadArchitecture(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.model_type, reader.String("model_type"));
  const Architecture* architecture = FindArchitecture(config.model_type);
  if (architecture == nullptr) {
    std::string hint;
    if (reader.Has("text_config")) {
      hint =
          "; it is multimodal: a checkpoint of its text part alone, with the keys of \"text_config\" at the "
          "top, may be supported";
    }
    return absl::UnimplementedError(
        absl::StrCat("\"model_type\" is \"", config.model_type, "\"; supported are ",
                     absl::StrJoin(Architectures(), ", ",
                                   [](std::string* out, const Architecture& row) { out->append(row.model_type); }),
                     hint));
  }
  config.architecture = architecture->class_name;
  if (const Json* names = reader.Take("architectures"); names != nullptr) {
    if (!names->is_array() || names->size() != 1 || (*names)[0] != architecture->class_name) {
      return absl::UnimplementedError(absl::StrCat("\"architectures\" is ", ShownValue(*names), "; a ",
                                                   config.model_type, " must be [\"", architecture->class_name, "\"]"));
    }
  }
  return architecture;
}

absl::StatusOr<int64_t> ReadKvHeads(ConfigReader& reader, const ConfigKeys& keys, int64_t head_count) {
  if (keys.kv_head_count == nullptr) return head_count;
  // Null means as many as query heads; the default of a missing key depends on the architecture.
  const bool missing = !reader.IsPresent(keys.kv_head_count) && keys.kv_head_default > 0;
  ASSIGN_OR_RETURN(const int64_t count,
                   reader.Int(keys.kv_head_count, {1, kWidthMax}, missing ? keys.kv_head_default : head_count));
  if (head_count % count != 0) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name(keys.kv_head_count), " is ", count,
                                                   missing ? " when it is missing" : "", "; it must divide ",
                                                   keys.head_count, ", ", head_count));
  }
  return count;
}

absl::Status ReadSizes(ConfigReader& reader, const Architecture& architecture, ModelConfig& config) {
  const ConfigKeys& keys = architecture.keys;
  ASSIGN_OR_RETURN(config.vocabulary_size, reader.Int("vocab_size", {1, kVocabularyMax}));
  ASSIGN_OR_RETURN(config.width, reader.Int(keys.width, {1, kWidthMax}));
  std::optional<int64_t> wide;
  if (keys.feed_forward_default_ratio > 0) wide = keys.feed_forward_default_ratio * config.width;
  ASSIGN_OR_RETURN(config.feed_forward_width, reader.Int(keys.feed_forward_width, {1, kWidthMax}, wide));
  ASSIGN_OR_RETURN(config.layer_count, reader.Int(keys.layer_count, {1, kLayersMax}));
  ASSIGN_OR_RETURN(config.head_count, reader.Int(keys.head_count, {1, kWidthMax}));
  ASSIGN_OR_RETURN(config.kv_head_count, ReadKvHeads(reader, keys, config.head_count));
  int64_t head_width = keys.head_width_default;
  if (keys.head_width != nullptr && reader.Take(keys.head_width) != nullptr) {
    ASSIGN_OR_RETURN(head_width, reader.Int(keys.head_width, {2, kHeadWidthMax}));
  }
  if (head_width == 0 && config.width % config.head_count != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        reader.Name(keys.width), " is ", config.width, keys.head_width != nullptr ? "; without head_dim it" : "; it",
        " must be a multiple of ", keys.head_count, ", ", config.head_count));
  }
  config.head_width = head_width != 0 ? head_width : config.width / config.head_count;
  const bool rotates = architecture.positions != PositionKind::kLearned;
  if ((rotates && config.head_width % 2 != 0) || config.head_width > kHeadWidthMax) {
    return absl::InvalidArgumentError(absl::StrCat("the head width is ", config.head_width, "; it must be ",
                                                   rotates ? "even and " : "", "at most ", kHeadWidthMax));
  }
  if (config.head_count * config.head_width > kWidthMax) {
    return absl::InvalidArgumentError(absl::StrCat(keys.head_count, " times the head width is ",
                                                   config.head_count * config.head_width, "; the limit is ",
                                                   kWidthMax));
  }
  ASSIGN_OR_RETURN(config.max_position, reader.Int(keys.max_position, {1, kPositionMax}));
  if (reader.Has("trained_context_length")) {
    ASSIGN_OR_RETURN(config.trained_context_length, reader.Int("trained_context_length", {1, kPositionMax}));
  }
  config.layers.resize(config.layer_count);
  return absl::OkStatus();
}

// The trained length is one fact, whichever key states it.
absl::Status ReadTrainingBlock(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.training, ReadTraining(reader));
  const std::optional<int64_t>& length = config.training.context_length;
  if (!length.has_value()) return absl::OkStatus();
  if (config.trained_context_length.value_or(*length) != *length) {
    return absl::InvalidArgumentError(absl::StrCat("\"training.context_length\" is ", *length,
                                                   " and \"trained_context_length\" is ",
                                                   *config.trained_context_length, "; they must be equal"));
  }
  config.trained_context_length = length;
  return absl::OkStatus();
}

struct NamedActivation {
  absl::string_view name;
  kernels::Activation activation;
};
// Names in transformers' table and the equivalent activation.
constexpr NamedActivation kActivations[] = {
    {"silu", kernels::Activation::kSilu},          {"swish", kernels::Activation::kSilu},
    {"gelu", kernels::Activation::kGeluErf},       {"gelu_new", kernels::Activation::kGeluTanh},
    {"gelu_fast", kernels::Activation::kGeluTanh}, {"gelu_pytorch_tanh", kernels::Activation::kGeluTanh},
    {"relu", kernels::Activation::kRelu},
};

absl::StatusOr<kernels::Activation> ReadActivation(ConfigReader& reader, const ConfigKeys& keys) {
  ASSIGN_OR_RETURN(const std::string name, reader.String(keys.activation, keys.activation_default));
  for (const NamedActivation& row : kActivations) {
    if (row.name == name) return row.activation;
  }
  return absl::UnimplementedError(
      absl::StrCat(reader.Name(keys.activation), " is \"", name, "\"; supported are ",
                   absl::StrJoin(kActivations, ", ",
                                 [](std::string* out, const NamedActivation& row) { out->append(row.name.data()); })));
}

absl::Status ReadRopes(ConfigReader& reader, const Architecture& architecture, ModelConfig& config) {
  const RopeSizes sizes{.head_width = config.head_width, .max_position = config.max_position};
  switch (architecture.positions) {
    case PositionKind::kLearned:
      for (LayerConfig& layer : config.layers) layer.rope_index = -1;
      return absl::OkStatus();
    case PositionKind::kRope: {
      ASSIGN_OR_RETURN(RopeConfig rope, ReadRope(reader, architecture.rope, sizes));
      config.ropes.push_back(std::move(rope));
      break;
    }
    case PositionKind::kRopePerLayerType: {
      ASSIGN_OR_RETURN(config.ropes, ReadRopePerLayerType(reader, sizes));
      for (LayerConfig& layer : config.layers) layer.rope_index = layer.window == 0 ? 0 : 1;
      break;
    }
  }
  for (const RopeConfig& rope : config.ropes) {
    // There max_position_embeddings remains the original length.
    if (rope.kind != RopeKind::kDynamic) continue;
    const double limit = rope.factor * sizes.max_position;
    config.max_position = static_cast<int64_t>(std::min<double>(limit, kPositionMax));
  }
  return absl::OkStatus();
}

// Unsupported features that change the result.
absl::Status RefuseUnsupported(ConfigReader& reader) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const Json* cap = reader.Take(key); cap != nullptr) {
      return absl::UnimplementedError(
          absl::StrCat(reader.Name(key), " is ", ShownValue(*cap), "; soft-caps are not supported"));
    }
  }
  if (reader.Take("quantization_config") != nullptr) {
    return absl::UnimplementedError("\"quantization_config\" is set; quantized weights are not supported");
  }
  RETURN_IF_ERROR(reader.RequireValue("is_encoder_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("is_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("add_cross_attention", false));
  RETURN_IF_ERROR(reader.RequireValue("tie_encoder_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("pruned_heads", Json::object()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(json_text));
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat("the file is ", json.type_name(), ", not an object"));
  ConfigReader reader(json, "");
  ModelConfig config;
  ASSIGN_OR_RETURN(const Architecture* architecture, ReadArchitecture(reader, config));
  const ConfigKeys& keys = architecture->keys;
  config.blocks = architecture->blocks;
  RETURN_IF_ERROR(ReadSizes(reader, *architecture, config));
  RETURN_IF_ERROR(ReadTrainingBlock(reader, config));
  ASSIGN_OR_RETURN(config.blocks.norm_epsilon, reader.Positive(keys.norm_epsilon, keys.norm_epsilon_default));
  ASSIGN_OR_RETURN(config.blocks.activation, ReadActivation(reader, keys));
  ASSIGN_OR_RETURN(config.tied_embeddings, reader.Bool("tie_word_embeddings", keys.tied_default));
  RETURN_IF_ERROR(architecture->read_windows(reader, config));
  RETURN_IF_ERROR(ReadRopes(reader, *architecture, config));
  GroupLayers(config);
  ASSIGN_OR_RETURN(config.attention, AttentionSetting::Read(reader, AttentionModelOf(config)));
  if (const std::optional<int64_t> trained = config.attention.TrainedContextLength()) {
    config.trained_context_length = std::min(*trained, config.trained_context_length.value_or(*trained));
  }
  RETURN_IF_ERROR(RefuseUnsupported(reader));
  RETURN_IF_ERROR(architecture->read_config(reader, config));
  ASSIGN_OR_RETURN(config.eos_token_ids, ReadTokenIds(reader, "eos_token_id", config.vocabulary_size));
  ASSIGN_OR_RETURN(const std::vector<int32_t> bos, ReadTokenIds(reader, "bos_token_id", config.vocabulary_size));
  if (!bos.empty()) config.bos_token_id = bos[0];
  reader.Ignore(kHarmless);
  RETURN_IF_ERROR(reader.RefuseUnread());
  return config;
}

absl::StatusOr<std::optional<std::vector<int32_t>>> ParseGenerationConfigEos(absl::string_view json_text,
                                                                             int64_t vocabulary_size) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(json_text));
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat("the file is ", json.type_name(), ", not an object"));
  ConfigReader reader(json, "");
  if (!reader.Has("eos_token_id")) return std::optional<std::vector<int32_t>>();
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadTokenIds(reader, "eos_token_id", vocabulary_size));
  return std::optional<std::vector<int32_t>>(std::move(ids));
}

}  // namespace varifocal

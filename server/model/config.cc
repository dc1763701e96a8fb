#include "server/model/config.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/json.h"
#include "base/python_json.h"
#include "base/status_macros.h"
#include "server/model/architectures.h"
#include "server/model/dual_chunk_keys.h"
#include "server/model/harmless_keys.h"
#include "server/model/latent_keys.h"
#include "server/model/mixture_keys.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/recurrence_keys.h"
#include "server/model/rope_keys.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file; the limits keep all later products far from overflow.
constexpr int64_t kWidthMax = 1 << 20;
constexpr int64_t kVocabularyMax = 1 << 24;
constexpr int64_t kLayersMax = 4096;
constexpr int64_t kHeadWidthMax = 1024;

absl::StatusOr<std::vector<int32_t>> ReadTokenIds(ConfigReader& reader, absl::string_view key,
                                                  int64_t vocabulary_size) {
  std::vector<int32_t> ids;
  const Json* value = reader.Take(key);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() >= vocabulary_size) {
      return InvalidArgument(reader.Name(key), " is ", item.dump(-1, ' ', true, Json::error_handler_t::replace),
                             "; a token id must lie in 0..", vocabulary_size - 1);
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

// What may be done with the text part of a multimodal checkpoint.
std::string TextPartHint(ConfigReader& reader) {
  const Json* text = reader.Take("text_config");
  if (text == nullptr || !text->is_object()) return "";
  const auto type = text->find("model_type");
  if (type == text->end() || !type->is_string())
    return "; it is multimodal, and its \"text_config\" does not state the type of the text part";
  const bool is_supported = FindArchitecture(type->get<std::string>()) != nullptr;
  return absl::StrCat("; it is multimodal, and its text part is of type ", ShownValue(*type),
                      is_supported
                          ? ": a checkpoint of that part alone, with the keys of \"text_config\" at the top, is "
                            "supported"
                          : ", which is not supported either");
}

absl::Status CheckClass(ConfigReader& reader, const std::string& model_type, const char* class_name) {
  const Json* names = reader.Take("architectures");
  if (names == nullptr || (names->is_array() && names->size() == 1 && (*names)[0] == class_name))
    return absl::OkStatus();
  return Unimplemented("\"architectures\" is ", ShownValue(*names), "; a ", model_type, " must be [\"", class_name,
                       "\"]");
}

absl::StatusOr<const Architecture*> ReadArchitecture(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.model_type, reader.String("model_type"));
  const Architecture* architecture = FindArchitecture(config.model_type);
  if (architecture == nullptr) {
    return Unimplemented(
        "\"model_type\" is \"", config.model_type, "\"; supported are ",
        absl::StrJoin(Architectures(), ", ",
                      [](std::string* out, const Architecture& row) { out->append(row.model_type); }),
        ", ",
        absl::StrJoin(Wrappers(), ", ", [](std::string* out, const Wrapper& row) { out->append(row.model_type); }),
        TextPartHint(reader));
  }
  if (!config.wrapper.empty()) return architecture;
  config.architecture = architecture->class_name;
  RETURN_IF_ERROR(CheckClass(reader, config.model_type, architecture->class_name));
  return architecture;
}

absl::StatusOr<int64_t> ReadKvHeads(ConfigReader& reader, const ConfigKeys& keys, int64_t head_count) {
  if (keys.kv_head_count == nullptr) return head_count;
  // Null means as many as query heads; the default of a missing key depends on the architecture.
  const bool missing = !reader.IsPresent(keys.kv_head_count) && keys.kv_head_default > 0;
  ASSIGN_OR_RETURN(const int64_t count,
                   reader.Int(keys.kv_head_count, {1, kWidthMax}, missing ? keys.kv_head_default : head_count));
  if (head_count % count != 0) {
    return InvalidArgument(reader.Name(keys.kv_head_count), " is ", count, missing ? " when it is missing" : "",
                           "; it must divide ", keys.head_count, ", ", head_count);
  }
  return count;
}

absl::StatusOr<int64_t> ReadLayerCount(ConfigReader& reader, const ConfigKeys& keys) {
  if (keys.layer_kinds == nullptr) return reader.Int(keys.layer_count, {1, kLayersMax});
  const Json* kinds = reader.Take(keys.layer_kinds);  // takes precedence, as in transformers
  const char* key = kinds != nullptr ? keys.layer_kinds : keys.layer_pattern;
  if (kinds == nullptr) kinds = reader.Take(keys.layer_pattern);
  if (kinds == nullptr) return InvalidArgument(reader.Name(key), " is missing");
  const int64_t count = kinds->is_string()  ? kinds->get_ref<const std::string&>().size()
                        : kinds->is_array() ? std::ssize(*kinds)
                                            : 0;
  if (count < 1 || count > kLayersMax) {
    return InvalidArgument(reader.Name(key), " is ", ShownValue(*kinds), "; it must state 1 to ", kLayersMax,
                           " layers");
  }
  reader.Ignore({keys.layer_pattern});
  RETURN_IF_ERROR(reader.RequireSame(keys.layer_count, count, key));
  return count;
}

absl::StatusOr<int64_t> LargestOf(const ConfigReader& reader, const char* key, const Json& list) {
  int64_t largest = 0;
  for (const Json& item : list) {
    if (!item.is_number_integer() || item < 1 || item > kWidthMax)
      return InvalidArgument(reader.Name(key), " has ", ShownValue(item), "; it must have numbers in 1..", kWidthMax);
    largest = std::max(largest, item.get<int64_t>());
  }
  return largest;
}

absl::Status ReadSizes(ConfigReader& reader, const Architecture& architecture, ModelConfig& config) {
  const ConfigKeys& keys = architecture.keys;
  ASSIGN_OR_RETURN(config.vocabulary_size, reader.Int("vocab_size", {1, kVocabularyMax}));
  ASSIGN_OR_RETURN(config.width, reader.Int(keys.width, {1, kWidthMax}));
  std::optional<int64_t> wide;
  if (keys.feed_forward_default_ratio > 0) wide = keys.feed_forward_default_ratio * config.width;
  const bool has_first = keys.feed_forward_width_first != nullptr && reader.Has(keys.feed_forward_width_first);
  const char* feed_forward_width = has_first ? keys.feed_forward_width_first : keys.feed_forward_width;
  if (has_first) reader.Ignore({keys.feed_forward_width});
  if (const Json* list = reader.Take(feed_forward_width);
      keys.feed_forward_by_layer && list != nullptr && list->is_array()) {
    ASSIGN_OR_RETURN(config.feed_forward_width, LargestOf(reader, feed_forward_width, *list));
  } else {
    ASSIGN_OR_RETURN(config.feed_forward_width, reader.Int(feed_forward_width, {1, kWidthMax}, wide));
  }
  ASSIGN_OR_RETURN(config.layer_count, ReadLayerCount(reader, keys));
  ASSIGN_OR_RETURN(config.head_count, reader.Int(keys.head_count, {1, kWidthMax}));
  ASSIGN_OR_RETURN(config.kv_head_count, ReadKvHeads(reader, keys, config.head_count));
  // Null means the width of all heads divided; the default of a missing key depends on the architecture.
  const bool is_stated = keys.head_width != nullptr && reader.IsPresent(keys.head_width);
  int64_t head_width = is_stated ? 0 : keys.head_width_default;
  if (keys.head_width != nullptr && reader.Take(keys.head_width) != nullptr) {
    ASSIGN_OR_RETURN(head_width, reader.Int(keys.head_width, {2, kHeadWidthMax}));
  }
  RETURN_IF_ERROR(ReadLatent(reader, architecture.latent, config));
  if (config.latent.rank > 0) head_width = std::max(config.latent.key_width(), config.latent.value_width);
  if (head_width == 0 && config.width % config.head_count != 0) {
    return InvalidArgument(reader.Name(keys.width), " is ", config.width,
                           keys.head_width != nullptr ? "; without head_dim it" : "; it", " must be a multiple of ",
                           keys.head_count, ", ", config.head_count);
  }
  config.head_width = head_width != 0 ? head_width : config.width / config.head_count;
  const bool rotates = architecture.positions != PositionKind::kLearned;
  if ((rotates && RotationWidth(config) % 2 != 0) || config.head_width > kHeadWidthMax) {
    return InvalidArgument("the head width is ", config.head_width, "; it must be ", rotates ? "even and " : "",
                           "at most ", kHeadWidthMax);
  }
  if (config.head_count * config.head_width > kWidthMax) {
    return InvalidArgument(keys.head_count, " times the head width is ", config.head_count * config.head_width,
                           "; the limit is ", kWidthMax);
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
    return InvalidArgument(reader.Name("training.context_length"), " is ", *length, " and ",
                           reader.Name("trained_context_length"), " is ", *config.trained_context_length,
                           "; they must be equal");
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
    {"relu", kernels::Activation::kRelu},          {"relu2", kernels::Activation::kReluSquared},
    {"xielu", kernels::Activation::kXielu},
};

absl::StatusOr<kernels::Activation> ReadActivation(ConfigReader& reader, const Architecture& architecture) {
  const ConfigKeys& keys = architecture.keys;
  std::vector<NamedActivation> rows;
  for (const NamedActivation& row : kActivations) {
    // Only some types store its numbers.
    if (row.activation != kernels::Activation::kXielu || architecture.names.activation_terms != nullptr)
      rows.push_back(row);
  }
  ASSIGN_OR_RETURN(const std::string name, reader.String(keys.activation, keys.activation_default));
  for (const NamedActivation& row : rows) {
    if (row.name == name) return row.activation;
  }
  return Unimplemented(
      reader.Name(keys.activation), " is \"", name, "\"; supported are ",
      absl::StrJoin(rows, ", ", [](std::string* out, const NamedActivation& row) { out->append(row.name.data()); }));
}

absl::Status ReadRopes(ConfigReader& reader, const Architecture& architecture, ModelConfig& config) {
  RopeSizes sizes{.head_width = RotationWidth(config), .max_position = config.max_position};
  for (const LayerConfig& layer : config.layers) {
    if (layer.window == 0 && layer.head_width > 0) sizes.full_head_width = layer.head_width;
  }
  switch (architecture.positions) {
    case PositionKind::kLearned:
      for (LayerConfig& layer : config.layers) layer.rope_index = -1;
      return absl::OkStatus();
    case PositionKind::kRope: {
      ASSIGN_OR_RETURN(RopeConfig rope, ReadRope(reader, architecture.rope, sizes));
      if (sizes.head_width != config.head_width) rope.rotary_span = rope.RotarySpan(sizes.head_width);
      config.ropes.push_back(std::move(rope));
      break;
    }
    case PositionKind::kRopePerLayerType: {
      ASSIGN_OR_RETURN(config.ropes, ReadRopePerLayerType(reader, architecture.rope, sizes));
      for (LayerConfig& layer : config.layers) layer.rope_index = layer.window == 0 ? 0 : 1;
      break;
    }
  }
  const auto is_rotated = [](const LayerConfig& layer) { return layer.rope_index >= 0; };
  if (std::none_of(config.layers.begin(), config.layers.end(), is_rotated)) config.ropes.clear();
  for (const RopeConfig& rope : config.ropes) {
    // There max_position_embeddings remains the original length.
    if (rope.kind != RopeKind::kDynamic) continue;
    const double limit = rope.factor * sizes.max_position;
    config.max_position = static_cast<int64_t>(std::min<double>(limit, kPositionMax));
  }
  return absl::OkStatus();
}

// Unsupported features that change the result.
absl::Status RefuseUnsupported(ConfigReader& reader, bool has_soft_caps) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (has_soft_caps) continue;
    if (const Json* cap = reader.Take(key); cap != nullptr)
      return Unimplemented(reader.Name(key), " is ", ShownValue(*cap), "; soft-caps are not supported in this type");
  }
  RETURN_IF_ERROR(reader.RequireValue("is_encoder_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("is_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("add_cross_attention", false));
  RETURN_IF_ERROR(reader.RequireValue("tie_encoder_decoder", false));
  RETURN_IF_ERROR(reader.RequireValue("pruned_heads", Json::object()));
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseObject(absl::string_view json_text) {
  ASSIGN_OR_RETURN(Json json, ParsePythonJson(json_text));
  if (json.is_object()) return json;
  return InvalidArgument("the file is ", json.type_name(), ", not an object");
}

// Keys that belong to the text but stand at the top of a multimodal file, where its text part has none.
constexpr const char* kTextKeysAtTop[] = {
    "eos_token_id",    "bos_token_id",    "trained_context_length", "training",       "focal_attention",
    "log_n_attention", "focus_attention", "score_soft_cap",         "attention_sink", "quantization_config"};

absl::StatusOr<const Wrapper::TextPart*> FindTextPart(const Wrapper& wrapper, const Json& text) {
  const auto type = text.find("model_type");
  if (type == text.end() || *type == wrapper.model_type) return &wrapper.text[0];
  for (const Wrapper::TextPart& part : wrapper.text) {
    if (part.model_type != nullptr && *type == part.model_type) return &part;
  }
  return Unimplemented("\"text_config.model_type\" is ", ShownValue(*type), "; the text part of a ", wrapper.model_type,
                       " must be ",
                       absl::StrJoin(wrapper.text, " or ", [](std::string* out, const Wrapper::TextPart& part) {
                         if (part.model_type != nullptr) out->append(part.model_type);
                       }));
}

// The keys of the text part as those of a text alone. `place` is where they stand.
absl::StatusOr<Json> ReadWrapper(const Json& json, const Wrapper& wrapper, ModelConfig& config, std::string& place) {
  ConfigReader reader(json, "");
  config.wrapper = wrapper.model_type;
  config.architecture = wrapper.class_name;
  reader.Ignore({"model_type"});
  RETURN_IF_ERROR(CheckClass(reader, wrapper.model_type, wrapper.class_name));
  const Json* inner = reader.Take("text_config");
  const bool is_flat = inner == nullptr && wrapper.flat;
  if (!is_flat && (inner == nullptr || !inner->is_object())) {
    return InvalidArgument(reader.Name("text_config"), " is ", inner == nullptr ? "missing" : inner->type_name(),
                           "; it must be an object");
  }
  place = is_flat ? "" : "text_config";
  Json text = is_flat ? json : *inner;
  ASSIGN_OR_RETURN(const Wrapper::TextPart* part, FindTextPart(wrapper, text));
  ASSIGN_OR_RETURN(bool is_tied, reader.Bool("tie_word_embeddings", wrapper.tied_default));
  ConfigReader inside(text, place);
  ASSIGN_OR_RETURN(const bool tied_inside, inside.Bool("tie_word_embeddings", false));
  is_tied = is_tied || (wrapper.tied_inside && tied_inside);
  text["model_type"] = part->model_type;
  text["tie_word_embeddings"] = is_tied;
  text.erase("architectures");
  const absl::StatusOr<Json> defaults = ParseJson(part->defaults);
  VF_CHECK(defaults.ok() && defaults->is_object(), "a row's defaults are JSON");
  for (const auto& [key, value] : defaults->items()) text.emplace(key, value);
  for (const char* key : kTextKeysAtTop) {
    const Json* value = reader.Take(key);
    if (value == nullptr) continue;
    // As in transformers, the token ids of the whole take precedence; two values of another key are ambiguous.
    if (!absl::EndsWith(key, "_token_id") && text.contains(key) && !text[key].is_null() && text[key] != *value)
      return InvalidArgument(reader.Name(key), " and ", inside.Name(key), " differ");
    text[key] = *value;
  }
  ASSIGN_OR_RETURN(const int64_t vocabulary, inside.Int("vocab_size", {1, kVocabularyMax}, kVocabularyMax));
  for (const char* key : wrapper.image_tokens) {
    if (key == nullptr) continue;
    // Ids beyond the vocabulary are refused as such.
    for (ConfigReader* place : {&reader, &inside}) {
      ASSIGN_OR_RETURN(const int64_t id, place->Int(key, {0, kVocabularyMax}, kVocabularyMax));
      if (id < vocabulary && place->Has(key)) config.image_token_ids.push_back(static_cast<int32_t>(id));
    }
  }
  if (wrapper.image_tokens_from != nullptr) {
    int64_t first = vocabulary;
    for (const char* key : {"vision_config", "audio_config"}) {
      const Json none = Json::object(), *part = reader.Take(key);
      ConfigReader of_part(part != nullptr && part->is_object() ? *part : none, key);
      ASSIGN_OR_RETURN(const int64_t id,
                       of_part.Int(wrapper.image_tokens_from, {0, kVocabularyMax}, wrapper.image_tokens_from_default));
      first = std::min(first, id);
    }
    for (int64_t id = first; id < vocabulary; ++id) config.image_token_ids.push_back(static_cast<int32_t>(id));
  }
  std::vector<int32_t>& images = config.image_token_ids;
  std::sort(images.begin(), images.end());
  images.erase(std::unique(images.begin(), images.end()), images.end());
  // The number format of the whole is that of its text, unless that has one.
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (const auto of_all = json.find(key);
        of_all != json.end() && !text.contains("dtype") && !text.contains("torch_dtype"))
      text[key] = *of_all;
  }
  // Some releases wrote keys of the whole into the text part, and keys of the text again at the top.
  for (const char* key : wrapper.ignored) {
    if (key == nullptr) continue;
    reader.Ignore({key});
    text.erase(key);
  }
  for (const char* key : wrapper.image_tokens) {
    if (key != nullptr) text.erase(key);
  }
  if (is_flat) {
    text.erase("vision_config");
    return text;
  }
  for (const auto& [key, value] : json.items()) {
    if (text.contains(key) && text[key] == value) reader.Ignore({key.c_str()});
  }
  reader.Ignore({"vision_config"});
  RETURN_IF_ERROR(RefuseUnsupported(reader, false));
  reader.Ignore(HarmlessKeys());
  RETURN_IF_ERROR(reader.RefuseUnread());
  return text;
}

absl::StatusOr<ModelConfig> ReadConfigJson(const Json& json) {
  ModelConfig config;
  std::string place;
  Json text;
  const auto type = json.find("model_type");
  const Wrapper* wrapper = type != json.end() && type->is_string() ? FindWrapper(type->get<std::string>()) : nullptr;
  if (wrapper != nullptr) {
    ASSIGN_OR_RETURN(text, ReadWrapper(json, *wrapper, config, place));
  }
  ConfigReader reader(wrapper == nullptr ? json : text, place);
  ASSIGN_OR_RETURN(const Architecture* architecture, ReadArchitecture(reader, config));
  const ConfigKeys& keys = architecture->keys;
  config.blocks = architecture->blocks;
  RETURN_IF_ERROR(ReadSizes(reader, *architecture, config));
  RETURN_IF_ERROR(ReadMixture(reader, architecture->mixture, config));
  RETURN_IF_ERROR(ReadTrainingBlock(reader, config));
  ASSIGN_OR_RETURN(config.blocks.norm_epsilon, reader.Positive(keys.norm_epsilon, keys.norm_epsilon_default));
  if (architecture->blocks.activation != kernels::Activation::kClampedGate) {
    ASSIGN_OR_RETURN(config.blocks.activation, ReadActivation(reader, *architecture));
  }
  ASSIGN_OR_RETURN(config.tied_embeddings, reader.Bool("tie_word_embeddings", keys.tied_default));
  RETURN_IF_ERROR(architecture->read_layers(reader, config));
  RETURN_IF_ERROR(ReadRecurrence(reader, architecture->recurrence, config));
  RETURN_IF_ERROR(ReadRopes(reader, *architecture, config));
  GroupLayers(config);
  ASSIGN_OR_RETURN(config.attention, AttentionSetting::Read(reader, AttentionModelOf(config), architecture->attention));
  if (const std::optional<int64_t> trained = config.attention.TrainedContextLength())
    config.trained_context_length = std::min(*trained, config.trained_context_length.value_or(*trained));
  RETURN_IF_ERROR(RefuseUnsupported(reader, keys.soft_caps));
  ASSIGN_OR_RETURN(config.packed_weights, ReadPackedWeights(reader));
  if (config.packed_weights != nullptr) {
    const std::vector<std::string>& notes = config.packed_weights->notes;
    config.notes.insert(config.notes.end(), notes.begin(), notes.end());
  }
  RETURN_IF_ERROR(ReadDualChunk(reader, config));
  RETURN_IF_ERROR(architecture->read_config(reader, config));
  ASSIGN_OR_RETURN(config.eos_token_ids, ReadTokenIds(reader, "eos_token_id", config.vocabulary_size));
  ASSIGN_OR_RETURN(const std::vector<int32_t> bos, ReadTokenIds(reader, "bos_token_id", config.vocabulary_size));
  if (!bos.empty()) config.bos_token_id = bos[0];
  reader.Ignore(HarmlessKeys());
  RETURN_IF_ERROR(reader.RefuseUnread());
  return config;
}

// Removes "key", or "object.key" as messages show it; false when there is none.
bool RemoveKey(absl::string_view name, Json& json) {
  if (!json.is_object()) return false;
  if (json.erase(std::string(name)) > 0) return true;
  for (size_t dot = name.find('.'); dot != absl::string_view::npos; dot = name.find('.', dot + 1)) {
    const auto inner = json.find(std::string(name.substr(0, dot)));
    if (inner != json.end() && RemoveKey(name.substr(dot + 1), *inner)) return true;
  }
  return false;
}

Json Without(const Json& json, absl::Span<const std::string> keys, absl::string_view kept = "") {
  Json rest = json;
  for (const std::string& key : keys) {
    if (key != kept) RemoveKey(key, rest);
  }
  return rest;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text, std::vector<std::string> ignored_keys) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(json_text));
  std::sort(ignored_keys.begin(), ignored_keys.end());
  ignored_keys.erase(std::unique(ignored_keys.begin(), ignored_keys.end()), ignored_keys.end());
  for (const std::string& key : ignored_keys) {
    if (Json copy = json; RemoveKey(key, copy)) continue;
    return InvalidArgument("\"", key, "\" is to be ignored, and there is no such key");
  }
  ASSIGN_OR_RETURN(ModelConfig config, ReadConfigJson(Without(json, ignored_keys)));
  for (const std::string& key : ignored_keys) {
    const absl::Status with_key = ReadConfigJson(Without(json, ignored_keys, key)).status();
    if (absl::IsUnimplemented(with_key)) continue;
    return InvalidArgument("\"", key, "\" is to be ignored, and is not refused as unknown or unsupported",
                           with_key.ok() ? "" : absl::StrCat(": ", with_key.message()));
  }
  config.ignored_keys = std::move(ignored_keys);
  return config;
}

std::vector<std::string> KeysOfModel(const std::vector<std::string>& keys, absl::string_view model) {
  std::vector<std::string> of_model;
  for (const std::string& key : keys) {
    const size_t colon = key.find(':');
    if (colon == std::string::npos) of_model.push_back(key);
    if (key.substr(0, colon) == model && colon != std::string::npos) of_model.push_back(key.substr(colon + 1));
  }
  return of_model;
}

absl::StatusOr<std::optional<std::vector<int32_t>>> ParseGenerationConfigEos(absl::string_view json_text,
                                                                             int64_t vocabulary_size) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(json_text));
  ConfigReader reader(json, "");
  if (!reader.Has("eos_token_id")) return std::optional<std::vector<int32_t>>();
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadTokenIds(reader, "eos_token_id", vocabulary_size));
  return std::optional<std::vector<int32_t>>(std::move(ids));
}

}  // namespace varifocal

#include "server/model/function_json.h"

#include <set>
#include <tuple>

#include "base/check.h"
#include "base/json.h"
#include "server/model/adapter.h"

namespace varifocal {
namespace {

const char* NameOf(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::kNone:
      return "none";
    case kernels::Activation::kSilu:
      return "silu";
    case kernels::Activation::kSlopedSilu:
      return "sloped_silu";
    case kernels::Activation::kGeluTanh:
      return "gelu_tanh";
    case kernels::Activation::kGeluErf:
      return "gelu_erf";
    case kernels::Activation::kRelu:
      return "relu";
    case kernels::Activation::kReluSquared:
      return "relu_squared";
    case kernels::Activation::kXielu:
      return "xielu";
    case kernels::Activation::kClampedGate:
      return "clamped_gate";
  }
  return "";
}

const char* NameOf(kernels::NormKind norm) {
  switch (norm) {
    case kernels::NormKind::kRms:
      return "rms";
    case kernels::NormKind::kLayer:
      return "layer";
    case kernels::NormKind::kNone:
      return "none";
  }
  return "";
}

const char* NameOf(kernels::RecurrenceKind kind) {
  switch (kind) {
    case kernels::RecurrenceKind::kNone:
      return "none";
    case kernels::RecurrenceKind::kDeltaRule:
      return "delta_rule";
    case kernels::RecurrenceKind::kConvolution:
      return "convolution";
    case kernels::RecurrenceKind::kStateSpace:
      return "state_space";
  }
  return "";
}

// Every field of BlockConfig.
Json BlocksJson(const BlockConfig& blocks) {
  const auto& [norm, norm_epsilon, norm_bias, norms_add_one, head_norm_over_width, head_norm_after_rotation, value_norm,
               activation, activation_terms, parallel_residual, attention_gate, conv_bias, recurrence_bias, one_norm,
               query_key_value_bias, attention_output_bias, mlp_bias, embedding_multiplier, residual_multiplier,
               attention_output_multiplier, recurrence_output_multiplier, mlp_output_multiplier, state_space,
               logit_multiplier, score_soft_cap, logit_soft_cap,
               query_key_value_clip] = blocks;  // a new field does not compile until it is listed
  Json json = {{"activation", NameOf(activation)},
               {"attention_output_bias", attention_output_bias},
               {"embedding_multiplier", embedding_multiplier},
               {"head_norm_over_width", head_norm_over_width},
               {"logit_multiplier", logit_multiplier},
               {"mlp_bias", mlp_bias},
               {"norm", NameOf(norm)},
               {"norm_epsilon", norm_epsilon},
               {"norms_add_one", norms_add_one},
               {"parallel_residual", parallel_residual},
               {"query_key_value_bias", query_key_value_bias},
               {"residual_multiplier", residual_multiplier}};
  // Listed where they differ from those of all earlier identities.
  if (!norm_bias) json["norm_bias"] = norm_bias;
  if (attention_gate) json["attention_gate"] = attention_gate;
  if (conv_bias) json["conv_bias"] = conv_bias;
  if (recurrence_bias) json["recurrence_bias"] = recurrence_bias;
  if (one_norm) json["one_norm"] = one_norm;
  if (value_norm) json["value_norm"] = value_norm;
  if (head_norm_after_rotation) json["head_norm_after_rotation"] = head_norm_after_rotation;
  if (activation == kernels::Activation::kClampedGate)
    json["activation_terms"] = {{"alpha", activation_terms.a}, {"limit", activation_terms.b}};
  if (activation == kernels::Activation::kSlopedSilu) json["activation_terms"] = {{"slope", activation_terms.a}};
  if (attention_output_multiplier != 1) json["attention_output_multiplier"] = attention_output_multiplier;
  if (recurrence_output_multiplier != 1) json["recurrence_output_multiplier"] = recurrence_output_multiplier;
  if (mlp_output_multiplier != 1) json["mlp_output_multiplier"] = mlp_output_multiplier;
  if (const auto& [z, u, b, c, step] = state_space; z != 1 || u != 1 || b != 1 || c != 1 || step != 1)
    json["state_space_multipliers"] = {z, u, b, c, step};
  if (score_soft_cap != 0) json["score_soft_cap"] = score_soft_cap;
  if (logit_soft_cap != 0) json["logit_soft_cap"] = logit_soft_cap;
  if (query_key_value_clip != 0) json["query_key_value_clip"] = query_key_value_clip;
  return json;
}

// Every field of MixtureConfig.
Json MixtureJson(const MixtureConfig& mixture) {
  const auto& [expert_count, per_token, width, shared_width, shared_gate, renormalised, normed_apart, gated,
               choice_bias, routing] = mixture;
  Json json = {{"experts", expert_count},
               {"per_token", per_token},
               {"renormalised", renormalised},
               {"shared_width", shared_width},
               {"width", width}};
  if (!shared_gate) json["shared_gate"] = shared_gate;
  if (normed_apart) json["normed_apart"] = normed_apart;
  if (!gated) json["gated"] = gated;
  if (choice_bias) json["choice_bias"] = choice_bias;
  const auto& [score, group_count, groups_kept, group_score, scaling] = routing;
  if (score == kernels::ExpertScore::kSigmoid) json["score"] = "sigmoid";
  if (group_count > 1) {
    json["groups"] = {{"count", group_count},
                      {"kept", groups_kept},
                      {"score", group_score == kernels::GroupScore::kLargest ? "largest" : "two_largest"}};
  }
  if (scaling != 1) json["scaling"] = scaling;
  return json;
}

// Every field of LatentConfig.
Json LatentJson(const LatentConfig& latent) {
  const auto& [rank, query_rank, rotated_width, unrotated_width, value_width, neighbours] = latent;
  return {{"neighbours", neighbours}, {"query_rank", query_rank},     {"rank", rank},
          {"rotated", rotated_width}, {"unrotated", unrotated_width}, {"values", value_width}};
}

// Every field of RecurrenceShape.
Json RecurrenceJson(const kernels::RecurrenceShape& shape) {
  const auto& [kind, conv_width, key_head_count, value_head_count, key_dim, value_dim, norm_groups, gate_first,
               step_min] = shape;
  Json json = {{"conv_width", conv_width}, {"key_dim", key_dim},     {"key_heads", key_head_count},
               {"kind", NameOf(kind)},     {"value_dim", value_dim}, {"value_heads", value_head_count}};
  if (kind == kernels::RecurrenceKind::kStateSpace) {
    json["gate_first"] = gate_first;
    json["norm_groups"] = norm_groups;
    if (step_min != 0) json["step_min"] = step_min;
  }
  return json;
}

// What the function of a layer depends on.
auto FunctionOfLayer(const LayerConfig& layer) {
  return std::tie(layer.window, layer.rope_index, layer.attention_scale, layer.has_mixture, layer.is_recurrent,
                  layer.has_attention, layer.has_mlp, layer.head_width, layer.kv_head_count, layer.feed_forward_width,
                  layer.keys_are_values, layer.source_layer, layer.cut_share);
}

// Runs of equal consecutive layers.
Json LayersJson(const std::vector<LayerConfig>& layers) {
  Json runs = Json::array();
  for (size_t first = 0, next = 0; first < layers.size(); first = next) {
    const LayerConfig& layer = layers[first];
    while (next < layers.size() && FunctionOfLayer(layers[next]) == FunctionOfLayer(layer)) ++next;
    runs.push_back({{"attention_scale", layer.attention_scale},
                    {"count", next - first},
                    {"rope", layer.rope_index},
                    {"window", layer.window}});
    if (layer.has_mixture) runs.back()["mixture"] = true;
    if (layer.is_recurrent) runs.back()["recurrent"] = true;
    if (layer.is_recurrent && layer.has_attention) runs.back()["attention"] = true;
    if (!layer.has_mlp) runs.back()["mlp"] = false;
    if (!layer.is_recurrent && !layer.has_attention) runs.back()["attention"] = false;
    if (layer.head_width != 0) runs.back()["head_width"] = layer.head_width;
    if (layer.kv_head_count != 0) runs.back()["kv_heads"] = layer.kv_head_count;
    if (layer.feed_forward_width != 0) runs.back()["feed_forward"] = layer.feed_forward_width;
    if (layer.keys_are_values) runs.back()["keys_are_values"] = true;
    if (layer.cut_share != 0) runs.back()["cut_share"] = layer.cut_share;
    if (layer.source_layer >= 0) runs.back()["keys_of"] = layer.source_layer;
  }
  return runs;
}

}  // namespace

std::string FunctionJson(const ModelConfig& config, absl::string_view dtype, absl::string_view chat_sha256) {
  const absl::StatusOr<Json> attention = ParseJson(config.attention.json());
  VF_CHECK(attention.ok(), "an attention setting has valid JSON");
  Json json = {{"architecture", config.model_type},
               {"attention", *attention},
               {"blocks", BlocksJson(config.blocks)},
               {"chat_format", chat_sha256},
               {"context_length_max", config.max_position},
               {"extended_context_length_max", config.extended_position_max},
               {"eos_token_ids", std::set<int32_t>(config.eos_token_ids.begin(), config.eos_token_ids.end())},
               {"ignored_config_keys", config.ignored_keys},
               {"layers", LayersJson(config.layers)},
               {"number_format", dtype},
               {"ropes", RopesToString(config.ropes)},
               {"sizes",
                {{"feed_forward", config.feed_forward_width},
                 {"head_width", config.head_width},
                 {"heads", config.head_count},
                 {"kv_heads", config.kv_head_count},
                 {"vocabulary", config.vocabulary_size},
                 {"width", config.width}}},
               {"tied_embeddings", config.tied_embeddings}};
  if (const auto& [width, vocabulary] = config.layer_inputs; width > 0)
    json["layer_inputs"] = {{"vocabulary", vocabulary}, {"width", width}};
  if (const auto& [count, active, low_rank, scales_corrected] = config.streams; count > 0) {
    json["streams"] = {
        {"active", active}, {"count", count}, {"low_rank", low_rank}, {"scales_corrected", scales_corrected}};
  }
  if (config.mixture.expert_count > 0) json["mixture"] = MixtureJson(config.mixture);
  if (config.latent.rank > 0) json["latent"] = LatentJson(config.latent);
  if (config.packed_weights != nullptr) json["packed_weights"] = config.packed_weights->identity;
  if (config.adapter != nullptr) json["adapter"] = config.adapter->Identity();
  if (config.recurrence.kind != kernels::RecurrenceKind::kNone) json["recurrence"] = RecurrenceJson(config.recurrence);
  // A key of its own where there are any, so that the identities of text models stay as they were.
  if (!config.image_token_ids.empty()) json["image_token_ids"] = config.image_token_ids;
  absl::StatusOr<std::string> text = DumpJson(json);
  VF_CHECK(text.ok(), "a config is checked to be finite");
  return *std::move(text);
}

}  // namespace varifocal

// For tests of the table of architectures: a config in one line, small files of each row, and what a file means.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "gtest/gtest.h"
#include "server/model/architectures.h"
#include "server/model/config.h"
#include "server/model/published_dense.h"
#include "server/model/published_mixtures.h"
#include "tests/support/json_changes.h"

namespace varifocal {

inline std::string Windows(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    if (!text.empty()) text += ",";
    if (layer.is_recurrent) text += layer.has_attention ? "state+" : "state";
    if (!layer.is_recurrent && !layer.has_attention) text += "mlp";
    if (!layer.has_attention) continue;
    absl::StrAppend(&text, layer.window == 0 ? "full" : absl::StrCat(layer.window));
    if (config.ropes.size() > 1) absl::StrAppend(&text, ":", layer.rope_index);
    if (config.ropes.size() == 1 && layer.rope_index < 0) absl::StrAppend(&text, ":unrotated");
  }
  return text;
}

// Summary of a config in one line.
inline std::string Summary(const ModelConfig& config) {
  const BlockConfig& b = config.blocks;
  std::string text =
      absl::StrCat(config.wrapper, config.wrapper.empty() ? "V" : ": V", config.vocabulary_size, " M", config.width,
                   " F", config.feed_forward_width, " L", config.layer_count, " H", config.head_count, "/",
                   config.kv_head_count, " D", config.head_width, " max", config.max_position,
                   " eps=", ShortNumber(b.norm_epsilon), " act=", static_cast<int>(b.activation));
  if (config.tied_embeddings) text += " tied";
  if (b.norm == kernels::NormKind::kLayer) text += " layernorm";
  if (b.norms_add_one) text += " 1+w";
  if (b.head_norm_over_width) text += " widenorm";
  if (b.head_norm_after_rotation) text += " latenorm";
  if (b.activation_terms.a != 0)
    absl::StrAppend(&text, " alpha=", b.activation_terms.a, " limit=", b.activation_terms.b);
  if (config.attention.json() != "{}") absl::StrAppend(&text, " ", config.attention.json());
  if (!b.norm_bias) text += " nobias";
  if (const MixtureConfig& m = config.mixture; m.expert_count > 0) {
    absl::StrAppend(&text, " experts=", m.per_token, "/", m.expert_count, "x", m.width,
                    m.renormalised ? " renormalised" : "");
    if (m.shared_width > 0) absl::StrAppend(&text, " shared=", m.shared_width, m.shared_gate ? "" : " ungated");
    for (size_t i = 0; i < config.layers.size(); ++i) {
      if (!config.layers[i].has_mixture) absl::StrAppend(&text, " plain", i);
    }
  }
  if (b.attention_gate) text += " gate";
  if (const kernels::RecurrenceShape& s = config.recurrence; s.kind != kernels::RecurrenceKind::kNone) {
    const char* kinds[] = {"", " delta=", " conv", " statespace="};
    text += kinds[static_cast<int>(s.kind)];
    if (s.has_matrices()) {
      absl::StrAppend(&text, s.key_head_count, "x", s.key_dim, "/", s.value_head_count, "x", s.value_dim);
    }
    if (s.kind == kernels::RecurrenceKind::kStateSpace) {
      if (s.step_min != 0) absl::StrAppend(&text, " step=", s.step_min);
      if (s.norm_group_count == 0) text += " ungrouped";
      if (!s.gate_first && s.norm_group_count > 0) text += " normfirst";
    }
    absl::StrAppend(&text, s.has_matrices() ? " conv=" : "=", s.conv_width);
    if (b.conv_bias) text += " convbias";
    if (b.recurrence_bias) text += " statebias";
    if (const auto& [z, u, b, c, step] = config.blocks.state_space; z != 1 || u != 1) {
      absl::StrAppend(&text, " space*", absl::StrJoin({z, u, b, c, step}, ","));
    }
  }
  if (b.query_key_value_clip != 0) absl::StrAppend(&text, " clip=", b.query_key_value_clip);
  if (b.parallel_residual) text += b.one_norm ? " parallel1" : " parallel";
  if (b.query_key_value_bias) text += " qkvbias";
  if (b.attention_output_bias) text += " obias";
  if (b.mlp_bias) text += " mlpbias";
  if (b.embedding_multiplier != 1) absl::StrAppend(&text, " emb*", b.embedding_multiplier);
  if (b.attention_output_multiplier != 1) {
    const double factors[] = {b.attention_output_multiplier, b.recurrence_output_multiplier, b.mlp_output_multiplier};
    absl::StrAppend(&text, " out*", absl::StrJoin(factors, ","));
  }
  if (b.residual_multiplier != 1) absl::StrAppend(&text, " res*", b.residual_multiplier);
  if (b.score_soft_cap != 0) absl::StrAppend(&text, " cap=", b.score_soft_cap);
  if (b.logit_soft_cap != 0) absl::StrAppend(&text, " logitcap=", b.logit_soft_cap);
  if (b.logit_multiplier != 1) absl::StrAppend(&text, " logit*", b.logit_multiplier);
  if (config.layers[0].attention_scale != 0) absl::StrAppend(&text, " scale=", config.layers[0].attention_scale);
  text += LatentSummary(config);
  if (const StreamConfig& s = config.streams; s.count > 0) {
    absl::StrAppend(&text, " streams=", s.active, "/", s.count, s.scales_corrected ? " scaled" : "",
                    " lowrank=", s.low_rank);
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].cut_share > 0) absl::StrAppend(&text, " cut", i, "=", config.layers[i].cut_share);
  }
  if (const std::vector<int32_t>& ids = config.image_token_ids; ids.size() > 8) {  // all of a range
    absl::StrAppend(&text, " images=", ids.front(), "..", ids.back());
    EXPECT_EQ(ids.back() - ids.front() + 1, std::ssize(ids));
  } else if (!ids.empty()) {
    absl::StrAppend(&text, " images=", absl::StrJoin(ids, ","));
  }
  return absl::StrCat(text, " | ", RopesToString(config.ropes), " | ", Windows(config));
}

inline std::string Parsed(absl::string_view json) {
  const auto config = ParseModelConfig(json);
  return config.ok() ? Summary(*config) : absl::StrCat("refused: ", config.status().message());
}
inline std::string ParsedJson(const Json& json) { return Parsed(json.dump()); }

inline std::vector<Published> AllPublished() {
  std::vector<Published> all(std::begin(kPublishedDense), std::end(kPublishedDense));
  all.insert(all.end(), std::begin(kPublishedMixtures), std::end(kPublishedMixtures));
  all.insert(all.end(), std::begin(kPublishedLatent), std::end(kPublishedLatent));
  return all;
}

// The smallest file of each row: sizes, and nothing else.
inline Json Small(const std::string& model_type) {
  if (model_type == "gpt2") {
    return *ParseJson(R"({"model_type":"gpt2","vocab_size":99,"n_embd":64,"n_layer":3,"n_head":4,"n_positions":512})");
  }
  Json json = *ParseJson(R"({"vocab_size":99,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,
      "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":512})");
  json["model_type"] = model_type;
  if (model_type == "ministral3") {
    json["rope_parameters"] = *ParseJson(R"({"rope_type":"yarn","factor":2.0,"original_max_position_embeddings":64,
        "llama_4_scaling_beta":0.1})");
  }
  if (model_type == "granitemoehybrid") {
    json["layer_types"] = {"attention", "mamba", "attention"};
    json["shared_intermediate_size"] = 48;
  }
  if (model_type == "gemma3n_text") json["num_kv_shared_layers"] = 0;
  if (model_type == "bamba") json["attn_layer_indices"] = {0, 2};
  if (model_type == "nemotron_h") {
    json.erase("num_hidden_layers");
    json["hybrid_override_pattern"] = "M*-";
  }
  const Architecture* row = FindArchitecture(model_type);
  if (model_type == "gpt_neox" || (row != nullptr && row->latent.rank_default > 0)) json.erase("num_key_value_heads");
  if (model_type == "deepseek_v2") json["num_experts_per_tok"] = 2;
  return json;
}

// `edits` is an object: its keys are set, or removed where the value is "-".
inline Json Edited(const std::string& model_type, const char* edits) {
  return testing_support::WithEdits(Small(model_type), edits);
}

struct Meaning {
  const char* model_type;
  const char* edits;
  const char* summary;  // a part of it
};

}  // namespace varifocal

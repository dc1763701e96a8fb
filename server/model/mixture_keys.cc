#include "server/model/mixture_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kExpertWidthMax = 1 << 20;
constexpr int64_t kStepMax = 1 << 20;

// Which layers have a mixture: every `decoder_sparse_step`-th, but those of `mlp_only_layers`.
absl::Status ReadMixtureLayers(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t step, reader.Int("decoder_sparse_step", {1, kStepMax}, 1));
  for (int64_t i = 0; i < config.layer_count; ++i) config.layers[i].has_mixture = (i + 1) % step == 0;
  const Json* plain = reader.Take("mlp_only_layers");
  if (plain == nullptr) return absl::OkStatus();
  const auto is_layer = [&](const Json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < config.layer_count;
  };
  if (!plain->is_array() || !std::all_of(plain->begin(), plain->end(), is_layer)) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name("mlp_only_layers"), " is ", ShownValue(*plain),
                                                   "; it must be a list of layers 0..", config.layer_count - 1));
  }
  for (const Json& item : *plain) config.layers[item.get<int64_t>()].has_mixture = false;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadMixture(ConfigReader& reader, const MixtureKeys& keys, ModelConfig& config) {
  if (keys.expert_count == nullptr) return absl::OkStatus();
  MixtureConfig& mixture = config.mixture;
  const char* key = keys.expert_count;
  if (keys.expert_count_too != nullptr && reader.Has(keys.expert_count_too) && !reader.Has(key)) {
    key = keys.expert_count_too;
  }
  ASSIGN_OR_RETURN(mixture.expert_count, reader.Int(key, {1, kernels::kExpertsMax}, keys.expert_count_default));
  if (keys.expert_count_too != nullptr) {
    RETURN_IF_ERROR(reader.RequireValue(keys.expert_count_too, mixture.expert_count));
  }
  ASSIGN_OR_RETURN(mixture.per_token,
                   reader.Int("num_experts_per_tok", {1, kernels::kExpertsMax}, keys.per_token_default));
  if (mixture.per_token > mixture.expert_count) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name("num_experts_per_tok"), " is ", mixture.per_token,
                                                   reader.Has("num_experts_per_tok") ? "" : " when it is missing",
                                                   "; the model has ", mixture.expert_count, " experts"));
  }
  mixture.width = config.feed_forward_width;
  if (keys.width != nullptr) {
    ASSIGN_OR_RETURN(mixture.width, reader.Int(keys.width, {1, kExpertWidthMax}, keys.width_default));
  }
  if (keys.shared_width != nullptr) {
    ASSIGN_OR_RETURN(mixture.shared_width,
                     reader.Int(keys.shared_width, {1, kExpertWidthMax}, keys.shared_width_default));
  }
  mixture.renormalised = keys.always_renormalised;
  if (!keys.always_renormalised) {
    ASSIGN_OR_RETURN(mixture.renormalised, reader.Bool("norm_topk_prob", keys.renormalised_default));
  }
  for (LayerConfig& layer : config.layers) layer.has_mixture = true;
  if (keys.chooses_layers) RETURN_IF_ERROR(ReadMixtureLayers(reader, config));
  // Of training and its loss.
  reader.Ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
  return absl::OkStatus();
}

}  // namespace varifocal

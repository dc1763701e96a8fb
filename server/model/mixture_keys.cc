#include "server/model/mixture_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/model/layer_windows.h"

namespace varifocal {
namespace {

// Larger sizes indicate a damaged file.
constexpr int64_t kExpertWidthMax = 1 << 20;
constexpr int64_t kStepMax = 1 << 20;

std::optional<int64_t> DefaultOf(int64_t value) { return value == 0 ? std::nullopt : std::optional(value); }

// Which layers have a mixture: every `decoder_sparse_step`-th, but those of `mlp_only_layers`.
absl::Status ReadMixtureLayers(ConfigReader& reader, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t step, reader.Int("decoder_sparse_step", {1, kStepMax}, 1));
  for (int64_t i = 0; i < config.layer_count; ++i) config.layers[i].has_mixture = (i + 1) % step == 0;
  ASSIGN_OR_RETURN(const auto plain, ReadLayerList(reader, "mlp_only_layers", config.layer_count));
  for (int64_t i = 0; plain.has_value() && i < config.layer_count; ++i) {
    if ((*plain)[i]) config.layers[i].has_mixture = false;
  }
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
  const int64_t least = keys.none_allowed ? 0 : 1;
  ASSIGN_OR_RETURN(mixture.expert_count, reader.Int(key, {least, kernels::kExpertsMax}, keys.expert_count_default));
  if (keys.expert_count_too != nullptr) {
    RETURN_IF_ERROR(reader.RequireValue(keys.expert_count_too, mixture.expert_count));
  }
  // Of training and its loss.
  reader.Ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
  if (mixture.expert_count == 0) {
    reader.Ignore({"num_experts_per_tok", keys.width});
    return absl::OkStatus();
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
    ASSIGN_OR_RETURN(mixture.width, reader.Int(keys.width, {1, kExpertWidthMax}, DefaultOf(keys.width_default)));
  }
  if (keys.shared_width != nullptr) {
    ASSIGN_OR_RETURN(mixture.shared_width,
                     reader.Int(keys.shared_width, {1, kExpertWidthMax}, DefaultOf(keys.shared_width_default)));
  }
  mixture.renormalised = keys.always_renormalised;
  if (!keys.always_renormalised) {
    ASSIGN_OR_RETURN(mixture.renormalised, reader.Bool("norm_topk_prob", keys.renormalised_default));
  }
  for (LayerConfig& layer : config.layers) layer.has_mixture = true;
  if (keys.chooses_layers) RETURN_IF_ERROR(ReadMixtureLayers(reader, config));
  return absl::OkStatus();
}

}  // namespace varifocal

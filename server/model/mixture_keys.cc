#include "server/model/mixture_keys.h"

#include <algorithm>

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

// How experts are chosen and weighed, where it is more than a softmax.
absl::Status ReadRouting(ConfigReader& reader, const MixtureKeys& keys, MixtureConfig& mixture) {
  kernels::ExpertRouting& routing = mixture.routing;
  routing.score = keys.score;
  routing.group_score = keys.group_score;
  mixture.choice_bias = keys.choice_bias;
  if (keys.scaling != nullptr) {
    ASSIGN_OR_RETURN(const double scaling, reader.Positive(keys.scaling, keys.scaling_default));
    routing.scaling = static_cast<float>(scaling);
  }
  if (!keys.reads_groups) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t groups, reader.Int("n_group", {1, kernels::kExpertsMax}, keys.groups_default));
  ASSIGN_OR_RETURN(const int64_t kept, reader.Int("topk_group", {1, kernels::kExpertsMax}, keys.groups_kept_default));
  const int64_t of_group = mixture.expert_count / groups;
  const int64_t least = keys.group_score == kernels::GroupScore::kTwoLargest ? 2 : 1;
  if (of_group * groups != mixture.expert_count || of_group < least) {
    return InvalidArgument(reader.Name("n_group"), " is ", groups, reader.Has("n_group") ? "" : " when it is missing",
                           "; the ", mixture.expert_count, " experts must be that many groups of one size, of ", least,
                           " or more");
  }
  if (kept > groups || kept * of_group < mixture.per_token) {
    return InvalidArgument(reader.Name("topk_group"), " is ", kept,
                           reader.Has("topk_group") ? "" : " when it is missing", " of ", groups, " groups of ",
                           of_group, " experts; it must leave a row its ", mixture.per_token, " experts");
  }
  routing.group_count = static_cast<int>(groups);
  routing.groups_kept = static_cast<int>(kept);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadMixture(ConfigReader& reader, const MixtureKeys& keys, ModelConfig& config) {
  if (keys.expert_count == nullptr) return absl::OkStatus();
  MixtureConfig& mixture = config.mixture;
  const char* key = keys.expert_count;
  if (keys.expert_count_too != nullptr && reader.Has(keys.expert_count_too) && !reader.Has(key))
    key = keys.expert_count_too;
  const int64_t least = keys.none_allowed ? 0 : 1;
  ASSIGN_OR_RETURN(mixture.expert_count, reader.Int(key, {least, kernels::kExpertsMax}, keys.expert_count_default));
  if (keys.expert_count_too != nullptr)
    RETURN_IF_ERROR(reader.RequireValue(keys.expert_count_too, mixture.expert_count));
  // Of training and its loss.
  reader.Ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
  if (mixture.expert_count == 0) {
    reader.Ignore({"num_experts_per_tok", keys.width});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(mixture.per_token,
                   reader.Int("num_experts_per_tok", {1, kernels::kExpertsMax}, DefaultOf(keys.per_token_default)));
  if (mixture.per_token > mixture.expert_count) {
    return InvalidArgument(reader.Name("num_experts_per_tok"), " is ", mixture.per_token,
                           reader.Has("num_experts_per_tok") ? "" : " when it is missing", "; the model has ",
                           mixture.expert_count, " experts");
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
  if (keys.never_renormalised) RETURN_IF_ERROR(reader.RequireValue("norm_topk_prob", false));
  if (!keys.always_renormalised) {
    ASSIGN_OR_RETURN(mixture.renormalised, reader.Bool("norm_topk_prob", keys.renormalised_default));
  }
  if (keys.shared_count != nullptr) {
    ASSIGN_OR_RETURN(const int64_t count,
                     reader.Int(keys.shared_count, {1, kernels::kExpertsMax}, keys.shared_count_default));
    mixture.shared_width = count * mixture.width;
  }
  mixture.gated = keys.gated;
  RETURN_IF_ERROR(ReadRouting(reader, keys, mixture));
  for (LayerConfig& layer : config.layers) layer.has_mixture = true;
  if (keys.dense_first != nullptr) {
    ASSIGN_OR_RETURN(const int64_t dense, reader.Int(keys.dense_first, {0, kStepMax}, keys.dense_first_default));
    for (int64_t i = 0; i < std::min(dense, config.layer_count); ++i) config.layers[i].has_mixture = false;
  }
  if (keys.chooses_layers) RETURN_IF_ERROR(ReadMixtureLayers(reader, config));
  return absl::OkStatus();
}

}  // namespace varifocal

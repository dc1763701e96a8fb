// What few types have beside attention and MLP: inputs of each layer, and experts beside an MLP with norms of their own.
#include <cmath>

#include "base/status_macros.h"
#include "base/wide_product.h"
#include "server/model/forward.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

kernels::Slice AllOf(const std::unique_ptr<kernels::Buffer>& buffer) { return {buffer.get(), 0}; }

}  // namespace

// layer_inputs = (norm(projection x / sqrt(M)) + sqrt(P) table[token]) / sqrt(2), x the embedding in the residual.
absl::Status Forward::ComputeLayerInputs(std::span<const int32_t> tokens) {
  kernels::Backend& backend = model_.backend();
  const ModelConfig& config = model_.config();
  const LayerInputWeights& weights = model_.layer_inputs();
  RETURN_IF_ERROR(ToStatus(backend.Norm(*workspace_, NormOf(no_norm_))));
  RETURN_IF_ERROR(ToStatus(backend.Linear(
      *workspace_, {.x = AllOf(normed_), .weight = weights.projection.get(), .out = AllOf(projected_inputs_)})));
  input_tokens_.clear();
  for (const int32_t token : tokens) input_tokens_.push_back(token < config.layer_inputs.vocabulary ? token : 0);
  // norm(y / sqrt(M)) is norm(y) whose epsilon is M times as large.
  const double epsilon = config.blocks.norm_epsilon * config.width;
  return ToStatus(
      backend.LayerInputs(*workspace_, {.projected = AllOf(projected_inputs_),
                                        .norm_weight = AllOf(weights.norm),
                                        .norm_epsilon = static_cast<float>(epsilon),
                                        .table = weights.table.get(),
                                        .tokens = input_tokens_,
                                        .multiplier = static_cast<float>(std::sqrt(config.layer_inputs.width)),
                                        .factor = static_cast<float>(std::sqrt(0.5)),
                                        .layer_count = static_cast<int>(config.layer_count),
                                        .out = AllOf(layer_inputs_)}));
}

// residual = scale * (residual + norm(output (act(gate residual) * input))); `normed_` holds the residual.
absl::Status Forward::AddLayerInput(int64_t index, const NormWeights* next) {
  kernels::Backend& backend = model_.backend();
  const ModelConfig& config = model_.config();
  const LayerPartWeights& parts = model_.layers()[index].parts;
  const int width = static_cast<int>(config.layer_inputs.width);
  const size_t rows = masks_[0].size();
  const kernels::Slice input{layer_inputs_.get(),
                             WideProduct(index, rows, width) * kernels::DTypeBytes(backend.operand_dtype())};
  RETURN_IF_ERROR(ToStatus(backend.Linear(*workspace_, {.x = AllOf(normed_),
                                                        .weight = parts.input_gate.get(),
                                                        .activation = config.blocks.activation,
                                                        .out = AllOf(input_gate_)})));
  RETURN_IF_ERROR(ToStatus(
      backend.ApplyGate(*workspace_, {.gate = AllOf(input_gate_), .columns = width, .sigmoid = false, .x = input})));
  kernels::NormArgs next_norm;
  if (next != nullptr) next_norm = NormOf(*next);
  return ToStatus(
      backend.LinearNormResidual(*workspace_, {.x = input,
                                               .weight = parts.input_output.get(),
                                               .norm_weight = AllOf(parts.input_post_norm),
                                               .norm_epsilon = static_cast<float>(config.blocks.norm_epsilon),
                                               .scale = parts.scale,
                                               .residual = AllOf(residual_),
                                               .next_norm = next == nullptr ? nullptr : &next_norm}));
}

// residual = scale * (residual + norm(norm(mlp(normed)) + norm(experts(norm(residual))))).
absl::Status Forward::AddBesideExperts(const LayerWeights& layer, const NormWeights* next, float scale) {
  kernels::Backend& backend = model_.backend();
  const ModelConfig& config = model_.config();
  const LayerPartWeights& parts = layer.parts;
  const float epsilon = static_cast<float>(config.blocks.norm_epsilon);
  const size_t bytes = WideProduct(masks_[0].size(), config.width) * sizeof(float);
  RETURN_IF_ERROR(ToStatus(backend.LinearGated(*workspace_, {.x = AllOf(normed_),
                                                             .weight = layer.shared_gate_up.get(),
                                                             .activation = config.blocks.activation,
                                                             .terms = layer.activation_terms,
                                                             .out = AllOf(hidden_)})));
  RETURN_IF_ERROR(ToStatus(backend.Clear(*workspace_, AllOf(mlp_sum_), bytes)));
  RETURN_IF_ERROR(ToStatus(backend.LinearNormResidual(*workspace_, {.x = AllOf(hidden_),
                                                                    .weight = layer.shared_down.get(),
                                                                    .norm_weight = AllOf(parts.shared_post_norm),
                                                                    .norm_epsilon = epsilon,
                                                                    .residual = AllOf(mlp_sum_)})));
  const auto norm = [&](const std::unique_ptr<kernels::Buffer>& weight, const std::unique_ptr<kernels::Buffer>& out) {
    return ToStatus(backend.Norm(*workspace_, {.kind = kernels::NormKind::kRms,
                                               .x = AllOf(residual_),
                                               .weight = AllOf(weight),
                                               .epsilon = epsilon,
                                               .out = AllOf(out)}));
  };
  RETURN_IF_ERROR(norm(parts.router_norm, routed_));
  RETURN_IF_ERROR(norm(parts.experts_norm, normed_));
  RETURN_IF_ERROR(ToStatus(backend.Clear(*workspace_, AllOf(expert_sum_), bytes)));
  RETURN_IF_ERROR(ToStatus(backend.Mixture(*workspace_, {.x = AllOf(normed_),
                                                         .router_x = AllOf(routed_),
                                                         .router = AllOf(layer.router),
                                                         .expert_count = static_cast<int>(config.mixture.expert_count),
                                                         .per_token = static_cast<int>(config.mixture.per_token),
                                                         .renormalised = config.mixture.renormalised,
                                                         .expert_scales = AllOf(parts.expert_scales),
                                                         .gate_up = layer.gate_up.weight.get(),
                                                         .down = layer.down.weight.get(),
                                                         .activation = config.blocks.activation,
                                                         .terms = layer.activation_terms,
                                                         .residual = AllOf(expert_sum_)})));
  RETURN_IF_ERROR(ToStatus(backend.NormResidual(*workspace_, {.x = AllOf(expert_sum_),
                                                              .norm_weight = AllOf(parts.experts_post_norm),
                                                              .norm_epsilon = epsilon,
                                                              .residual = AllOf(mlp_sum_)})));
  kernels::NormArgs next_norm;
  if (next != nullptr) next_norm = NormOf(*next);
  return ToStatus(backend.NormResidual(*workspace_, {.x = AllOf(mlp_sum_),
                                                     .norm_weight = AllOf(layer.mlp_post_norm.weight),
                                                     .norm_epsilon = epsilon,
                                                     .scale = scale,
                                                     .residual = AllOf(residual_),
                                                     .next_norm = next == nullptr ? nullptr : &next_norm}));
}

}  // namespace varifocal

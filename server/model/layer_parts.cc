#include "server/model/layer_parts.h"

#include <cmath>
#include <vector>

#include "base/status_macros.h"
#include "server/model/kernel_status.h"

namespace varifocal {

using kernels::WeightUse;

LayerInputStacks TakeLayerInputs(TensorLoader& loader, const LayerInputNames& names, const ModelConfig& config,
                                 const std::string& prefix) {
  LayerInputStacks stacks;
  const auto& [width, vocabulary] = config.layer_inputs;
  if (width == 0) return stacks;
  const auto take = [&](const char* name, std::vector<int64_t> shape, Stack& stack) {
    const TensorView* tensor = loader.Take(absl::StrCat(prefix, name, ".weight"), std::move(shape));
    if (tensor != nullptr) stack.tensors.push_back(tensor);
  };
  take(names.table, {vocabulary, config.layer_count * width}, stacks.table);
  take(names.projection, {config.layer_count * width, config.width}, stacks.projection);
  take(names.norm, {width}, stacks.norm);
  return stacks;
}

LayerPartStacks TakeLayerParts(TensorLoader& loader, const TensorNames& names, const ModelConfig& config,
                               const LayerConfig& layer, const std::string& layer_prefix) {
  LayerPartStacks stacks;
  const auto take = [&](const char* name, std::vector<int64_t> shape, Stack& stack, const char* suffix = ".weight") {
    const TensorView* tensor = loader.Take(absl::StrCat(layer_prefix, name, suffix), std::move(shape));
    if (tensor != nullptr) stack.tensors.push_back(tensor);
  };
  const int64_t width = config.width;
  if (const int64_t inputs = config.layer_inputs.width; inputs > 0) {
    take(names.layer_inputs.gate, {inputs, width}, stacks.input_gate);
    take(names.layer_inputs.output, {width, inputs}, stacks.input_output);
    take(names.layer_inputs.post_norm, {width}, stacks.input_post_norm);
  }
  if (layer.has_mixture && config.mixture.normed_apart) {
    take(names.mixture.router_norm, {width}, stacks.router_norm, "");
    take(names.mixture.norm, {width}, stacks.experts_norm);
    take(names.mixture.post_norm, {width}, stacks.experts_post_norm);
    take(names.mixture.shared_post_norm, {width}, stacks.shared_post_norm);
    take(names.mixture.expert_scale, {config.mixture.expert_count}, stacks.expert_scales, "");
  }
  if (names.layer_scale != nullptr) stacks.scale = loader.TakeNumber(absl::StrCat(layer_prefix, names.layer_scale));
  const bool has_values = layer.has_attention && layer.source_layer < 0;
  if (config.blocks.value_norm && has_values) stacks.value_norm_width = HeadWidth(config, layer);
  if (layer.source_layer >= 0) {  // published files have what transformers does not read
    for (const char* name : {names.key, names.value, names.key_norm}) {
      for (const char* suffix : {".weight", ".bias"}) loader.Skip(absl::StrCat(layer_prefix, name, suffix));
    }
  }
  return stacks;
}

absl::StatusOr<LayerInputWeights> PackLayerInputs(TensorPacker& packer, const LayerInputStacks& stacks) {
  LayerInputWeights weights;
  ASSIGN_OR_RETURN(weights.table, packer.Matrix(stacks.table, WeightUse::kEmbedding));
  ASSIGN_OR_RETURN(weights.projection, packer.Matrix(stacks.projection, WeightUse::kPlain));
  ASSIGN_OR_RETURN(weights.norm, packer.Vector(stacks.norm));
  return weights;
}

absl::StatusOr<LayerPartWeights> PackLayerParts(TensorPacker& packer, const LayerPartStacks& stacks,
                                                const ModelConfig& config, kernels::Backend& backend) {
  LayerPartWeights parts;
  if (stacks.value_norm_width > 0) {
    const std::vector<float> ones(stacks.value_norm_width, 1.0f);
    ASSIGN_OR_RETURN(
        parts.value_norm,
        ToStatusOr(backend.CreateVector(
            {.dtype = kernels::DType::kF32, .data = ones.data(), .rows = 1, .columns = stacks.value_norm_width})));
  }
  ASSIGN_OR_RETURN(parts.input_gate, packer.Matrix(stacks.input_gate, WeightUse::kPlain));
  ASSIGN_OR_RETURN(parts.input_output, packer.Matrix(stacks.input_output, WeightUse::kPlain));
  ASSIGN_OR_RETURN(parts.input_post_norm, packer.Vector(stacks.input_post_norm));
  const float root = static_cast<float>(1 / std::sqrt(config.width));
  ASSIGN_OR_RETURN(parts.router_norm, packer.Vector(stacks.router_norm, 0, {root}));
  ASSIGN_OR_RETURN(parts.experts_norm, packer.Vector(stacks.experts_norm));
  ASSIGN_OR_RETURN(parts.experts_post_norm, packer.Vector(stacks.experts_post_norm));
  ASSIGN_OR_RETURN(parts.shared_post_norm, packer.Vector(stacks.shared_post_norm));
  ASSIGN_OR_RETURN(parts.expert_scales, packer.Vector(stacks.expert_scales));
  if (stacks.scale != nullptr) {
    ASSIGN_OR_RETURN(parts.scale, packer.Number(*stacks.scale));
  }
  return parts;
}

int64_t LayerInputBytes(const TensorPacker& packer, const LayerInputStacks& stacks) {
  return packer.MatrixBytes(stacks.table, WeightUse::kEmbedding) +
         packer.MatrixBytes(stacks.projection, WeightUse::kPlain);
}

int64_t LayerPartBytes(const TensorPacker& packer, const LayerPartStacks& stacks) {
  return packer.MatrixBytes(stacks.input_gate, WeightUse::kPlain) +
         packer.MatrixBytes(stacks.input_output, WeightUse::kPlain);
}

}  // namespace varifocal

// Weights that only some types have beside attention and MLP: inputs of each layer, norms of experts, a scale of the
// residual stream.
//
// Errors: as in tensor_loader.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/model/architectures.h"
#include "server/model/model_config.h"
#include "server/model/tensor_loader.h"

namespace varifocal {

// Of the whole model; null where there are none.
struct LayerInputWeights {
  std::shared_ptr<kernels::Weight> table;       // [V', L P]
  std::shared_ptr<kernels::Weight> projection;  // [L P, M]
  std::unique_ptr<kernels::Buffer> norm;        // [P]
};

// Of a layer; null where there are none.
struct LayerPartWeights {
  std::unique_ptr<kernels::Buffer> value_norm;         // [D], ones
  std::shared_ptr<kernels::Weight> input_gate;         // [P, M]
  std::shared_ptr<kernels::Weight> input_output;       // [M, P]
  std::unique_ptr<kernels::Buffer> input_post_norm;    // [M]
  std::unique_ptr<kernels::Buffer> router_norm;        // [M], as the next ones
  std::unique_ptr<kernels::Buffer> experts_norm;       // of what experts read
  std::unique_ptr<kernels::Buffer> experts_post_norm;  // of their sum
  std::unique_ptr<kernels::Buffer> shared_post_norm;   // of the expert of every row
  std::unique_ptr<kernels::Buffer> expert_scales;      // [E]
  float scale = 1;                                     // of the residual at the layer's end
};

// As stored. Resolved as a whole before packing.
struct LayerInputStacks {
  Stack table, projection, norm;
};
struct LayerPartStacks {
  Stack input_gate, input_output, input_post_norm, router_norm, experts_norm, experts_post_norm, shared_post_norm,
      expert_scales;
  const TensorView* scale = nullptr;
  int64_t value_norm_width = 0;  // 0: there is none
};

LayerInputStacks TakeLayerInputs(TensorLoader& loader, const LayerInputNames& names, const ModelConfig& config,
                                 const std::string& prefix);
LayerPartStacks TakeLayerParts(TensorLoader& loader, const TensorNames& names, const ModelConfig& config,
                               const LayerConfig& layer, const std::string& layer_prefix);

absl::StatusOr<LayerInputWeights> PackLayerInputs(TensorPacker& packer, const LayerInputStacks& stacks);
absl::StatusOr<LayerPartWeights> PackLayerParts(TensorPacker& packer, const LayerPartStacks& stacks,
                                                const ModelConfig& config, kernels::Backend& backend);

// Bytes of the matrices among them.
int64_t LayerInputBytes(const TensorPacker& packer, const LayerInputStacks& stacks);
int64_t LayerPartBytes(const TensorPacker& packer, const LayerPartStacks& stacks);

}  // namespace varifocal

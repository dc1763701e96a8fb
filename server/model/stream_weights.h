// Weights of residual streams and of the product of low rank beside attention (kernels/residual_streams.h).
//
// Errors: as in tensor_loader.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/architectures.h"
#include "server/model/model_config.h"
#include "server/model/tensor_loader.h"

namespace varifocal {

// Of the whole model, of streams 1..; empty where there are none.
struct StreamWeights {
  std::vector<std::shared_ptr<kernels::Weight>> start, end;  // [M, M] each
};

// Of a layer; null where there are none.
struct LayerStreamWeights {
  std::unique_ptr<kernels::Buffer> router_norm;   // [M], times 1 / M
  std::unique_ptr<kernels::Buffer> router;        // [S, M]
  std::unique_ptr<kernels::Buffer> predict;       // [S S, S]
  std::unique_ptr<kernels::Buffer> correct;       // [S, S]
  std::unique_ptr<kernels::Buffer> scale;         // [M]
  std::shared_ptr<kernels::Weight> low_rank_in;   // [R, M]
  std::shared_ptr<kernels::Weight> low_rank_out;  // [M, R]
  std::unique_ptr<kernels::Buffer> low_rank_norm;
};

// As stored. Resolved as a whole before packing.
struct StreamStacks {
  std::vector<Stack> start, end;
};
struct LayerStreamStacks {
  Stack router_norm, router, predict, correct, scale, low_rank_in, low_rank_out, low_rank_norm;
};

StreamStacks TakeStreams(TensorLoader& loader, const StreamNames& names, const ModelConfig& config,
                         const std::string& prefix);
LayerStreamStacks TakeLayerStreams(TensorLoader& loader, const StreamNames& names, const ModelConfig& config,
                                   const std::string& layer_prefix);

absl::StatusOr<StreamWeights> PackStreams(TensorPacker& packer, const StreamStacks& stacks);
absl::StatusOr<LayerStreamWeights> PackLayerStreams(TensorPacker& packer, const LayerStreamStacks& stacks,
                                                    const ModelConfig& config);

// Bytes of the matrices among them.
int64_t StreamBytes(const TensorPacker& packer, const StreamStacks& stacks);
int64_t LayerStreamBytes(const TensorPacker& packer, const LayerStreamStacks& stacks);

// A normal distribution has this share, above 0 and below 1, below its mean plus so many deviations.
double DeviationsBelow(double share);

}  // namespace varifocal

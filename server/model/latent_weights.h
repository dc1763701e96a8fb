// The weights of latent attention (ModelConfig::latent) in the order in which heads are computed.
//
// A head is [rotated | not rotated | zeros]. Keys and values of all heads are one product of [latent | rotated dimensions],
// whose rows for the rotated dimensions of a key repeat them; values are padded with zeros there, and the output's
// columns for them are zeros. So kernels see plain attention of equal widths, and padding is here alone.
//
// Threads: immutable once loaded.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/model/architectures.h"
#include "server/model/model_config.h"
#include "server/model/tensor_loader.h"

namespace varifocal {

// As stored. R: rotated dimensions; C, Q: ranks of the latents.
struct LatentStacks {
  Stack query_down, query_down_bias, query_norm;  // [Q, M], [Q], [Q], where queries have a latent
  Stack down, down_bias, norm;                    // [C + R, M], [C + R], [C]
  Stack queries;                                  // [H D, Q], or [H D, M]
  Stack keys_values;                              // [2 H D, C + R]
  Stack output, output_bias;                      // [M, H D], [M]: those of the layer's attention
};

// Null where there is none.
struct LatentWeights {
  std::shared_ptr<kernels::Weight> query_down, down, queries, keys_values;
  std::unique_ptr<kernels::Buffer> query_down_bias, query_norm, down_bias, norm;
};

// `prefix` is before the names of the layer's tensors.
LatentStacks TakeLatent(TensorLoader& loader, const TensorNames& names, const ModelConfig& config,
                        const std::string& prefix);
absl::StatusOr<LatentWeights> PackLatent(TensorPacker& packer, const LatentStacks& stacks);
// Bytes of the matrices that PackLatent packs.
int64_t LatentBytes(const TensorPacker& packer, const LatentStacks& stacks);

}  // namespace varifocal

// A mixture of experts on the device: routing, the rows of each expert, and grouped products of own kernels.
//
// Nothing waits for the device: a grouped product has blocks for every expert and as many rows as a step may have, and
// those beyond the rows that chose an expert end at once. Long steps are computed kMixtureRows rows at a time, which
// bounds the scratch. A product's bits depend on its row and expert alone, and a row adds its experts in rising order.
//
// Threads: one step at a time.
#pragma once

#include "kernels/cuda/cuda_products.h"

namespace varifocal::kernels::cuda {

// `next`: the norm after it, of all rows; without `out` none.
Error RunMixture(Device& device, CudaProducts& products, CudaWorkspace& workspace, const MixtureArgs& args,
                 const NormParams& next);

}  // namespace varifocal::kernels::cuda

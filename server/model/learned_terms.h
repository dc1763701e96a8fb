// The learned numbers of the activation xielu.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/activation.h"
#include "server/model/tensor_loader.h"

namespace varifocal {

// As stored. The last is where transformers stops subtracting 1 from e^x, which is an approximation by less than its size.
inline constexpr const char* kActivationNames[] = {"alpha_p", "alpha_n", "beta", "eps"};

// The tensors of these names, in their order. UNIMPLEMENTED where the last one is not small.
absl::StatusOr<kernels::ActivationTerms> LearnedTerms(TensorPacker& packer,
                                                      const std::vector<const TensorView*>& tensors);

}  // namespace varifocal

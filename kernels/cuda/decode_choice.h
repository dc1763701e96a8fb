// How decode steps of a few rows are computed: products with their epilogues and norms in one kernel (`fused`) or in several
// (`separate`), and whether kernels ask for the weights of later ones (weights_ahead.h). The bits are the same.
//
// Errors: kInvalidArgument for a text that is none of the forms below.
#pragma once

#include <string>

#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {

// `auto` is separate kernels that ask for nothing until a device has passed the step `decode` of deploy/gpu_check.sh: blocks of
// a fused kernel pass results to each other.
inline constexpr bool kFusedIsDefault = false;

struct DecodeChoice {
  bool fused = kFusedIsDefault, prefetch = kFusedIsDefault;
};

// `text` is auto, fused or separate; each may be followed by :prefetch=off.
Result<DecodeChoice> ChooseDecode(const std::string& text);

}  // namespace varifocal::kernels::cuda

// Which kernel computes prefill products: the library's (or our mma.sync kernel), or `sm90` (matmul_sm90.cu) on devices of compute
// capability 9.0, for the shapes that it supports. Their bits may differ.
//
// `sm90:epilogues=apart` has epilogues as kernels of their own, for comparison: the same bits.
//
// Errors: kInvalidArgument for another text; kUnsupported for sm90 on another device.
#pragma once

#include <string>

#include "kernels/cuda/matmul_sm90_layout.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {

// `auto` takes the library until a device has shown sm90 at 0.98 of its speed in every shape and size of step that the step
// `products` of deploy/gpu_check.sh times.
inline constexpr bool kSm90ProductsAreDefault = false;

struct ProductChoice {
  bool sm90 = false, epilogues = true;

  bool UsesSm90(int64_t outputs, int64_t inner) const { return sm90 && Sm90ProductSupports(outputs, inner); }
  // In the backend's name, before the library's; what bits depend on.
  std::string name() const { return sm90 ? "-sm90" : ""; }
};

// `capability` is 90 for 9.0.
inline Result<ProductChoice> ChooseProducts(const std::string& text, int capability) {
  const bool apart = text == "sm90:epilogues=apart", named = apart || text == "sm90";
  if (text != "auto" && text != "library" && !named) {
    return Error{ErrorCode::kInvalidArgument,
                 "product kernel \"" + text + "\" is none of auto, library, sm90, sm90:epilogues=apart"};
  }
  if (named && capability != 90) {
    return Error{ErrorCode::kUnsupported, "product kernel sm90 needs compute capability 9.0, and the device has " +
                                              std::to_string(capability / 10) + "." + std::to_string(capability % 10)};
  }
  return ProductChoice{named || (text == "auto" && kSm90ProductsAreDefault && capability == 90), !apart};
}

}  // namespace varifocal::kernels::cuda

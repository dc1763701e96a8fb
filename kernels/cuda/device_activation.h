// Activations of one number, as every kernel computes them.
#pragma once

#include <math.h>

#include "kernels/activation.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

VF_DEVICE float Activate(Activation activation, const ActivationTerms& terms, float x) {
  constexpr float kSqrt2OverPi = 0.7978845608028654f, kSqrtHalf = 0.7071067811865476f;
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0f + expf(-x));
    case Activation::kSlopedSilu:
      return x / (1.0f + expf(-terms.a * x));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
    case Activation::kGeluErf:
      return 0.5f * x * erfcf(-x * kSqrtHalf);
    case Activation::kRelu:
      return x < 0 ? 0.0f : x;
    case Activation::kReluSquared:
      return x < 0 ? 0.0f : x * x;
    case Activation::kXielu:
      return (x > 0 ? terms.a * x * x : terms.b * (expm1f(x) - x)) + terms.c * x;
    default:
      return x;
  }
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

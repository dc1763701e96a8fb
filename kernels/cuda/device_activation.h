// Activations of one number, and of a gate with its up, as every kernel computes them.
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

VF_DEVICE float ActivateGate(Activation activation, const ActivationTerms& terms, float gate, float up) {
  if (activation != Activation::kClampedGate) return Activate(activation, terms, gate) * up;
  // Comparisons in this order keep what is not a number.
  const float limit = terms.b, g = gate > limit ? limit : gate;
  const float u = up > limit ? limit : up < -limit ? -limit : up;
  return (u + 1.0f) * g / (1.0f + expf(-terms.a * g));
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

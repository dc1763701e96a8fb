// Activations of single numbers in float64.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/activation.h"

namespace varifocal::kernels {

inline double Activate(Activation activation, const ActivationTerms& terms, double x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588, kSqrtHalf = 0.70710678118654752440;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kSlopedSilu:
      return x / (1.0 + std::exp(-terms.a * x));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x * kSqrtHalf);
    case Activation::kRelu:
      return x < 0 ? 0.0 : x;
    case Activation::kReluSquared:
      return x < 0 ? 0.0 : x * x;
    case Activation::kXielu:
      return (x > 0 ? terms.a * x * x : terms.b * (std::expm1(x) - x)) + terms.c * x;
    case Activation::kClampedGate:
      break;
  }
  VF_CHECK(false, "an activation of one number");
  return x;
}

inline double ActivateGate(Activation activation, const ActivationTerms& terms, double gate, double up) {
  if (activation != Activation::kClampedGate) return Activate(activation, terms, gate) * up;
  const double limit = terms.b, g = std::min(gate, limit), u = std::min(std::max(up, -limit), limit);
  return (u + 1) * g / (1 + std::exp(-terms.a * g));
}

}  // namespace varifocal::kernels

// Activations of hidden units, on the host and on devices.
#pragma once

#include <cstdint>

namespace varifocal::kernels {

enum class Activation : int32_t {
  kNone,
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kGeluErf,   // x/2 (1 + erf(x / sqrt(2)))
  kRelu,
  kReluSquared,  // max(x, 0)^2
  // Learned numbers; p = max(x, 0), n = min(x, 0):
  kXielu,  // a p^2 + b (e^n - 1 - n) + c x
  // Of a gate and its up together, in place of activation(gate) * up; g = min(gate, b), u = up between -b and b:
  kClampedGate,  // (u + 1) g / (1 + e^(-a g))
  kSlopedSilu,   // x / (1 + e^(-a x))
};

struct ActivationTerms {
  float a = 0, b = 0, c = 0;
};

}  // namespace varifocal::kernels

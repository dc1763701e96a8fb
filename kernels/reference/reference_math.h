// The reference's weights and formulas, in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/backend.h"

namespace varifocal::kernels {

class ReferenceWeight final : public Weight {
 public:
  ReferenceWeight(int64_t rows, int64_t columns) : data(rows * columns), rows_(rows), columns_(columns) {}
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return columns_; }
  size_t bytes() const override { return data.size() * sizeof(float); }
  const float* row(int64_t index) const { return data.data() + index * columns_; }
  std::vector<float> data;

 private:
  int64_t rows_, columns_;
};

inline double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

template <typename T>
void Normalize(NormKind kind, const T* x, const float* weight, const float* bias, int64_t count, float epsilon,
               double* out) {
  if (kind == NormKind::kNone) {
    std::copy(x, x + count, out);
    return;
  }
  double mean = 0, squares = 0;
  if (kind == NormKind::kLayer) {
    for (int64_t i = 0; i < count; ++i) mean += static_cast<double>(x[i]) / count;
  }
  for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double inverse = 1.0 / std::sqrt(squares / count + epsilon);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = (x[i] - mean) * inverse * weight[i] + (bias != nullptr ? static_cast<double>(bias[i]) : 0.0);
  }
}

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

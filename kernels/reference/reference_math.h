// The reference's weights and formulas, in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/backend.h"
#include "kernels/scalar_activation.h"

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

}  // namespace varifocal::kernels

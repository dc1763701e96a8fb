// One matrix product and its float64 reference, for the benchmarks.
#pragma once

#include <cmath>

#include "base/wide_product.h"
#include "kernels/conformance/test_harness.h"

namespace varifocal::kernels {

struct ProductShape {
  int rows, inner, outputs;
  double flops() const { return 2.0 * rows * inner * outputs; }
};

class ProductBench {
 public:
  ProductBench(const std::string& isa, DType dtype, int thread_count, const ProductShape& shape)
      : shape_(shape),
        backend_(
            std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .thread_count = thread_count, .cpu_isa = isa}))),
        step_(*backend_, {.model_dim = shape.inner}, shape.rows) {
    weights_ = ProductInput(*backend_, UniformVector(1, WideProduct(shape.inner, shape.outputs)));
    inputs_ = ProductInput(*backend_, UniformVector(2, WideProduct(shape.rows, shape.inner)));
    const HostMatrix matrix = MatrixOf(weights_, shape.outputs, shape.inner);
    weight_ = std::move(*backend_->CreateWeight({&matrix, 1}, WeightUse::kPlain));
    x_ = Upload(*backend_, inputs_);
    out_ = Empty(*backend_, WideProduct(shape.rows, shape.outputs));
  }

  void Run() {
    CheckOk(backend_->Linear(*step_.workspace, {.x = {x_.get(), 0}, .weight = weight_.get(), .out = {out_.get(), 0}}));
  }

  // Of a thousand elements, against sums in float64; within the rounding of an f32 sum.
  bool IsRight() {
    const std::vector<float> got = Download(*backend_, *out_, WideProduct(shape_.rows, shape_.outputs));
    for (size_t i = 0; i < got.size(); i += 1 + got.size() / 1000) {
      double want = 0;
      for (int k = 0; k < shape_.inner; ++k) {
        want += static_cast<double>(inputs_[i / shape_.outputs * shape_.inner + k]) *
                weights_[i % shape_.outputs * shape_.inner + k];
      }
      if (!(std::fabs(want - got[i]) <= 2 * kUnit * shape_.inner * shape_.inner)) return false;
    }
    return true;
  }

 private:
  ProductShape shape_;
  std::unique_ptr<Backend> backend_;
  PlainStep step_;
  std::vector<float> weights_, inputs_;
  std::unique_ptr<Weight> weight_;
  std::unique_ptr<Buffer> x_, out_;
};

}  // namespace varifocal::kernels

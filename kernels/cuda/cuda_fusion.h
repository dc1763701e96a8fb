// A product and what follows it: in one kernel in decode steps of a few rows where fused_choice.h has it, else in two. The bits are
// the same.
//
// Where a norm waits for the product's rows (CudaWorkspace::KeepNorm), the kernel computes it, or it is computed before.
#pragma once

#include "kernels/cuda/cuda_products.h"

namespace varifocal::kernels::cuda {

struct ProductOf {
  const uint16_t* x = nullptr;  // [T, K]
  const CudaWeight* weight = nullptr;
  const float* bias = nullptr;  // optional [N]
};

class CudaFusion {
 public:
  CudaFusion(Device& device, CudaProducts& products) : device_(device), products_(products) {}

  // residual = scale * (residual + multiplier * product), or of its norm; then `next`, where it has an `out`. `next_is_read_once`: by
  // the operation that follows alone.
  Error Residual(CudaWorkspace& workspace, const ProductOf& of, ResidualParams& p, const NormParams& next,
                 bool next_is_read_once);
  // `type` is that of the product in a prefill step.
  Error Finish(CudaWorkspace& workspace, const ProductOf& of, ProductType type, FinishParams& p);
  Error Qkv(CudaWorkspace& workspace, const ProductOf& of, QkvParams& p);

 private:
  static bool MayFuse(const CudaWorkspace& workspace, const ProductOf& of);
  // Queues the product alone and sets `product`, after the norm that waits, if any.
  Error Multiply(CudaWorkspace& workspace, const ProductOf& of, ProductType type, ProductView* product);
  // The product as a part of a kernel that ends it, with the norm that waits for its rows.
  FusedProduct Part(CudaWorkspace& workspace, const ProductOf& of, const ProductView& product, int tiles_per_group);

  Device& device_;
  CudaProducts& products_;
};

}  // namespace varifocal::kernels::cuda

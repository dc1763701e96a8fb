// Products of rows with a weight: selects the kernel, the split of K and the destination.
//
// A prefill product is not split; it uses the kernel sm90 where that was chosen and supports the shape, else the library's
// plan for the weight, or our mma.sync kernel. A decode product always uses an own kernel, with K split by the weight's
// shape only: the number of rows never affects how a row is summed.
//
// Shapes:  x [rows, K] bf16, times outputs [first, first + count) of the weight.
// Threads: one step at a time.
#pragma once

#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/cuda_workspace.h"
#include "kernels/cuda/product_choice.h"

namespace varifocal::kernels::cuda {

// A norm without its rows: x, their number and out are the caller's to set.
inline NormParams NormOf(NormKind kind, const Slice& weight, const Slice& bias, float epsilon, int width) {
  NormParams p;
  if (kind != NormKind::kNone) p.weight = DeviceData<float>(weight, width);
  p.bias = OptionalDeviceData<float>(bias, width);
  p.layer = kind == NormKind::kLayer;
  p.epsilon = epsilon;
  p.width = width;
  return p;
}

class CudaProducts {
 public:
  CudaProducts(Device& device, const ProductChoice& choice) : device_(device), choice_(choice) {}

  // Into the workspace's scratch, for a following kernel.
  Error ToScratch(CudaWorkspace& workspace, const uint16_t* x, int rows, const CudaWeight& weight, ProductType type,
                  ProductView* product);
  // The head rows times the tokens [first, first + count) of `stats`, whose product it sets; `splits` of K in a decode
  // step, else 1.
  Error Head(CudaWorkspace& workspace, int rows, const CudaWeight& weight, int splits, HeadStatsParams* stats);
  // A prefill product in one piece.
  Error InOnePiece(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count,
                   ProductType type, void* out);
  // A prefill product by the kernel sm90, with the epilogue, its numbers and the destination of `with`. Only where TakesSm90.
  Error BySm90(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count,
               const ProductSm90Params& with);
  bool TakesSm90(const CudaWeight& weight, int64_t count, const uint16_t* x) const;
  // Of a step's product of all of a weight: whether BySm90 may have its epilogue.
  bool FusesSm90(const CudaWorkspace& workspace, const CudaWeight& weight, const uint16_t* x) const {
    return choice_.epilogues && workspace.flat.batch.phase == Phase::kPrefill && TakesSm90(weight, weight.rows(), x);
  }
  // Two values per hidden unit: bf16 halves the traffic, and they are rounded to bf16 afterwards anyway. As f32 the bits are those of
  // the kernel sm90 with this epilogue.
  ProductType GatedType(const CudaWeight& weight, const uint16_t* x) const {
    return !choice_.epilogues && TakesSm90(weight, weight.rows(), x) ? ProductType::kF32 : ProductType::kBf16;
  }
  // The library's plan, or -1; a plan expects operands on 16 bytes.
  int PlanFor(const CudaWeight& weight, int64_t outputs, ProductType type, const uint16_t* x);

  // The parts of ToScratch: where the product of the step's rows will be, and its launch.
  Error Place(CudaWorkspace& workspace, const CudaWeight& weight, ProductType type, ProductView* product);
  Error Queue(CudaWorkspace& workspace, const uint16_t* x, const CudaWeight& weight, ProductType type,
              const ProductView& product);
  // A decode product: partial ones, one after the other. The kernel that is queued next reads the weight.
  MatmulParams InSplits(CudaWorkspace& workspace, const uint16_t* x, int rows, const CudaWeight& weight, int64_t first,
                        int64_t count, int splits, void* out);

 private:
  Error QueueSplits(CudaWorkspace& workspace, const MatmulParams& p);

  Device& device_;
  const ProductChoice& choice_;  // of the backend, which sets it when it opens
};

}  // namespace varifocal::kernels::cuda

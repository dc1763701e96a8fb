// Products of rows with a weight: which kernel computes them, where K is cut, and where the result goes.
//
// A prefill product is one piece, by the library's plan for the weight or by our own kernel. A decode product is always
// our own kernel's, with K cut by the shape of the weight alone: the number of rows never decides how a row is summed.
//
// Shapes:  x [rows, K] bf16, times outputs [first, first + count) of the weight.
// Threads: one step at a time.
#pragma once

#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {

class CudaProducts {
 public:
  explicit CudaProducts(Device& device) : device_(device) {}

  // Into the workspace's scratch, for a kernel that follows. `shape_outputs` says how K is cut in a decode step.
  Error ToScratch(CudaWorkspace& workspace, const uint16_t* x, int rows, const CudaWeight& weight, int64_t first,
                  int64_t count, int64_t shape_outputs, ProductType type, ProductView* product);
  // A prefill product in one piece.
  Error InOnePiece(const uint16_t* x, int rows, const CudaWeight& weight, int64_t first, int64_t count,
                   ProductType type, void* out);
  // The library's plan, or -1; a plan expects operands on 16 bytes.
  int PlanFor(const CudaWeight& weight, int64_t outputs, ProductType type, const uint16_t* x);

 private:
  Device& device_;
};

}  // namespace varifocal::kernels::cuda

#include "kernels/cuda/cuda_fusion.h"

#include "kernels/cuda/fused_choice.h"

namespace varifocal::kernels::cuda {

Error CudaFusion::Multiply(CudaWorkspace& workspace, const ProductOf& of, ProductType type, ProductView* product) {
  if (Error error = workspace.RunWaitingNorm(); !error.ok()) return error;
  return products_.Queue(workspace, of.x, *of.weight, type, *product);
}

FusedProduct CudaFusion::Part(CudaWorkspace& workspace, const ProductOf& of, const ProductView& product,
                              int tiles_per_group) {
  FusedProduct part;
  part.product = products_.InSplits(workspace, of.x, workspace.flat.row_count(), *of.weight, 0, of.weight->rows(),
                                    product.split_count, const_cast<void*>(product.data));
  part.norm = workspace.TakeNorm();
  part.arrived = workspace.arrived();
  part.tiles_per_group = tiles_per_group;
  part.ahead = workspace.Ahead(true);
  return part;
}

bool CudaFusion::MayFuse(const CudaWorkspace& workspace, const ProductOf& of) {
  return workspace.fuses() && of.weight->rows() <= int64_t{kCounterCount} * kDecodeColumns;
}

Error CudaFusion::Residual(CudaWorkspace& workspace, const ProductOf& of, ResidualParams& p, const NormParams& next,
                           bool next_is_read_once) {
  if (Error error = products_.Place(workspace, *of.weight, ProductType::kF32, &p.product); !error.ok()) return error;
  p.product.bias = of.bias;
  p.row_count = workspace.flat.row_count();
  const bool has_next = next.out != nullptr;
  // Without a product to do it, the next norm has a kernel of its own beside a fused one.
  const bool waits = has_next && next_is_read_once && Fuses(next);
  if (MayFuse(workspace, of) && Fuses(p) && (!has_next || waits)) {
    if (Error error = workspace.RunWaitingNorm(); !error.ok()) return error;
    const FusedResidualParams fused{Part(workspace, of, p.product, 1), p};
    const Error done = device_.Check(device_.kernels().fused_residual(fused, workspace.stream()), "adding a product");
    if (done.ok() && waits) workspace.KeepNorm(next);
    return done;
  }
  if (Error error = Multiply(workspace, of, ProductType::kF32, &p.product); !error.ok()) return error;
  p.next = next;
  p.ahead = workspace.Ahead(false);
  return device_.Check(device_.kernels().residual(p, workspace.stream()), "adding to the residual");
}

Error CudaFusion::Finish(CudaWorkspace& workspace, const ProductOf& of, ProductType type, FinishParams& p) {
  if (Error error = products_.Place(workspace, *of.weight, type, &p.product); !error.ok()) return error;
  p.product.bias = of.bias;
  p.row_count = workspace.flat.row_count();
  if (MayFuse(workspace, of) && Fuses(p)) {
    if (Error error = workspace.RunOtherNorm(of.x); !error.ok()) return error;
    const FusedFinishParams fused{Part(workspace, of, p.product, 1), p};
    return device_.Check(device_.kernels().fused_finish(fused, workspace.stream()), "starting a product");
  }
  if (Error error = Multiply(workspace, of, type, &p.product); !error.ok()) return error;
  p.ahead = workspace.Ahead(false);
  return device_.Check(device_.kernels().finish(p, workspace.stream()), "finishing a product");
}

Error CudaFusion::Qkv(CudaWorkspace& workspace, const ProductOf& of, QkvParams& p) {
  if (products_.FusesSm90(workspace, *of.weight, of.x) && FusesInSm90(p)) {
    return products_.BySm90(of.x, workspace.flat.row_count(), *of.weight, 0, of.weight->rows(),
                            {.epilogue = ProductEpilogue::kHeads, .bias = of.bias, .heads = p});
  }
  if (Error error = products_.Place(workspace, *of.weight, ProductType::kF32, &p.product); !error.ok()) return error;
  p.product.bias = of.bias;
  if (MayFuse(workspace, of) && Fuses(p)) {
    if (Error error = workspace.RunOtherNorm(of.x); !error.ok()) return error;
    const FusedQkvParams fused{Part(workspace, of, p.product, TilesOfHeads(p.pool.head_dim)), p};
    return device_.Check(device_.kernels().fused_qkv(fused, workspace.stream()), "writing keys and values");
  }
  if (Error error = Multiply(workspace, of, ProductType::kF32, &p.product); !error.ok()) return error;
  p.ahead = workspace.Ahead(false);
  return device_.Check(device_.kernels().qkv(p, workspace.stream()), "writing keys and values");
}

}  // namespace varifocal::kernels::cuda

// Kernels of matrix products (matmul_tile.h).

#include "kernels/cuda/matmul_tile.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

template <typename Out>
using PrefillShape = Matmul<2, 4, 4, 2, 3, Out>;
using WideShape = Matmul<2, 2, 2, 2, 3, float>;

template <typename Out>
VF_KERNEL(256, 1)
MatmulPrefillKernel(const MatmulParams p) {
  MultiplyTile<PrefillShape<Out>, 2, 4, 4, 2, 3, Out>(p);
}
VF_KERNEL(128, 2) MatmulNarrowKernel(const MatmulParams p) { MultiplyTile<NarrowShape, 1, 4, 1, 1, 4, float>(p); }
VF_KERNEL(128, 2) MatmulWideKernel(const MatmulParams p) { MultiplyTile<WideShape, 2, 2, 2, 2, 3, float>(p); }

template <typename Out>
VF_KERNEL(256, 1)
GroupedPrefillKernel(const MatmulParams p) {
  MultiplyTile<PrefillShape<Out>, 2, 4, 4, 2, 3, Out, true>(p);
}
VF_KERNEL(128, 2) GroupedNarrowKernel(const MatmulParams p) {
  MultiplyTile<NarrowShape, 1, 4, 1, 1, 4, float, true>(p);
}
VF_KERNEL(128, 2) GroupedWideKernel(const MatmulParams p) { MultiplyTile<WideShape, 2, 2, 2, 2, 3, float, true>(p); }

template <typename Shape, typename Kernel>
int StartGrouped(Kernel kernel, const MatmulParams& p, LaunchStream stream) {
  return VF_LAUNCH(kernel, CeilDivide(p.outputs, Shape::kColumns), CeilDivide(p.experts.rows_max, Shape::kRows),
                   p.experts.group_count * p.split_count, Shape::kThreads, Shape::kSharedBytes, stream, p);
}

template <typename Shape, typename Kernel>
int Start(Kernel kernel, const MatmulParams& p, LaunchStream stream) {
  return VF_LAUNCH(kernel, CeilDivide(p.outputs, Shape::kColumns), CeilDivide(p.rows, Shape::kRows), p.split_count,
                   Shape::kThreads, Shape::kSharedBytes, stream, p);
}

}  // namespace

int LaunchMatmulPrefill(const MatmulParams& p, ProductType type, LaunchStream stream) {
  return type == ProductType::kF32 ? Start<PrefillShape<float>>(MatmulPrefillKernel<float>, p, stream)
                                   : Start<PrefillShape<uint16_t>>(MatmulPrefillKernel<uint16_t>, p, stream);
}

// Up to 16 rows use the smaller tile and read the weight once; both tiles give the same bits.
int LaunchMatmulDecode(const MatmulParams& p, LaunchStream stream) {
  return p.rows <= NarrowShape::kRows ? Start<NarrowShape>(MatmulNarrowKernel, p, stream)
                                      : Start<WideShape>(MatmulWideKernel, p, stream);
}

int LaunchGroupedPrefill(const MatmulParams& p, ProductType type, LaunchStream stream) {
  return type == ProductType::kF32 ? StartGrouped<PrefillShape<float>>(GroupedPrefillKernel<float>, p, stream)
                                   : StartGrouped<PrefillShape<uint16_t>>(GroupedPrefillKernel<uint16_t>, p, stream);
}

int LaunchGroupedDecode(const MatmulParams& p, LaunchStream stream) {
  return p.experts.rows_max <= NarrowShape::kRows ? StartGrouped<NarrowShape>(GroupedNarrowKernel, p, stream)
                                                  : StartGrouped<WideShape>(GroupedWideKernel, p, stream);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

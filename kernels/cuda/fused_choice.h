// Which kernels read four numbers at a time, which decides the order of sums, and which products have their epilogue in the same
// kernel.
#pragma once

#include "kernels/cuda/params.h"

namespace varifocal::kernels::cuda {

// A product and its bias.
inline bool IsWide(const ProductView& product) {
  return product.columns % 4 == 0 && product.split_stride % 4 == 0 && IsAligned(product.data, 16) &&
         (product.bias == nullptr || IsAligned(product.bias, 16));
}
inline bool IsWide(const NormParams& p) {
  return p.width % 4 == 0 && IsAligned(p.x, 16) && IsAligned(p.out, 8) && IsAligned(p.weight, 16) &&
         IsAligned(p.bias, 16);
}
inline bool IsWide(const ResidualParams& p) {
  return IsWide(p.product) && IsAligned(p.norm_weight, 16) && IsAligned(p.residual, 16);
}
// Columns of a product that a thread of FinishKernel finishes: for one 16-byte store where wide, else two.
VF_HD constexpr int FinishColumns(FinishMode mode, bool wide) {
  if (!wide) return 2;
  return mode == FinishMode::kGated ? 16 : 8;
}
inline bool IsWide(const FinishParams& p) {
  return IsWide(p.product) && IsAligned(p.out, 16) && p.product.columns % FinishColumns(p.mode, true) == 0;
}
inline bool IsWide(const QkvParams& p) {
  bool wide = IsWide(p.product) && p.pool.head_dim % 8 == 0 && IsAligned(p.queries, 16);
  for (const RopeView& rope : p.ropes) {
    wide = wide && rope.rotary_dim % 8 == 0 && IsAligned(rope.cosines, 16) && IsAligned(rope.sines, 16);
  }
  return wide;
}

// An RMS norm that a product computes of its rows: with a weight, four numbers at a time.
inline bool Fuses(const NormParams& p) {
  return p.weight != nullptr && p.bias == nullptr && !p.layer && p.rows == nullptr && IsWide(p);
}
// Epilogues by the last block. A norm of the product's rows or over the width of all heads needs more than a group of columns.
inline bool Fuses(const ResidualParams& p) { return p.norm_weight == nullptr && IsWide(p); }
inline bool Fuses(const FinishParams& p) { return !p.product.is_bf16 && IsWide(p); }
inline bool Fuses(const QkvParams& p) { return !p.norm_over_width && IsWide(p); }

// In the prefill product kernel sm90 (matmul_sm90_layout.h).
inline bool FusesInSm90(const QkvParams& p) {
  const int dim = p.pool.head_dim;
  bool fuses = p.query_norm == nullptr && p.key_norm == nullptr && p.value_norm == nullptr &&
               Sm90ProductWritesHeads(dim) && IsAligned(p.queries, 8);
  for (const RopeView& rope : p.ropes) {
    fuses = fuses && Sm90ProductTurns(dim, rope.rotary_dim) && IsAligned(rope.cosines, 8) && IsAligned(rope.sines, 8);
  }
  return fuses;
}

// Tiles of a product whose columns are whole heads of this many.
VF_HD constexpr int TilesOfHeads(int dim) {
  int columns = dim;
  while (columns % kDecodeColumns != 0) columns += dim;
  return columns / kDecodeColumns;
}

}  // namespace varifocal::kernels::cuda

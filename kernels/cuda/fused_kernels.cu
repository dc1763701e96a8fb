// Decode products of up to kFusedRowsMax rows with their epilogue, and with the norm of their rows: one kernel in place of three.
//
// The last block of a group of columns adds the partial products in the order of the splits and does what the kernels of
// row_kernels.cu and qkv_kernels.cu do, by the same functions: the same bits. A norm's sum has the order of NormKernel, whose 256
// threads are two for each of a block here.

#include "kernels/cuda/epilogues.h"
#include "kernels/cuda/matmul_tile.h"
#include "kernels/cuda/qkv_heads.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kFusedThreads = NarrowShape::kThreads;
constexpr int kFusedWarps = kFusedThreads / 32;
// A thread stages four of a step's columns, of one row.
constexpr int kRowThreads = kProductStepK / 4;
static_assert(kRowThreads * kFusedRowsMax == kFusedThreads && 2 * kFusedThreads == kThreads);

// Operands that are there already.
struct ReadyRows {
  static constexpr bool kForOthers = true, kNormed = false;
  const FusedProduct& p;
  VF_DEVICE const WeightsAhead& ahead() const { return p.ahead; }
};

// Rows of the residual, normed and rounded while they are staged. What is staged next is loaded a step earlier.
struct NormedRows {
  static constexpr bool kForOthers = true, kNormed = true;
  const FusedProduct& p;
  FourFloats number = {}, weight = {};
  float inverse = 0;

  VF_DEVICE const WeightsAhead& ahead() const { return p.ahead; }
  VF_DEVICE int row() const { return ThreadX() / kRowThreads; }
  VF_DEVICE int column(int step) const { return step * kProductStepK + ThreadX() % kRowThreads * 4; }

  // The tile's rows beyond kFusedRowsMax are zeros throughout.
  VF_DEVICE void ClearBelow(int to) const {
    static_assert(NarrowShape::kRows == 2 * kFusedRowsMax && NarrowShape::kColumns == kDecodeColumns);
    const int chunk = ThreadX() % kStepChunks, below = kFusedRowsMax + ThreadX() / kStepChunks;
    if (IsOmitted(DecodeStep::kClearBelowRows)) return;
    if (below < NarrowShape::kRows) StoreAligned(SharedMemory() + to + StagedOffset(below, chunk), FourWords{});
  }
  VF_DEVICE void Begin(int step) {
    VF_SHARED float parts[kFusedRowsMax][kWarps];
    const NormParams& norm = p.norm;
    for (int r = 0; r < p.product.rows; ++r) {
      const float* x = norm.x + WideProduct(r, norm.width);
      VF_UNROLL
      for (int half = 0; half < 2; ++half) {
        float squares = 0;
        for (int i = (ThreadX() + half * kFusedThreads) * 4; i < norm.width; i += kThreads * 4) {
          const FourFloats four = LoadAligned<FourFloats>(x + i);
          VF_UNROLL
          for (int n = 0; n < 4; ++n) squares += four.at[n] * four.at[n];
        }
        squares = WarpSum(squares);
        if (LaneIndex() == 0) parts[r][half * kFusedWarps + WarpIndex()] = squares;
      }
    }
    if (!IsOmitted(DecodeStep::kSyncNorm)) SyncThreads();
    if (row() < p.product.rows) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += parts[row()][InOrder(DecodeStep::kOrderOfNorm, w, kWarps)];
      inverse = InverseOf(sum, norm.width, norm.epsilon);
    }
    Load(step);
  }
  VF_DEVICE void Load(int step) {
    number = weight = {};
    if (row() >= p.product.rows || column(step) >= p.norm.width) return;
    number = LoadAligned<FourFloats>(p.norm.x + WideProduct(row(), p.norm.width) + column(step));
    weight = LoadAligned<FourFloats>(p.norm.weight + column(step));
  }
  VF_DEVICE void Stage(int to, int step, int end) {
    FourFloats four;
    VF_UNROLL
    for (int n = 0; n < 4; ++n) four.at[n] = Normed(number.at[n], 0, inverse, weight.at[n]);
    const int chunk = ThreadX() % kRowThreads / 2;
    StoreAligned(SharedMemory() + to + StagedOffset(row(), chunk) + ThreadX() % 2 * 8, PackFour(four));
    if (step + 1 < end) Load(step + 1);
  }
};

VF_DEVICE int GroupOf(const FusedProduct& p) { return BlockX() / p.tiles_per_group; }

// The partial product of the block; whether it is the last one of its group of columns.
template <typename Rows>
VF_DEVICE bool MultiplyAsLast(const FusedProduct& p) {
  VF_SHARED int is_last;
  MultiplyTile<NarrowShape, 1, 4, 1, 1, 4, float, false, Rows>(p.product, Rows{p});
  const int tiles = CeilDivide(p.product.outputs, NarrowShape::kColumns), first = GroupOf(p) * p.tiles_per_group;
  const bool is_short = tiles - first < p.tiles_per_group && !IsOmitted(DecodeStep::kShortGroup);
  const int count = is_short ? tiles - first : p.tiles_per_group;
  return IsLastBlock(p.arrived + GroupOf(p), count * p.product.split_count, is_last);
}

// Calls finish(row, column) for every `columns`-th column of the block's 64, in each row.
template <typename Finish>
VF_DEVICE void ForColumns(const MatmulParams& p, int columns, const Finish& finish) {
  const int per_row = NarrowShape::kColumns / columns;
  for (int i = ThreadX(); i < p.rows * per_row; i += kFusedThreads) {
    const int column = BlockX() * NarrowShape::kColumns + i % per_row * columns;
    if (column < p.outputs) finish(i / per_row, column);
  }
}

VF_KERNEL(kFusedThreads, 2) FusedResidualKernel(VF_PARAMS(FusedResidualParams) p) {
  if (!MultiplyAsLast<ReadyRows>(p.fused)) return;
  const ResidualParams& end = p.end;
  ForColumns(p.fused.product, 4, [&](int row, int column) {
    float* to = end.residual + WideProduct(row, end.product.columns) + column;
    StoreAligned(to, AddedToResidual(end, LoadAligned<FourFloats>(to), FourBiasedAt(end.product, row, column)));
  });
}

template <typename Rows>
VF_KERNEL(kFusedThreads, 2)
FusedFinishKernel(VF_PARAMS(FusedFinishParams) p) {
  if (!MultiplyAsLast<Rows>(p.fused)) return;
  const FinishParams& end = p.end;
  const int columns = end.product.columns;
  if (end.mode == FinishMode::kGated) {
    ForColumns(p.fused.product, 8, [&](int row, int column) {
      StoreAligned(end.out + WideProduct(row, columns / 2) + column / 2, PackFour(GatedAt(end, row, column)));
    });
  } else {
    ForColumns(p.fused.product, 4, [&](int row, int column) {
      StoreAligned(end.out + WideProduct(row, columns) + column, FinishedAt(end, row, column));
    });
  }
}

template <typename Rows>
VF_KERNEL(kFusedThreads, 2)
FusedQkvKernel(VF_PARAMS(FusedQkvParams) p) {
  constexpr int kPairs = 4;
  if (!MultiplyAsLast<Rows>(p.fused)) return;
  const QkvParams& end = p.end;
  const int dim = end.pool.head_dim, lanes = QkvLanes(dim, kPairs), lane = LaneIndex() % lanes, per_warp = 32 / lanes;
  const int per_group = p.fused.tiles_per_group * NarrowShape::kColumns / dim, first = GroupOf(p.fused) * per_group;
  const int left = end.product.columns / dim - first, heads = left < per_group ? left : per_group;
  const int count = p.fused.product.rows * heads;
  for (int begin = WarpIndex() * per_warp; begin < count; begin += kFusedWarps * per_warp) {
    // Lanes past the last head repeat it and store nothing.
    const int wanted = begin + LaneIndex() / lanes, index = wanted < count ? wanted : count - 1;
    const HeadPlace at = PlaceOfHead(end, index / heads, first + index % heads);
    const float inverse = HasHeadNorms(end) ? InverseOfHead<kPairs>(end, at, lane, lanes) : 1.0f;
    if (wanted < count) WriteHead<kPairs>(end, at, at.norm, inverse, lane, lanes);
  }
}

template <typename Kernel, typename Params>
int StartFused(Kernel kernel, const Params& p, LaunchStream stream) {
  const MatmulParams& product = p.fused.product;
  return VF_LAUNCH(kernel, CeilDivide(product.outputs, NarrowShape::kColumns), 1, product.split_count, kFusedThreads,
                   NarrowShape::kSharedBytes, stream, p);
}

}  // namespace

int LaunchFusedResidual(const FusedResidualParams& p, LaunchStream stream) {
  return StartFused(FusedResidualKernel, p, stream);
}
int LaunchFusedFinish(const FusedFinishParams& p, LaunchStream stream) {
  return p.fused.norm.weight == nullptr ? StartFused(FusedFinishKernel<ReadyRows>, p, stream)
                                        : StartFused(FusedFinishKernel<NormedRows>, p, stream);
}
int LaunchFusedQkv(const FusedQkvParams& p, LaunchStream stream) {
  return p.fused.norm.weight == nullptr ? StartFused(FusedQkvKernel<ReadyRows>, p, stream)
                                        : StartFused(FusedQkvKernel<NormedRows>, p, stream);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

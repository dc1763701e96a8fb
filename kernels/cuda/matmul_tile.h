// Matrix products with mma.sync: x [M, K] bf16 times weight [N, K] transposed, summed in f32.
//
// K is accumulated in steps of 16 from its start (or its split's), one accumulator per element: an element's bits
// depend on neither M nor the tile's shape. The prefill tile is 128 x 128, the decode tile 16 or 64 rows by 64 outputs
// with K split by the weight's shape (schedule.h); partial products are added in order by the kernels that read them.
//
// Shapes:  operands are staged 64 columns of K at a time, rows of 128 bytes swizzled as in page_layout.h.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/last_block.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/prefetch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kStepBytes = kProductStepK * 2;
constexpr int kStepChunks = kProductStepK / kChunkDims;

VF_HD constexpr int StagedOffset(int row, int chunk) {
  return row * kStepBytes + SwizzledChunk(64, row, chunk) * kChunkBytes;
}

struct RowsInOrder {
  VF_DEVICE int operator()(int row) const { return row; }
};
// The rows of a group are listed places, or one place alone.
struct GroupRows {
  const int32_t* list;
  int places_per_x, place;
  VF_DEVICE int Place(int row) const { return list == nullptr ? place : list[row]; }
  VF_DEVICE int operator()(int row) const { return Place(row) / places_per_x; }
};

// Rows [first, first + kRows) of a matrix, columns [k, k + 64), zeros outside; `at` gives the place of a row. `aligned`: rows
// are aligned to 16 bytes and have whole chunks, so asynchronous copies can be used; else elements are read one by one.
template <int kRows, int kThreads, typename At = RowsInOrder>
VF_DEVICE void Stage(int to, const uint16_t* from, int64_t stride, int first, int rows, int k, int inner, bool aligned,
                     const At& row_at = {}) {
  for (int i = ThreadX(); i < kRows * kStepChunks; i += kThreads) {
    const int row = i / kStepChunks, chunk = i % kStepChunks, column = k + chunk * kChunkDims;
    const bool row_inside = first + row < rows;
    const int at = to + StagedOffset(row, chunk);
    const uint16_t* source = from + (row_inside ? row_at(first + row) : 0) * stride;
    if (aligned) {
      const bool inside = row_inside && column < inner;
      CopyAsync(at, inside ? source + column : from, inside);
    } else {
      uint32_t words[4];
      for (int w = 0; w < 4; ++w) {
        const int c = column + 2 * w;
        const uint32_t low = row_inside && c < inner ? source[c] : 0,
                       high = row_inside && c + 1 < inner ? source[c + 1] : 0;
        words[w] = low | high << 16;
      }
      memcpy(SharedMemory() + at, words, sizeof words);
    }
  }
}

template <typename Out>
VF_DEVICE void StoreProduct(Out* out, float value);
template <>
VF_DEVICE void StoreProduct<float>(float* out, float value) {
  *out = value;
}
template <>
VF_DEVICE void StoreProduct<uint16_t>(uint16_t* out, float value) {
  *out = RoundBf16(value);
}

// kWarpsM x kWarpsN warps share a tile of kTilesM 16-row and kTilesN 16-output pieces each.
template <int kWarpsM, int kWarpsN, int kTilesM, int kTilesN, int kStages, typename Out>
struct Matmul {
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kRows = 16 * kWarpsM * kTilesM, kColumns = 16 * kWarpsN * kTilesN;
  static constexpr int kStageBytes = (kRows + kColumns) * kStepBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

// Rows of x as they are in memory, and results that no other block reads; fused_kernels.cu has others.
struct PlainRows {
  static constexpr bool kForOthers = false, kNormed = false;
};

// With kGrouped a block's z is a group (of places with one expert) and a split, and all rows of the group are its rows.
template <typename Shape, int kWarpsM, int kWarpsN, int kTilesM, int kTilesN, int kStages, typename Out,
          bool kGrouped = false, typename Rows = PlainRows>
VF_DEVICE void MultiplyTile(const MatmulParams& p, Rows rows = {}) {
  const int split = kGrouped ? BlockZ() % p.split_count : BlockZ();
  int row_count = p.rows;
  const uint16_t* weight = p.weight;
  GroupRows group{};
  if constexpr (kGrouped) {
    const ExpertRows& experts = p.experts;
    const int index = BlockZ() / p.split_count;
    WaitForPreviousLaunch();  // which wrote the lists
    const bool alone = experts.counts == nullptr;
    row_count = alone ? 1 : experts.counts[index];
    group = {alone ? nullptr : experts.lists + static_cast<int64_t>(index) * experts.list_stride, experts.places_per_x,
             index};
    weight += (alone ? experts.chosen[index] : index) * (p.outputs * p.weight_stride);
    if (BlockY() * Shape::kRows >= row_count) return;
  }
  const int warp = WarpIndex(), lane = LaneIndex();
  const int warp_m = warp / kWarpsN, warp_n = warp % kWarpsN;
  const int first_row = BlockY() * Shape::kRows, first_column = BlockX() * Shape::kColumns;
  const bool x_aligned = p.x_stride % kChunkDims == 0 && reinterpret_cast<uintptr_t>(p.x) % kChunkBytes == 0;
  const int steps = CeilDivide(p.inner, kProductStepK);
  const int begin = split * p.split_steps, end = begin + p.split_steps < steps ? begin + p.split_steps : steps;
  float sums[kTilesM][2 * kTilesN][4];
  VF_UNROLL
  for (int m = 0; m < kTilesM; ++m) {
    VF_UNROLL
    for (int n = 0; n < 2 * kTilesN; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) sums[m][n][i] = IsOmitted(DecodeStep::kClearSums) ? 1 : 0;
    }
  }
  const auto place = [&](int step) { return (step - begin) % kStages * Shape::kStageBytes; };
  const auto stage_x = [&](int step) {
    if (step >= end) return;
    if constexpr (Rows::kNormed) {
      rows.Stage(place(step), step, end);
    } else if constexpr (kGrouped) {
      Stage<Shape::kRows, Shape::kThreads>(place(step), p.x, p.x_stride, first_row, row_count, step * kProductStepK,
                                           p.inner, x_aligned, group);
    } else {
      Stage<Shape::kRows, Shape::kThreads>(place(step), p.x, p.x_stride, first_row, p.rows, step * kProductStepK,
                                           p.inner, x_aligned);
    }
  };
  // The weight's rows are padded to whole chunks with zeros.
  const auto stage_weight = [&](int step) {
    if (step < end) {
      Stage<Shape::kColumns, Shape::kThreads>(place(step) + Shape::kRows * kStepBytes, weight, p.weight_stride,
                                              first_column, p.outputs, step * kProductStepK,
                                              static_cast<int>(p.weight_stride), true);
    }
  };
  // No kernel writes weights: the first ones are copied before the kernel that computes x is complete.
  AllowNextLaunch();
  for (int s = 0; s < kStages - 1; ++s) stage_weight(begin + s);
  const bool asks_late = IsOmitted(DecodeStep::kAskAfterWait);
  if constexpr (Rows::kForOthers) {
    if (!asks_late) PrefetchAhead(rows.ahead());
  }
  if (!kGrouped && !IsOmitted(DecodeStep::kWaitForLaunch)) WaitForPreviousLaunch();
  if constexpr (Rows::kForOthers) {
    if (asks_late) PrefetchAhead(rows.ahead());
  }
  if constexpr (Rows::kNormed) {
    for (int s = 0; s < kStages; ++s) rows.ClearBelow(place(begin + s));
    rows.Begin(begin);
  }
  for (int s = 0; s < kStages - 1; ++s) {
    stage_x(begin + s);
    if (!IsOmitted(DecodeStep::kCommitStages)) CommitCopies();
  }
  for (int step = begin; step < end; ++step) {
    if (!IsOmitted(DecodeStep::kWaitStages)) WaitCopies<kStages - 2>();
    // The copies of all threads are complete, and no thread reads the stage that is filled next.
    if (!IsOmitted(DecodeStep::kSyncStages)) SyncThreads();
    stage_x(step + kStages - 1);
    stage_weight(step + kStages - 1);
    CommitCopies();
    const int left = place(step);
    const int right = left + Shape::kRows * kStepBytes;
    VF_UNROLL
    for (int part = 0; part < kProductStepK / 16; ++part) {
      const int k = InOrder(DecodeStep::kOrderOfInner, part, kProductStepK / 16);
      uint32_t a[kTilesM][4], b[kTilesN][4];
      VF_UNROLL
      for (int m = 0; m < kTilesM; ++m) {
        const FragmentIndex at = LoadAsA(lane);
        LoadMatrices(left + NeighbourOffset(StagedOffset((warp_m * kTilesM + m) * 16 + at.row, 2 * k), at.column),
                     a[m]);
      }
      VF_UNROLL
      for (int n = 0; n < kTilesN; ++n) {
        const FragmentIndex at = LoadAsB(lane);
        LoadMatrices(right + NeighbourOffset(StagedOffset((warp_n * kTilesN + n) * 16 + at.row, 2 * k), at.column),
                     b[n]);
      }
      VF_UNROLL
      for (int m = 0; m < kTilesM; ++m) {
        VF_UNROLL
        for (int n = 0; n < kTilesN; ++n) {
          MultiplyAccumulate(sums[m][2 * n], a[m], b[n][0], b[n][1]);
          MultiplyAccumulate(sums[m][2 * n + 1], a[m], b[n][2], b[n][3]);
        }
      }
    }
  }
  if (!IsOmitted(DecodeStep::kWaitLastStages)) WaitCopies<0>();
  Out* out = static_cast<Out*>(p.out) + WideProduct(split, p.rows, p.outputs);
  VF_UNROLL
  for (int m = 0; m < kTilesM; ++m) {
    VF_UNROLL
    for (int n = 0; n < 2 * kTilesN; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) {
        const FragmentIndex at = FragmentC(lane, i);
        const int row = first_row + (warp_m * kTilesM + m) * 16 + at.row;
        const int column = first_column + warp_n * kTilesN * 16 + n * 8 + at.column;
        if (row < row_count && column < p.outputs) {
          const int out_row = kGrouped ? group.Place(row) : row;
          Out* to = out + WideProduct(out_row, p.outputs) + column;
          if constexpr (Rows::kForOthers) {
            StoreForOthers(to, sums[m][n][i]);
          } else {
            StoreProduct<Out>(to, sums[m][n][i]);
          }
        }
      }
    }
  }
}

using NarrowShape = Matmul<1, 4, 1, 1, 4, float>;

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

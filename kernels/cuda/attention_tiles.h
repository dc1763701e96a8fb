// Building blocks of both attention kernels: staging of queries and key blocks in shared memory, scores and weighted
// values by mma.sync, the online softmax between them.
//
// Scores, weights and outputs stay in registers; weights are rounded to bf16 before the product with the values. Values
// past the last visible key are read as zeros, so stale data in a page cannot affect a result.
//
// Shapes:  tile rows as in schedule.h, tiles as in page_layout.h.
// Source:  Dao 2023, arXiv:2307.08691 (tiles in registers); Milakov and Gimelshein 2018, arXiv:1805.02867 (online
//          softmax).
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_masks.h"
#include "kernels/cuda/fragments.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

inline constexpr float kEmptyLogSumExp = -1e30f;  // backend.h's kEmptyLse, compared by a static_assert
inline constexpr int kAttendThreads = 128;

// What a tile row is: a row of the step, and a query head among those of the KV head.
struct TileRowPlace {
  int row = 0;
  int head = 0;
};
// Of `count` tile rows of a sequence from `first` on, those of rows before GatherView::from.
VF_DEVICE int TileRowsBelow(const AttendParams& p, int sequence, int first, int count) {
  const int rows = p.gather.from - p.step.first_positions[sequence];
  if (rows > (first + count) / p.queries_per_kv) return count;
  const int below = rows * p.queries_per_kv - first;
  return below < 0 ? 0 : below < count ? below : count;
}
// The softmax scale of a row and query head.
VF_DEVICE float ScaleOf(const AttendParams& p, int row, int head) {
  const float scale = p.row_scales == nullptr ? p.scale : p.row_scales[row];
  return p.head_scales == nullptr ? scale : scale * p.head_scales[head];
}

// The attention sink of a query head.
VF_DEVICE float SinkOf(const AttendParams& p, int head) { return p.sinks == nullptr ? p.sink : p.sinks[head]; }

// Queries f32 [tile rows, D] of one KV head, rounded to bf16, into a tile of kTileRows rows; place(index) is where row `index`
// comes from.
template <int kDim, int kTileRows, typename Place>
VF_DEVICE void StageQueries(int to, const AttendParams& p, int kv_head, const Place& place) {
  constexpr int kChunks = kDim / kChunkDims;
  for (int i = ThreadX(); i < kTileRows * kChunks; i += kAttendThreads) {
    const int tile_row = i / kChunks, chunk = i % kChunks;
    const TileRowPlace at = place(tile_row);
    const float* query = p.queries +
                         (WideProduct(at.row, p.query_head_count) + kv_head * p.queries_per_kv + at.head) * kDim +
                         chunk * kChunkDims;
    uint32_t words[4];
    VF_UNROLL
    for (int w = 0; w < 4; ++w) words[w] = PackBf16(query[2 * w], query[2 * w + 1]);
    memcpy(SharedMemory() + to + TileOffset(kDim, kTileRows, tile_row, chunk), words, sizeof words);
  }
}

// Keys and values of one block into a stage; values from `end` on are zeros.
template <int kDim>
VF_DEVICE void StageBlock(int to, const AttendParams& p, const int32_t* table, int kv_head, int block, int end) {
  const int32_t page = table[block * kBlockKeys / kPageTokenCount];
  const int thread_offset = ThreadX() * kChunkBytes, half = block & 1, visible = end - block * kBlockKeys;
  const unsigned char* from =
      p.pool.tiles + (WideProduct(page, p.pool.kv_head_count) + kv_head) * HeadPageBytes(kDim) + thread_offset;
  constexpr int kSteps = kBlockKeys * kDim / kChunkDims / kCopyThreads;
  VF_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    const BlockStep step = BlockStepOf(kDim, half, i);
    const int at = to + i * kCopyThreads * kChunkBytes + thread_offset;
    CopyAsync(at, from + step.page_offset, true);
    CopyAsync(at + TileBytes(kDim, kBlockKeys), from + TileBytes(kDim, kPageTokenCount) + step.page_offset,
              step.row + thread_offset / (step.width * 2) < visible);
  }
}

// Half a page of one tile, 64 tokens of kDim columns, into a stage; `from` is the tile's.
template <int kDim, typename Valid>
VF_DEVICE void StageHalf(int to, const unsigned char* from, int half, const Valid& is_valid) {
  const int thread_offset = ThreadX() * kChunkBytes;
  constexpr int kSteps = kBlockKeys * kDim / kChunkDims / kCopyThreads;
  VF_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    const BlockStep step = BlockStepOf(kDim, half, i);
    CopyAsync(to + i * kCopyThreads * kChunkBytes + thread_offset, from + step.page_offset + thread_offset,
              is_valid(step.row + thread_offset / (step.width * 2)));
  }
}
// A page of one KV head.
template <int kDim>
VF_DEVICE const unsigned char* HeadPage(const AttendParams& p, const int32_t* table, int kv_head, int block) {
  const int32_t page = table[block * kBlockKeys / kPageTokenCount];
  return p.pool.tiles + (WideProduct(page, p.pool.kv_head_count) + kv_head) * HeadPageBytes(kDim);
}
// The keys of a block of a wide head; and a part of its values, whole panels, so that they are a tile of their own. Values from
// `end` on are zeros.
template <int kDim>
VF_DEVICE void StageWideKeys(int to, const AttendParams& p, const int32_t* table, int kv_head, int block) {
  StageHalf<kDim>(to, HeadPage<kDim>(p, table, kv_head, block), block & 1, [](int) { return true; });
}
template <int kDim>
VF_DEVICE void StageWideValues(int to, const AttendParams& p, const int32_t* table, int kv_head, int part, int block,
                               int end) {
  constexpr int kValues = ValueDims(kDim);
  static_assert(kValues % 64 == 0);
  const int visible = end - block * kBlockKeys;
  StageHalf<kValues>(to,
                     HeadPage<kDim>(p, table, kv_head, block) + TileBytes(kDim, kPageTokenCount) +
                         part * TileBytes(kValues, kPageTokenCount),
                     block & 1, [&](int row) { return row < visible; });
}

template <int kTiles, int kColumns>
VF_DEVICE void Clear(float (&tile)[kTiles][kColumns][4]) {
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) tile[m][n][i] = 0;
    }
  }
}

// Scores of kTiles row tiles of 16 tile rows against keys [first_key, first_key + 8 kColumns) of a stage.
template <int kDim, int kTileRows, int kTiles, int kColumns>
VF_DEVICE void Scores(int queries, int first_tile_row, int keys, int first_key, float (&scores)[kTiles][kColumns][4]) {
  const int lane = LaneIndex();
  Clear(scores);
  const FragmentIndex as_a = LoadAsA(lane), as_b = LoadAsB(lane);
  VF_UNROLL
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t a[kTiles][4];
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      LoadMatrices(queries + NeighbourOffset(TileOffset(kDim, kTileRows, first_tile_row + m * 16 + as_a.row, 2 * k),
                                             as_a.column),
                   a[m]);
    }
    VF_UNROLL
    for (int n = 0; n < kColumns / 2; ++n) {
      uint32_t b[4];
      LoadMatrices(
          keys + NeighbourOffset(TileOffset(kDim, kBlockKeys, first_key + n * 16 + as_b.row, 2 * k), as_b.column), b);
      VF_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAccumulate(scores[m][2 * n], a[m], b[0], b[1]);
        MultiplyAccumulate(scores[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// The hyperbolic tangent with two special functions, for few registers: below 0.1 its series, whose next term is 5e-8 of it,
// else 1 - 2 / (1 + e^2x), whose error is some 1e-7.
VF_DEVICE float Tanh(float x) {
  const float square = x * x;
  if (square < 0.01f) return x * (1.0f + square * (square * (2.0f / 15.0f) - 1.0f / 3.0f));
  return 1.0f - 2.0f * Reciprocal(1.0f + Exp2(x * (2.0f * kLog2E)));
}

// Caps scores that are not scaled yet: x with x c = s log2(e) for the scaled score s, where exponent(m, r) is the row's
// c. A scale so small that nothing reaches the cap is left out: its inverse is not finite.
template <int kTiles, int kColumns, typename Exponent>
VF_DEVICE void CapScores(float soft_cap, const Exponent& exponent, float (&scores)[kTiles][kColumns][4]) {
  if (!(soft_cap > 0)) return;
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float by = exponent(m, r) / (soft_cap * kLog2E);
      if (by < 1e-30f) continue;
      const float inverse = 1.0f / by;
      VF_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        VF_UNROLL
        for (int i = 2 * r; i < 2 * r + 2; ++i) scores[m][n][i] = inverse * Tanh(scores[m][n][i] * by);
      }
    }
  }
}

// State of a thread's two rows (g and g + 8) of a row tile.
struct RowPair {
  float largest[2];  // unscaled
  float sum[2];      // this thread's share
  float rescale[2];  // of the sums so far, at the last block
};

// Turns scores into weights in place and rescales the sums to the new maximum. exponent(r) is the row's c.
template <int kColumns, typename Exponent>
VF_DEVICE void OnlineSoftmaxStep(float (&scores)[kColumns][4], const Exponent& exponent, RowPair& rows) {
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    float largest = rows.largest[r];
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    largest = fmaxf(largest, ShuffleXor(largest, 1));
    largest = fmaxf(largest, ShuffleXor(largest, 2));
    const float c = exponent(r), rescale = Rescale(rows.largest[r], largest, c);
    const Reference reference = ReferenceOf(largest, c);
    if (IsSharp(c)) {
      VF_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        scores[n][2 * r] -= reference.before;
        scores[n][2 * r + 1] -= reference.before;
      }
    }
    float sum = rows.sum[r] * rescale;
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      VF_UNROLL
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[n][i] = Exp2(FusedMultiplyAdd(scores[n][i], c, -reference.after));
        sum += scores[n][i];
      }
    }
    rows.largest[r] = largest;
    rows.sum[r] = sum;
    rows.rescale[r] = rescale;
  }
}

// Rescales the sums of values to the new maxima. Most blocks of a long row have no larger score, and then the factors
// are exactly 1.
template <int kTiles, int kOutputs>
VF_DEVICE void RescaleOutputs(const RowPair (&rows)[kTiles], float (&outputs)[kTiles][kOutputs][4]) {
  bool same = true;
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) same = same && rows[m].rescale[0] == 1.0f && rows[m].rescale[1] == 1.0f;
  if (same) return;
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) outputs[m][n][i] *= rows[m].rescale[i / 2];
    }
  }
}

// Weights as an operand: two neighbouring score tiles are, register by register, the A operand of 16 keys.
template <int kColumns>
VF_DEVICE void Pack(const float (&weights)[kColumns][4], uint32_t (&packed)[kColumns / 2][4]) {
  VF_UNROLL
  for (int k = 0; k < kColumns / 2; ++k) {
    VF_UNROLL
    for (int w = 0; w < 4; ++w) {
      const float(&tile)[4] = weights[2 * k + w / 2];
      packed[k][w] = PackBf16(tile[(w % 2) * 2], tile[(w % 2) * 2 + 1]);
    }
  }
}

// outputs += weights (keys [first_key, ..) of a stage) x values.
template <int kDim, int kTiles, int kSteps, int kOutputs>
VF_DEVICE void AccumulateValues(const uint32_t (&weights)[kTiles][kSteps][4], int values, int first_key,
                                float (&outputs)[kTiles][kOutputs][4]) {
  static_assert(kOutputs * 8 == kDim);
  const FragmentIndex as_b = LoadAsBTransposed(LaneIndex());
  VF_UNROLL
  for (int k = 0; k < kSteps; ++k) {
    VF_UNROLL
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      LoadMatricesTransposed(
          values + NeighbourOffset(TileOffset(kDim, kBlockKeys, first_key + k * 16 + as_b.row, 2 * n), as_b.column), b);
      VF_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAccumulate(outputs[m][2 * n], weights[m][k], b[0], b[1]);
        MultiplyAccumulate(outputs[m][2 * n + 1], weights[m][k], b[2], b[3]);
      }
    }
  }
}

// Sum over the four threads that share a tile row.
VF_DEVICE float QuadSum(float value) {
  value += ShuffleXor(value, 1);
  return value + ShuffleXor(value, 2);
}

// Numbers of a row that a thread of a merging warp has: every 32nd from its lane on.
inline constexpr int kMergedNumbers = kValueDimsMax / 32;

// Writes the merged result of one row and query head, or a part of it, a warp together: sums of weighted values [D], of which
// the thread has kMergedNumbers, and largest and sum those of the row's scores and weights. `lane` and `dim` are the variables
// that the merge compared: nvcc then keeps its comparisons, where copies take 15 registers more.
template <int kParts>
VF_DEVICE void StoreMergedRow(const AttendParams& p, int row, int head, const int& lane, const int& dim,
                              const float (&values)[kMergedNumbers], float largest, float sum, float c) {
  const float sink = SinkOf(p, head / kParts);
  sum += SinkWeight(sink, largest, c);
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  const size_t at = WideProduct(row, p.query_head_count * kParts) + head;
  VF_UNROLL
  for (int n = 0; n < kMergedNumbers; ++n) {
    if (lane + 32 * n < dim) p.out[at * dim + lane + 32 * n] = RoundBf16(values[n] * inverse);
  }
  if (p.log_sum_exp != nullptr && lane == 0 && head % kParts == 0) {
    p.log_sum_exp[at / kParts] = LogSumExp(largest, sum, c, sink, kEmptyLogSumExp);
  }
}

}  // namespace

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

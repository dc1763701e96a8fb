// The `mma` row of the attention table: prefill over query tiles, split decode and its merge, with mma.sync.
//
// Prefill: a block owns PrefillLanes(D) query lanes of one KV head and walks the 64-key blocks its lanes see, K and V
// staged two deep with one barrier a block. Scores, weights and outputs stay in registers; weights are rounded to bf16
// where they meet their values. Decode: a block owns up to 16 lanes of one row and 1,024 keys; each warp takes 16 keys
// of every 64-key block, and the four are merged in order. Keys a lane does not see weigh exactly nothing; values past
// the last visible key are read as zeros, so what another sequence left in a page cannot reach a result.
//
// Shapes:  lanes as in schedule.h, tiles as in page_layout.h.
// Source:  Dao 2023, arXiv:2307.08691 (tiles in registers); Milakov and Gimelshein 2018, arXiv:1805.02867 (online
//          softmax); split decode after Dao et al., "Flash-Decoding", 2023.
#pragma once

#include "kernels/cuda/attention_math.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

inline constexpr float kEmptyLogSumExp = -1e30f;  // backend.h's kEmptyLse, checked where both are seen
inline constexpr int kAttendThreads = 128;

// Lane `index` of a tile: its row of the step and its query head within the group.
struct LanePlace {
  int row = 0;
  int head = 0;
};
VF_DEVICE LanePlace PlaceOf(int first_row, int lane, int group) { return {first_row + lane / group, lane % group}; }

// Queries f32 [lanes, D] of one KV head, rounded to bf16, into a tile of kLanes rows. Lanes past the last repeat it.
template <int kDim, int kLanes>
VF_DEVICE void StageQueries(int to, const AttendParams& p, int first_row, int first_lane, int lane_count, int kv_head) {
  constexpr int kChunks = kDim / kChunkDims;
  for (int i = ThreadX(); i < kLanes * kChunks; i += kAttendThreads) {
    const int lane = i / kChunks, chunk = i % kChunks;
    const LanePlace at = PlaceOf(first_row, first_lane + (lane < lane_count ? lane : lane_count - 1), p.group);
    const float* query = p.queries +
                         (static_cast<size_t>(at.row) * p.query_head_count + kv_head * p.group + at.head) * kDim +
                         chunk * kChunkDims;
    uint32_t words[4];
    VF_UNROLL
    for (int w = 0; w < 4; ++w) words[w] = PackBf16(query[2 * w], query[2 * w + 1]);
    memcpy(SharedMemory() + to + TileOffset(kDim, kLanes, lane, chunk), words, sizeof words);
  }
}

// Keys and values of one block into a stage; values from `end` on are zeros.
template <int kDim>
VF_DEVICE void StageBlock(int to, const AttendParams& p, const int32_t* table, int kv_head, int block, int end) {
  const int32_t page = table[block * kBlockKeys / kPageTokenCount];
  const int mine = ThreadX() * kChunkBytes, half = block & 1, visible = end - block * kBlockKeys;
  const unsigned char* from =
      p.pool.tiles + (static_cast<size_t>(page) * p.pool.kv_head_count + kv_head) * HeadPageBytes(kDim) + mine;
  constexpr int kSteps = kBlockKeys * kDim / kChunkDims / kCopyThreads;
  VF_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    const BlockStep step = BlockStepOf(kDim, half, i);
    const int at = to + i * kCopyThreads * kChunkBytes + mine;
    CopyAsync(at, from + step.page_offset, true);
    CopyAsync(at + TileBytes(kDim, kBlockKeys), from + TileBytes(kDim, kPageTokenCount) + step.page_offset,
              step.row + mine / (step.width * 2) < visible);
  }
}

// Scores of kTiles row tiles of 16 lanes against keys [first_key, first_key + 8 kColumns) of a stage.
template <int kDim, int kLanes, int kTiles, int kColumns>
VF_DEVICE void Scores(int queries, int first_lane, int keys, int first_key, float (&scores)[kTiles][kColumns][4]) {
  const int lane = LaneIndex();
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
    }
  }
  const FragmentIndex as_a = LoadAsA(lane), as_b = LoadAsB(lane);
  VF_UNROLL
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t a[kTiles][4];
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      LoadMatrices(
          queries + NeighbourOffset(TileOffset(kDim, kLanes, first_lane + m * 16 + as_a.row, 2 * k), as_a.column),
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

// What a thread keeps of its two rows (g and g + 8) of a row tile.
struct RowPair {
  float largest[2];  // unscaled
  float sum[2];      // this thread's share
};

// Turns scores into weights in place and brings sums and outputs to the new reference. exponent(r) is the
// row's c.
template <int kColumns, int kOutputs, typename Exponent>
VF_DEVICE void Soften(float (&scores)[kColumns][4], const Exponent& exponent, RowPair& rows,
                      float (&outputs)[kOutputs][4]) {
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
    VF_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      outputs[n][2 * r] *= rescale;
      outputs[n][2 * r + 1] *= rescale;
    }
  }
}

// outputs += weights (keys [first_key, ..) of a stage) x values.
template <int kDim, int kTiles, int kColumns, int kOutputs>
VF_DEVICE void Weigh(const float (&weights)[kTiles][kColumns][4], int values, int first_key,
                     float (&outputs)[kTiles][kOutputs][4]) {
  static_assert(kOutputs * 8 == kDim);
  const FragmentIndex as_b = LoadAsBTransposed(LaneIndex());
  VF_UNROLL
  for (int k = 0; k < kColumns / 2; ++k) {
    // Two neighbouring score tiles are, register by register, the A operand of 16 keys.
    uint32_t a[kTiles][4];
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      VF_UNROLL
      for (int w = 0; w < 4; ++w) {
        const float(&tile)[4] = weights[m][2 * k + w / 2];
        a[m][w] = PackBf16(tile[(w % 2) * 2], tile[(w % 2) * 2 + 1]);
      }
    }
    VF_UNROLL
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      LoadMatricesTransposed(
          values + NeighbourOffset(TileOffset(kDim, kBlockKeys, first_key + k * 16 + as_b.row, 2 * n), as_b.column), b);
      VF_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAccumulate(outputs[m][2 * n], a[m], b[0], b[1]);
        MultiplyAccumulate(outputs[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
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

VF_DEVICE float QuadSum(float value) {
  value += ShuffleXor(value, 1);
  return value + ShuffleXor(value, 2);
}

template <int kDim>
VF_KERNEL(kAttendThreads, 1)
AttendPrefillKernel(const AttendParams p) {
  constexpr int kTiles = RowTilesPerWarp(kDim), kLanes = PrefillLanes(kDim), kColumns = kBlockKeys / 8;
  constexpr int kOutputs = kDim / 8;
  VF_SHARED KeyInterval intervals[kLanes];
  VF_SHARED float exponents[kLanes];
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kLanes);
  const QueryTile tile = p.tiles[BlockX()];
  const int kv_head = BlockY(), warp = WarpIndex(), lane = LaneIndex();
  const int first_row = p.step.first_rows[tile.sequence];
  const int32_t* table = p.step.page_tables + p.pool.table_starts[tile.sequence];
  const int first_lane = warp * 16 * kTiles;
  const KeyInterval head = p.mask[first_row + tile.first_lane / p.group];
  const KeyInterval tail = p.mask[first_row + (tile.first_lane + tile.lane_count - 1) / p.group];
  const BlockRange blocks = BlocksOf(head.begin, tail.end);

  if (blocks.first < blocks.last) StageBlock<kDim>(kStage, p, table, kv_head, blocks.first, tail.end);
  CommitCopies();
  StageQueries<kDim, kLanes>(kQueries, p, first_row, tile.first_lane, tile.lane_count, kv_head);
  // Lanes past the last one compute what it does and store nothing.
  const auto place = [&](int index) {
    return PlaceOf(first_row, tile.first_lane + (index < tile.lane_count ? index : tile.lane_count - 1), p.group);
  };
  for (int index = ThreadX(); index < kLanes; index += kAttendThreads) {
    const int row = place(index).row;
    intervals[index] = p.mask[row];
    exponents[index] = Sharpness(p.row_scales == nullptr ? p.scale : p.row_scales[row]);
  }
  SyncThreads();

  const int my_lane = first_lane + lane / 4;
  RowPair rows[kTiles];
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      rows[m].largest[r] = -INFINITY;
      rows[m].sum[r] = 0;
    }
  }
  float outputs[kTiles][kOutputs][4];
  Clear(outputs);

  for (int block = blocks.first; block < blocks.last; ++block) {
    const int slot = (block - blocks.first) % 2;
    WaitCopies<0>();
    // This block has landed for everybody, and nobody reads the other stage any more.
    SyncThreads();
    if (block + 1 < blocks.last) {
      StageBlock<kDim>(kStage + (1 - slot) * StageBytes(kDim), p, table, kv_head, block + 1, intervals[kLanes - 1].end);
    }
    CommitCopies();
    const int keys = kStage + slot * StageBytes(kDim);
    float scores[kTiles][kColumns][4];
    Scores<kDim, kLanes>(kQueries, first_lane, keys, 0, scores);
    // Intervals never decrease, so the tile's first and last rows speak for those between.
    if (!BlockIsFull(block, intervals[kLanes - 1].begin, intervals[0].end)) {
      VF_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        VF_UNROLL
        for (int r = 0; r < 2; ++r) {
          const KeyInterval seen = intervals[my_lane + m * 16 + 8 * r];
          VF_UNROLL
          for (int n = 0; n < kColumns; ++n) {
            VF_UNROLL
            for (int i = 0; i < 2; ++i) {
              const int key = block * kBlockKeys + n * 8 + (lane % 4) * 2 + i;
              if (key < seen.begin || key >= seen.end) scores[m][n][2 * r + i] = -INFINITY;
            }
          }
        }
      }
    }
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      Soften(
          scores[m], [&](int r) { return exponents[my_lane + m * 16 + 8 * r]; }, rows[m], outputs[m]);
    }
    Weigh<kDim>(scores, keys + TileBytes(kDim, kBlockKeys), 0, outputs);
  }
  WaitCopies<0>();

  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float sum = QuadSum(rows[m].sum[r]), inverse = sum > 0 ? 1.0f / sum : 0.0f;
      if (my_lane + m * 16 + 8 * r >= tile.lane_count) continue;
      const LanePlace at = place(my_lane + m * 16 + 8 * r);
      const size_t row = static_cast<size_t>(at.row) * p.query_head_count + kv_head * p.group + at.head;
      uint16_t* out = p.out + row * kDim + (lane % 4) * 2;
      VF_UNROLL
      for (int n = 0; n < kOutputs; ++n) {
        const uint32_t word = PackBf16(outputs[m][n][2 * r] * inverse, outputs[m][n][2 * r + 1] * inverse);
        memcpy(out + n * 8, &word, sizeof word);
      }
      if (p.log_sum_exp != nullptr && lane % 4 == 0) {
        p.log_sum_exp[row] = LogSumExp(rows[m].largest[r], sum, exponents[my_lane + m * 16 + 8 * r], kEmptyLogSumExp);
      }
    }
  }
}

// Where a split's result of one query head lies: D sums, the largest score, the sum of weights.
VF_DEVICE float* PartialOf(const AttendParams& p, int dim, int row, int head, int split) {
  return p.partials + ((static_cast<size_t>(row) * p.query_head_count + head) * p.split_count_max + split) * (dim + 2);
}

template <int kDim>
VF_KERNEL(kAttendThreads, 1)
AttendDecodeKernel(const AttendParams p) {
  constexpr int kOutputs = kDim / 8, kStages = DecodeStages(kDim);
  constexpr int kQueries = 0, kStage = TileBytes(kDim, kDecodeLanes);
  const DecodeItem item = p.items[BlockX()];
  const int kv_head = BlockY(), first_lane = BlockZ() * kDecodeLanes;
  const int warp = WarpIndex(), lane = LaneIndex();
  const int lane_count = p.group - first_lane < kDecodeLanes ? p.group - first_lane : kDecodeLanes;
  const int32_t* table = p.step.page_tables + p.pool.table_starts[p.step.row_sequences[item.row]];
  const KeyInterval seen = p.mask[item.row];
  const int split_begin = item.split * kSplitKeys;
  const BlockRange blocks = BlocksOf(seen.begin > split_begin ? seen.begin : split_begin,
                                     seen.end < split_begin + kSplitKeys ? seen.end : split_begin + kSplitKeys);
  const auto stage = [&](int block) {
    if (block < blocks.last) {
      StageBlock<kDim>(kStage + (block - blocks.first) % kStages * StageBytes(kDim), p, table, kv_head, block,
                       seen.end);
    }
    CommitCopies();
  };
  for (int s = 0; s < kStages - 1; ++s) stage(blocks.first + s);
  StageQueries<kDim, kDecodeLanes>(kQueries, p, item.row, first_lane, lane_count, kv_head);

  // All lanes are one row of the step.
  const float c = Sharpness(p.row_scales == nullptr ? p.scale : p.row_scales[item.row]);
  RowPair rows;
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    rows.largest[r] = -INFINITY;
    rows.sum[r] = 0;
  }
  float outputs[1][kOutputs][4];
  Clear(outputs);
  for (int block = blocks.first; block < blocks.last; ++block) {
    WaitCopies<kStages - 2>();
    SyncThreads();
    stage(block + kStages - 1);
    const int keys = kStage + (block - blocks.first) % kStages * StageBytes(kDim);
    float scores[1][2][4];
    Scores<kDim, kDecodeLanes>(kQueries, 0, keys, warp * 16, scores);
    VF_UNROLL
    for (int n = 0; n < 2; ++n) {
      VF_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int key = block * kBlockKeys + warp * 16 + n * 8 + (lane % 4) * 2 + i % 2;
        if (key < seen.begin || key >= seen.end) scores[0][n][i] = -INFINITY;
      }
    }
    Soften(
        scores[0], [c](int) { return c; }, rows, outputs[0]);
    Weigh<kDim>(scores, keys + TileBytes(kDim, kBlockKeys), warp * 16, outputs);
  }
  WaitCopies<0>();
  // The stages become the warps' results: [warp][lane][D + 2].
  SyncThreads();
  float* results = reinterpret_cast<float*>(SharedMemory() + kStage);
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float sum = QuadSum(rows.sum[r]);
    float* result = results + (warp * kDecodeLanes + lane / 4 + 8 * r) * (kDim + 2);
    VF_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      result[n * 8 + (lane % 4) * 2] = outputs[0][n][2 * r];
      result[n * 8 + (lane % 4) * 2 + 1] = outputs[0][n][2 * r + 1];
    }
    if (lane % 4 == 0) {
      result[kDim] = rows.largest[r];
      result[kDim + 1] = sum;
    }
  }
  SyncThreads();
  // A warp merges every fourth lane, the four parts in order.
  for (int index = warp; index < lane_count; index += 4) {
    const auto part = [&](int w) { return results + (w * kDecodeLanes + index) * (kDim + 2); };
    float largest = part(0)[kDim];
    for (int w = 1; w < 4; ++w) largest = fmaxf(largest, part(w)[kDim]);
    float factors[4], sum = 0;
    VF_UNROLL
    for (int w = 0; w < 4; ++w) {
      factors[w] = Rescale(part(w)[kDim], largest, c);
      sum += part(w)[kDim + 1] * factors[w];
    }
    float* out = PartialOf(p, kDim, item.row, kv_head * p.group + first_lane + index, item.split);
    for (int i = lane; i < kDim; i += 32) {
      float value = 0;
      VF_UNROLL
      for (int w = 0; w < 4; ++w) value += part(w)[i] * factors[w];
      out[i] = value;
    }
    if (lane == 0) {
      out[kDim] = largest;
      out[kDim + 1] = sum;
    }
  }
}

// One block a row, one warp a query head at a time: the splits in index order.
VF_KERNEL(kAttendThreads, 1) MergeSplitsKernel(const AttendParams p) {
  const int row = BlockX(), warp = WarpIndex(), lane = LaneIndex(), dim = p.pool.head_dim;
  const KeyInterval seen = p.mask[row];
  const BlockRange splits = SplitsOf(seen.begin, seen.end);
  const float c = Sharpness(p.row_scales == nullptr ? p.scale : p.row_scales[row]);
  for (int head = warp; head < p.query_head_count; head += kAttendThreads / 32) {
    float largest = -INFINITY, sum = 0;
    for (int split = splits.first; split < splits.last; ++split) {
      largest = fmaxf(largest, PartialOf(p, dim, row, head, split)[dim]);
    }
    for (int split = splits.first; split < splits.last; ++split) {
      const float* part = PartialOf(p, dim, row, head, split);
      sum += part[dim + 1] * Rescale(part[dim], largest, c);
    }
    const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
    const size_t at = static_cast<size_t>(row) * p.query_head_count + head;
    for (int i = lane; i < dim; i += 32) {
      float value = 0;
      for (int split = splits.first; split < splits.last; ++split) {
        const float* part = PartialOf(p, dim, row, head, split);
        value += part[i] * Rescale(part[dim], largest, c);
      }
      p.out[at * dim + i] = RoundBf16(value * inverse);
    }
    if (p.log_sum_exp != nullptr && lane == 0) p.log_sum_exp[at] = LogSumExp(largest, sum, c, kEmptyLogSumExp);
  }
}

}  // namespace

template <int kDim>
int StartPrefill(const AttendParams& p, LaunchStream stream) {
  return VF_LAUNCH(AttendPrefillKernel<kDim>, p.item_count, p.pool.kv_head_count, 1, kAttendThreads,
                   PrefillSharedBytes(kDim), stream, p);
}
template <int kDim>
int StartDecode(const AttendParams& p, LaunchStream stream) {
  const int splits = VF_LAUNCH(AttendDecodeKernel<kDim>, p.item_count, p.pool.kv_head_count,
                               CeilDivide(p.group, kDecodeLanes), kAttendThreads, DecodeSharedBytes(kDim), stream, p);
  if (splits != 0) return splits;
  return VF_LAUNCH(MergeSplitsKernel, p.step.row_count, 1, 1, kAttendThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// A consumer of the sm90 attention kernel (attention_sm90.h): 64 rows of a tile, scores, weights and outputs in registers.
#pragma once

#include "kernels/cuda/attention_sm90_work.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// scores = queries [64, D] keys^T, one product a step of 16 dims.
template <int kDim, int kKeys>
VF_DEVICE void StartScores(int queries, int keys, float (&scores)[kKeys / 8][4]) {
  const uint32_t from = SharedAddress(queries) / 16, to = SharedAddress(keys) / 16;
  VF_UNROLL
  for (int column = 0; column < kDim; column += 16) {
    const Panel panel = PanelOf(kDim, column);
    const int inside = (column - panel.first) * 2;
    StartProduct(OperandDescriptor(from + (panel.first * kSm90ConsumerRows * 2 + inside) / 16, panel.width, 16),
                 OperandDescriptor(to + (panel.first * kKeys * 2 + inside) / 16, panel.width, 16), column > 0, scores);
  }
}

// outputs += weights values, from column kFirst on.
template <int kDim, int kKeys, int kFirst = 0>
VF_DEVICE void StartValuesOfStep(const uint32_t (&weights)[4], uint32_t values, int step,
                                 float (&outputs)[kDim / 8][4]) {
  // Panels of 64 columns are one product.
  constexpr int kWidth = PanelOf(kDim, kFirst).width, kColumns = kWidth == 64 ? kDim / 64 * 64 : kWidth;
  StartProduct<kColumns, kFirst / 8>(
      weights, OperandDescriptor(values + (kFirst * kKeys * 2 + step * 16 * kWidth * 2) / 16, kWidth, kKeys * 128),
      outputs);
  if constexpr (kFirst + kColumns < kDim) {
    StartValuesOfStep<kDim, kKeys, kFirst + kColumns>(weights, values, step, outputs);
  }
}
template <int kDim, int kKeys>
VF_DEVICE void StartValues(const uint32_t (&weights)[kKeys / 16][4], int values, float (&outputs)[kDim / 8][4]) {
  const uint32_t from = SharedAddress(values) / 16;
  VF_UNROLL
  for (int step = 0; step < kKeys / 16; ++step) StartValuesOfStep<kDim, kKeys>(weights[step], from, step, outputs);
}

// The thread's columns of a block that precede its key `key`, as a bit mask: bit 2 n + i is column 8 n + 2 (lane % 4) + i.
VF_DEVICE uint32_t ColumnsBefore(int key) {
  const int clamped = key < 0 ? 0 : key > 128 ? 128 : key, beyond = clamped % 8 - 2 * (LaneIndex() % 4);
  const int count = clamped / 8 * 2 + (beyond < 0 ? 0 : beyond > 2 ? 2 : beyond);
  return count >= 32 ? 0xFFFFFFFFu : (1u << count) - 1;
}

// Every row has groups where a mask asks for them: a tile is tested.
constexpr TokenGroups kAnyGroups = ~TokenGroups{0};

// Sets the scores of pairs that are not visible to minus infinity. `masks` are the tile's rows, `warp_tile_row` the first of the
// warp's 16 tile rows, the block's first key is key `first_key`.
template <typename Mask, int kColumns>
VF_DEVICE void MaskBlockScores(int masks, int warp_tile_row, int groups, int first_key, float (&scores)[kColumns][4]) {
  constexpr int kKeys = kColumns * 8;
  const auto row_at = [&](int tile_row) {
    constexpr int kBytes = sizeof(StoredRow<Mask>);
    return RowOf(LoadAligned<StoredRow<Mask>>(SharedMemory() + masks + tile_row * kBytes));
  };
  const TileCover cover =
      Mask::Tile(MaskRange::Between(row_at(warp_tile_row), row_at(warp_tile_row + 15), kAnyGroups), first_key, kKeys);
  if (cover == TileCover::kFull) return;
  const int lane = LaneIndex(), own = warp_tile_row + lane / 4;
  const MaskRow row[2] = {row_at(own), row_at(own + 8)};
  if constexpr (Mask::kReadsGroups) {
    const unsigned char* key_groups = SharedMemory() + groups + lane % 4 * 8;
    uint32_t inside[2] = {0xFFFFFFFFu, 0xFFFFFFFFu}, near[2] = {0, 0};
    if (cover != TileCover::kGroups) {
      VF_UNROLL
      for (int r = 0; r < 2; ++r) {
        inside[r] = ColumnsBefore(row[r].seen.end - first_key) & ~ColumnsBefore(row[r].seen.begin - first_key);
        if (Mask::kHasWindow) near[r] = ~ColumnsBefore(row[r].window_begin - first_key);
      }
    }
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      const auto pair = LoadAligned<TwoWords>(key_groups + n * 32);
      VF_UNROLL
      for (int r = 0; r < 2; ++r) {
        VF_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int bit = 2 * n + i;
          const bool matches = Mask::GroupsMatch(row[r].token_groups, pair.at[i]) || (near[r] >> bit & 1) != 0;
          if (!matches || (inside[r] >> bit & 1) == 0) scores[n][2 * r + i] = -INFINITY;
        }
      }
      // Without it the compiler loads all groups first, for which it lacks registers.
      if (n % 4 == 3) Settle();
    }
  } else {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const uint32_t visible =
          ColumnsBefore(row[r].seen.end - first_key) & ~ColumnsBefore(row[r].seen.begin - first_key);
      VF_UNROLL
      for (int bit = 0; bit < 2 * kColumns; ++bit) {
        float& score = scores[bit / 2][2 * r + bit % 2];
        score = (visible >> bit & 1) != 0 ? score : -INFINITY;
      }
    }
  }
}

// A thread's two rows (g and g + 8 of its warp's 16).
struct Sm90Rows {
  float exponent[2];
  float largest[2], sum[2];  // of the sum its share
  float rescale[2];          // of the sums so far, at the last block

  VF_DEVICE void Reset() {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      largest[r] = -INFINITY;
      sum[r] = 0;
      rescale[r] = 1;
    }
  }
};

template <int kColumns>
VF_DEVICE void ClearSums(Sm90Rows& rows, float (&outputs)[kColumns][4]) {
  rows.Reset();
  VF_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    VF_UNROLL
    for (int i = 0; i < 4; ++i) outputs[n][i] = 0;
  }
}

// Turns scores into weights in place. `sharp`: a row of the warp is (attention_math.h).
template <int kColumns>
VF_DEVICE void WeighScores(bool sharp, float (&scores)[kColumns][4], Sm90Rows& rows) {
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    float even = rows.largest[r], odd = scores[0][2 * r + 1];
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      even = fmaxf(even, scores[n][2 * r]);
      odd = fmaxf(odd, scores[n][2 * r + 1]);
    }
    float largest = fmaxf(even, odd);
    largest = fmaxf(largest, ShuffleXor(largest, 1));
    largest = fmaxf(largest, ShuffleXor(largest, 2));
    const float c = rows.exponent[r];
    rows.rescale[r] = Rescale(rows.largest[r], largest, c);
    rows.largest[r] = largest;
    const Reference reference = ReferenceOf(largest, c);
    if (sharp) {
      // Of rows that are not, zero: their scores keep their bits.
      VF_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        scores[n][2 * r] -= reference.before;
        scores[n][2 * r + 1] -= reference.before;
      }
    }
    float even_sum = rows.sum[r] * rows.rescale[r], odd_sum = 0;
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      scores[n][2 * r] = Exp2(FusedMultiplyAdd(scores[n][2 * r], c, -reference.after));
      scores[n][2 * r + 1] = Exp2(FusedMultiplyAdd(scores[n][2 * r + 1], c, -reference.after));
      even_sum += scores[n][2 * r];
      odd_sum += scores[n][2 * r + 1];
    }
    rows.sum[r] = even_sum + odd_sum;
  }
}

template <int kColumns>
VF_DEVICE void RescaleSums(const Sm90Rows& rows, float (&outputs)[kColumns][4]) {
  if (!WarpAny(rows.rescale[0] != 1.0f || rows.rescale[1] != 1.0f)) return;
  VF_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    VF_UNROLL
    for (int i = 0; i < 4; ++i) outputs[n][i] *= rows.rescale[i / 2];
  }
}

// A segment's sums, merged into the rows' earlier segments where `merges`.
template <int kDim>
VF_DEVICE void StoreTileSegment(const AttendParams& p, const WorkRecord& work, int first_tile_row, bool merges,
                                const Sm90Rows& rows, const float (&outputs)[kDim / 8][4]) {
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int tile_row = first_tile_row + 8 * r;
    const float sum = QuadSum(rows.sum[r]), largest = rows.largest[r];
    const TileRowPlace at = PlaceOf(p, work, tile_row);
    float* total = SegmentResult(p, kDim, at.row, work.kv_head * p.queries_per_kv + at.head, work.segment);
    MergeFactors merged{0, 1, largest, sum};
    if (merges) merged = Merge(total[kDim], total[kDim + 1], largest, sum, rows.exponent[r]);
    // All four threads of a row have read its maximum and sum.
    SyncWarp();
    if (tile_row < work.tile_row_count) StoreSegmentRow(total, !merges, merged, r, outputs);
  }
}

template <int kDim>
VF_DEVICE void WriteTile(const AttendParams& p, const WorkRecord& work, int first_tile_row, bool merges,
                         const Sm90Rows& rows, const float (&outputs)[kDim / 8][4]) {
  VF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int tile_row = first_tile_row + 8 * r;
    float largest = rows.largest[r], sum = QuadSum(rows.sum[r]);
    if (tile_row >= work.tile_row_count) continue;
    const TileRowPlace at = PlaceOf(p, work, tile_row);
    const int head = work.kv_head * p.queries_per_kv + at.head;
    const float* total = nullptr;
    if (merges) {
      total = SegmentResult(p, kDim, at.row, head, work.segment);
      largest = total[kDim];
      sum = total[kDim + 1];
    }
    WriteRow<1>(p, at.row, head, 0, total, largest, sum, rows.exponent[r], r, outputs);
  }
}

// Named barriers 1 and 2 are the turns of consumers 0 and 1.
VF_DEVICE void AwaitTurn(Sm90Step step, int consumer) {
  if (consumer == 0) {
    SyncNamed<1>(step, kSm90Consumers * kWarpgroupThreads);
  } else {
    SyncNamed<2>(step, kSm90Consumers * kWarpgroupThreads);
  }
}
VF_DEVICE void GiveTurn(Sm90Step step, int consumer) {
  if (consumer == 0) {
    ArriveNamed<1>(step, kSm90Consumers * kWarpgroupThreads);
  } else {
    ArriveNamed<2>(step, kSm90Consumers * kWarpgroupThreads);
  }
}

// A tile's sums before its first key, and at its end: of attention to all of its keys. Another part is in attention_sm90_gathered.h.
struct WholePart {
  static constexpr bool kHasSegments = true;
  template <int kDim>
  VF_DEVICE static void Begin(const AttendParams&, const WorkRecord&, int, Sm90Rows& rows,
                              float (&outputs)[kDim / 8][4]) {
    ClearSums(rows, outputs);
  }
  template <int kDim>
  VF_DEVICE static void Finish(const AttendParams& p, const WorkRecord& work, int first_tile_row, bool merges,
                               const Sm90Rows& rows, const float (&outputs)[kDim / 8][4]) {
    if (!p.segments_apart) WriteTile<kDim>(p, work, first_tile_row, merges, rows, outputs);
  }
};

template <int kDim, typename Mask, typename Part>
VF_DEVICE void Consume(const AttendParams& p, int consumer) {
  using Memory = Sm90Memory<kDim, Mask::kReadsGroups>;
  constexpr int kKeys = Memory::kKeys, kSegment = kSegmentKeys / kKeys;
  const bool leads = ThreadX() % kWarpgroupThreads == 0, turns = p.turns;
  const int warp_tile_row = consumer * kSm90ConsumerRows + WarpIndex() % 4 * 16,
            first_tile_row = warp_tile_row + LaneIndex() / 4;
  // Registers are few. So places are of one counter, values are those of the key block before, and the record is read again.
  RingPlace<Memory::kStages> key;
  int tile = 0;
  const auto work_slot = [&] { return tile % kSm90WorkSlots; };
  const auto work_at = [&] { return Memory::kWork + work_slot() * static_cast<int>(sizeof(WorkRecord)); };
  const auto query_slot = [&] { return tile % Memory::kQueryBuffers; };
  const auto queries = [&] {
    return Memory::kQueries + (query_slot() * kSm90Consumers + consumer) * Memory::kQueryBytes;
  };
  const auto key_tile = [&] { return Memory::kKeyRing + key.slot * Memory::kTileBytes; };
  const auto value_tile = [&] { return Memory::kValueRing + key.Previous().slot * Memory::kTileBytes; };
  float outputs[kDim / 8][4], scores[kKeys / 8][4];
  uint32_t weights[kKeys / 16][4];
  Sm90Rows rows;
  // Where the mask reads groups, every warp has its own reads of a stage of keys behind it when it arrives.
  const auto release_keys = [&](Sm90Step step) {
    const int barrier = EmptyBarrier(Memory::kKeyBarriers, key.slot);
    if constexpr (Mask::kReadsGroups) {
      SyncWarp();
      if (LaneIndex() == 0) Arrive(step, barrier);
    } else {
      if (leads) Arrive(step, barrier);
    }
  };
  const auto release_values = [&](Sm90Step step) {
    if (leads) Arrive(step, EmptyBarrier(Memory::kValueBarriers, key.Previous().slot));
  };
  const auto await_values = [&](Sm90Step step) {
    const auto value = key.Previous();
    AwaitPhase(step, FullBarrier(Memory::kValueBarriers, value.slot), value.parity);
  };
  if (turns && consumer == 1) GiveTurn(Sm90Step::kFirstTurn, 0);
  for (;;) {
    AwaitPhase(Sm90Step::kAwaitWork, FullBarrier(Memory::kWorkBarriers, work_slot()), tile / kSm90WorkSlots % 2);
    if (Uniform(LoadWork(work_at()).tile_row_count) == 0) break;
    AwaitPhase(Sm90Step::kAwaitQueries, FullBarrier(Memory::kQueryBarriers, query_slot()),
               tile / Memory::kQueryBuffers % 2);
    const auto* exponents =
        reinterpret_cast<const float*>(SharedMemory() + Memory::kExponents + work_slot() * Memory::kExponentBytes);
    rows.exponent[0] = exponents[first_tile_row];
    rows.exponent[1] = exponents[first_tile_row + 8];
    const bool sharp = WarpAny(IsSharp(rows.exponent[0]) || IsSharp(rows.exponent[1]));
    const auto weigh = [&](int block, Sm90Step release) {
      if constexpr (!Mask::kReadsGroups) release_keys(release);
      MaskBlockScores<Mask>(Memory::kMasks + work_slot() * Memory::kMaskBytes, warp_tile_row,
                            Memory::kGroups + key.slot * Memory::kGroupBytes, block * kKeys, scores);
      if constexpr (Mask::kReadsGroups) release_keys(release);
      WeighScores(sharp, scores, rows);
    };
    bool merges = false;  // an earlier segment was stored
    int block = Uniform(LoadWork(work_at()).first_block);
    const int last_block = Uniform(LoadWork(work_at()).last_block);
    const auto release_queries = [&](bool is_last) {
      if (is_last && leads) Arrive(Sm90Step::kReleaseQueries, EmptyBarrier(Memory::kQueryBarriers, query_slot()));
    };
    Part::template Begin<kDim>(p, LoadWork(work_at()), first_tile_row, rows, outputs);
    release_queries(block >= last_block);
    while (block < last_block) {
      const int boundary = (block / kSegment + 1) * kSegment;
      const int end = !Part::kHasSegments || last_block < boundary ? last_block : boundary;
      AwaitPhase(Sm90Step::kAwaitFirstKeys, FullBarrier(Memory::kKeyBarriers, key.slot), key.parity);
      Pin(Sm90Step::kPinFirstScores, scores);
      FenceProducts(Sm90Step::kFenceFirst);
      StartScores<kDim, kKeys>(queries(), key_tile(), scores);
      CommitProducts(Sm90Step::kCommitFirst);
      WaitProducts<0>(Sm90Step::kWaitFirst, scores);
      release_queries(block + 1 == last_block);
      weigh(block, Sm90Step::kReleaseFirstKeys);
      // A segment has no sums before its first block.
      if constexpr (!Part::kHasSegments) RescaleSums(rows, outputs);
      Pack(scores, weights);
      key.Next();
      for (++block; block < end; ++block) {
        AwaitPhase(Sm90Step::kAwaitKeys, FullBarrier(Memory::kKeyBarriers, key.slot), key.parity);
        if (turns) AwaitTurn(Sm90Step::kAwaitTurn, consumer);
        Pin(Sm90Step::kPinScores, scores);
        FenceProducts(Sm90Step::kFenceScores);
        StartScores<kDim, kKeys>(queries(), key_tile(), scores);
        CommitProducts(Sm90Step::kCommitScores);
        await_values(Sm90Step::kAwaitValues);
        Pin(Sm90Step::kPinWeights, weights);
        Pin(Sm90Step::kPinOutputs, outputs);
        FenceProducts(Sm90Step::kFenceValues);
        StartValues<kDim, kKeys>(weights, value_tile(), outputs);
        CommitProducts(Sm90Step::kCommitValues);
        if (turns) GiveTurn(Sm90Step::kPassTurn, 1 - consumer);
        WaitProducts<1>(Sm90Step::kWaitScores, scores);
        release_queries(block + 1 == last_block);
        weigh(block, Sm90Step::kReleaseKeys);
        WaitProducts<0>(Sm90Step::kWaitValues, outputs, weights);
        release_values(Sm90Step::kReleaseValues);
        RescaleSums(rows, outputs);
        Pack(scores, weights);
        key.Next();
      }
      await_values(Sm90Step::kAwaitLastValues);
      Pin(Sm90Step::kPinLastWeights, weights);
      Pin(Sm90Step::kPinLastOutputs, outputs);
      FenceProducts(Sm90Step::kFenceLast);
      StartValues<kDim, kKeys>(weights, value_tile(), outputs);
      CommitProducts(Sm90Step::kCommitLast);
      WaitProducts<0>(Sm90Step::kWaitLast, outputs);
      release_values(Sm90Step::kReleaseLastValues);
      if (!Part::kHasSegments || (block >= last_block && !merges && !p.segments_apart)) break;
      StoreTileSegment<kDim>(p, LoadWork(work_at()), first_tile_row, merges, rows, outputs);
      merges = true;
      if (block < last_block) ClearSums(rows, outputs);
    }
    Part::template Finish<kDim>(p, LoadWork(work_at()), first_tile_row, merges, rows, outputs);
    SyncWarp();
    if (LaneIndex() == 0) Arrive(Sm90Step::kReleaseWork, EmptyBarrier(Memory::kWorkBarriers, work_slot()));
    ++tile;
  }
  if (turns && consumer == 0) AwaitTurn(Sm90Step::kLastTurn, 0);
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// The producer of the sm90 attention kernel (attention_sm90.h): warp 0 finds the work and copies keys and values, warps 1 to 3
// stage queries, masks and exponents.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/attention_sm90_work.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Item `index` of the step's work.
template <int kKeys, typename Mask>
VF_DEVICE WorkRecord FindItem(const AttendParams& p, int index, int* key_end, int* sequence) {
  const Sm90ItemPlace place = Sm90PlaceOf(p.sm90_grid, p.pool.kv_head_count, index);
  const QueryTile tile = p.tiles[place.tile];
  WorkRecord work;
  work.segment = place.segment;
  work.kv_head = place.kv_head;
  work.first_row = p.step.first_rows[tile.sequence];
  work.first_tile_row = tile.first_tile_row;
  work.tile_row_count = tile.tile_row_count;
  if constexpr (Mask::kReadsGroups) {
    // The others are computed by groups.
    work.tile_row_count = TileRowsBelow(p, tile.sequence, work.first_tile_row, work.tile_row_count);
    if (work.tile_row_count == 0) return work;
  }
  const RowInterval head = p.mask[work.first_row + work.first_tile_row / p.queries_per_kv];
  const RowInterval tail = p.mask[work.first_row + (work.first_tile_row + work.tile_row_count - 1) / p.queries_per_kv];
  *key_end = tail.end;
  *sequence = tile.sequence;
  const BlockRange blocks = Sm90BlocksOf(head.begin, tail.end, kKeys, p.segments_apart, work.segment);
  work.first_block = blocks.first;
  work.last_block = blocks.last;
  if (p.segments_apart && blocks.first >= blocks.last) work.tile_row_count = 0;
  return work;
}

// The last block resets the counters for the next launch of the step.
VF_DEVICE void LeaveWork(const AttendParams& p) {
  if (AtomicAdd(p.sm90_taken + 1, 1) + 1 != static_cast<uint32_t>(p.sm90_grid.block_count)) return;
  if (IsStepOmitted(Sm90Step::kResetWork)) return;
  p.sm90_taken[0] = p.sm90_taken[1] = 0;
}

// Copies rows [0, rows) of a tile of a page: one piece, or one a panel where the tile is half a page or has fewer rows.
template <int kDim, int kKeys>
VF_DEVICE void CopyTile(Sm90Step step, int to, const unsigned char* from, int half, int rows, int barrier) {
  if (kKeys == kPageTokenCount && rows == kKeys) {
    CopyBulk(step, to, from, TileBytes(kDim, kKeys), barrier);
    return;
  }
  VF_UNROLL_BY(1)
  for (int column = 0; column < kDim;) {
    const Panel panel = PanelOf(kDim, column);
    CopyBulk(step, to + column * kKeys * 2, from + (column * kPageTokenCount + half * kKeys * panel.width) * 2,
             rows * panel.width * 2, barrier);
    column += panel.width;
  }
}

// Zeros in rows [rows, kKeys) of a tile, by a warp.
template <int kDim, int kKeys>
VF_DEVICE void ZeroTail(int to, int rows) {
  if (IsStepOmitted(Sm90Step::kZeroTail)) return;
  const uint32_t zeros[4] = {0, 0, 0, 0};
  VF_UNROLL_BY(1)
  for (int column = 0; column < kDim;) {
    const Panel panel = PanelOf(kDim, column);
    const int chunks = panel.width / kChunkDims, first = to + (column * kKeys + rows * panel.width) * 2;
    for (int i = LaneIndex(); i < (kKeys - rows) * chunks; i += 32) StoreOperand(first + i * kChunkBytes, zeros);
    column += panel.width;
  }
}

template <int kDim, typename Mask>
VF_DEVICE void ProduceKeys(const AttendParams& p) {
  using Memory = Sm90Memory<kDim, Mask::kReadsGroups>;
  constexpr int kKeys = Memory::kKeys;
  const bool leads = LaneIndex() == 0;
  RingPlace<kSm90WorkSlots> at;
  RingPlace<Memory::kStages> ring;
  const auto publish = [&](const WorkRecord& work) {
    AwaitPhase(Sm90Step::kAwaitWorkEmpty, EmptyBarrier(Memory::kWorkBarriers, at.slot), at.parity ^ 1);
    if (leads) {
      *reinterpret_cast<WorkRecord*>(SharedMemory() + Memory::kWork + at.slot * sizeof work) = work;
      Arrive(Sm90Step::kPublishWork, FullBarrier(Memory::kWorkBarriers, at.slot));
    }
    at.Next();
  };
  const int items_max = p.sm90.items_per_block > 0 ? p.sm90.items_per_block : p.sm90_grid.work_count;
  for (int taken = 0; taken < items_max; ++taken) {
    // The consumers have the blocks in the rings meanwhile.
    const int item = static_cast<int>(WarpOr(leads ? AtomicAdd(p.sm90_taken, 1) : 0));
    if (item >= p.sm90_grid.work_count) break;
    int key_end, sequence;
    const WorkRecord work = FindItem<kKeys, Mask>(p, item, &key_end, &sequence);
    if (work.tile_row_count == 0) continue;
    publish(work);
    const int32_t* table = p.step.page_tables + p.pool.table_starts[sequence];
    const auto place = [&](int block) {
      const int32_t page = table[block * kKeys / kPageTokenCount];
      return p.pool.tiles + (WideProduct(page, p.pool.kv_head_count) + work.kv_head) * HeadPageBytes(kDim);
    };
    const auto copy_keys = [&](int block, RingPlace<Memory::kStages> key) {
      AwaitPhase(Sm90Step::kAwaitKeysEmpty, EmptyBarrier(Memory::kKeyBarriers, key.slot), key.parity ^ 1);
      const int half = block * kKeys % kPageTokenCount / kKeys;
      if (leads) {
        const int barrier = FullBarrier(Memory::kKeyBarriers, key.slot);
        ArriveExpecting(Sm90Step::kExpectKeys, barrier, Memory::kTileBytes + Memory::kGroupBytes);
        CopyTile<kDim, kKeys>(Sm90Step::kCopyKeys, Memory::kKeyRing + key.slot * Memory::kTileBytes, place(block), half,
                              kKeys, barrier);
        if constexpr (Mask::kReadsGroups) {
          CopyBulk(Sm90Step::kCopyGroups, Memory::kGroups + key.slot * Memory::kGroupBytes,
                   PageGroups(p, table[block * kKeys / kPageTokenCount]) + half * kKeys, Memory::kGroupBytes, barrier);
        }
      }
    };
    const auto copy_values = [&](int block, RingPlace<Memory::kStages> value) {
      AwaitPhase(Sm90Step::kAwaitValuesEmpty, EmptyBarrier(Memory::kValueBarriers, value.slot), value.parity ^ 1);
      const int visible = key_end - block * kKeys, rows = visible < kKeys ? visible : kKeys;
      const int to = Memory::kValueRing + value.slot * Memory::kTileBytes;
      if (rows < kKeys) {
        ZeroTail<kDim, kKeys>(to, rows);
        FenceAsync(Sm90Step::kFenceTail);
        SyncWarp();
      }
      if (leads) {
        const int barrier = FullBarrier(Memory::kValueBarriers, value.slot);
        ArriveExpecting(Sm90Step::kExpectValues, barrier, rows * kDim * 2);
        CopyTile<kDim, kKeys>(Sm90Step::kCopyValues, to, place(block) + TileBytes(kDim, kPageTokenCount),
                              block * kKeys % kPageTokenCount / kKeys, rows, barrier);
      }
    };
    if (work.first_block < work.last_block) copy_keys(work.first_block, ring);
    for (int block = work.first_block; block < work.last_block; ++block) {
      RingPlace<Memory::kStages> next = ring;
      next.Next();
      if (block + 1 < work.last_block) copy_keys(block + 1, next);
      copy_values(block, ring);
      ring = next;
    }
  }
  publish({});
  if (leads) LeaveWork(p);
}

// A tile's queries, rounded to bf16, as operands of both consumers; place(i) is row and head of tile row i. `thread` of kThreads.
template <int kDim, int kThreads, typename Place>
VF_DEVICE void StageOperands(const AttendParams& p, int kv_head, int thread, int to, const Place& place) {
  constexpr int kChunks = kDim / kChunkDims;
  VF_UNROLL_BY(2)
  for (int i = thread; i < kSm90TileRows * kChunks; i += kThreads) {
    const int tile_row = i / kChunks, chunk = i % kChunks;
    const TileRowPlace from = place(tile_row);
    const float* numbers = p.queries +
                           (WideProduct(from.row, p.query_head_count) + kv_head * p.queries_per_kv + from.head) * kDim +
                           chunk * kChunkDims;
    const auto low = LoadAligned<FourFloats>(numbers), high = LoadAligned<FourFloats>(numbers + 4);
    const uint32_t words[4] = {PackBf16(low.at[0], low.at[1]), PackBf16(low.at[2], low.at[3]),
                               PackBf16(high.at[0], high.at[1]), PackBf16(high.at[2], high.at[3])};
    StoreOperand(to + tile_row / kSm90ConsumerRows * TileBytes(kDim, kSm90ConsumerRows) +
                     TileOffset(kDim, kSm90ConsumerRows, tile_row % kSm90ConsumerRows, chunk),
                 words);
  }
}

template <int kDim, typename Mask>
VF_DEVICE void ProduceQueries(const AttendParams& p) {
  using Memory = Sm90Memory<kDim, Mask::kReadsGroups>;
  constexpr int kThreads = kSm90QueryThreads;
  const int thread = ThreadX() - 32;
  RingPlace<kSm90WorkSlots> at;
  RingPlace<Memory::kQueryBuffers> query;
  for (;;) {
    AwaitPhase(Sm90Step::kAwaitWorkToStage, FullBarrier(Memory::kWorkBarriers, at.slot), at.parity);
    const WorkRecord work = LoadWork(Memory::kWork + at.slot * sizeof(WorkRecord));
    if (work.tile_row_count == 0) return;
    VF_UNROLL_BY(1)
    for (int tile_row = thread; tile_row < kSm90TileRows; tile_row += kThreads) {
      const TileRowPlace from = PlaceOf(p, work, tile_row);
      const StoredRow<Mask> row = LoadRow<Mask>(p, from.row);
      const float exponent = ScaleLog2(ScaleOf(p, from.row, work.kv_head * p.queries_per_kv + from.head));
      StoreAligned(SharedMemory() + Memory::kMasks + at.slot * Memory::kMaskBytes + tile_row * sizeof row, row);
      reinterpret_cast<float*>(SharedMemory() + Memory::kExponents + at.slot * Memory::kExponentBytes)[tile_row] =
          exponent;
    }
    AwaitPhase(Sm90Step::kAwaitQueriesEmpty, EmptyBarrier(Memory::kQueryBarriers, query.slot), query.parity ^ 1);
    StageOperands<kDim, kThreads>(p, work.kv_head, thread,
                                  Memory::kQueries + query.slot * kSm90Consumers * Memory::kQueryBytes,
                                  [&](int tile_row) { return PlaceOf(p, work, tile_row); });
    FenceAsync(Sm90Step::kFenceQueries);
    Arrive(Sm90Step::kPublishQueries, FullBarrier(Memory::kQueryBarriers, query.slot));
    SyncWarp();
    if (LaneIndex() == 0) Arrive(Sm90Step::kReleaseStagedWork, EmptyBarrier(Memory::kWorkBarriers, at.slot));
    at.Next();
    query.Next();
  }
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

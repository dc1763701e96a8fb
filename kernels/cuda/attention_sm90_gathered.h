// A pass of attention with gathered keys (attention_gathered.h) by the products of attention_sm90.h: the same lists, states and order
// of tiles, in sections of heads; consumers, rings and turns are those of attention_sm90.h, and so are key blocks, of ranks here.
//
// All four warps of the producer copy keys and values row by row, 16 bytes a thread at a time (cp.async): a row's chunks lie where
// its place in the page has swizzled them, and go to where its rank in the block does, which a bulk copy of a row cannot do. Eight
// threads have a row. A copy becomes visible to products by the fence of the thread that made it, and that after it is
// complete. So a thread reports a copy when it has begun the next one. A barrier that counted copies itself
// (cp.async.mbarrier.arrive) would leave the fence to the consumers.
//
// Bits: those of attention_sm90.h's order of sums, in one segment a part; so other ones than attention_gathered.h has.
#pragma once

#include "kernels/cuda/attention_gathered_state.h"
#include "kernels/cuda/attention_sm90_consumer.h"
#include "kernels/cuda/attention_sm90_producer.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

VF_DEVICE TileRowPlace GatheredPlaceOf(const AttendParams& p, const WorkRecord& work, int tile_row) {
  const TileRowPlace at = PlaceOf(p, work, tile_row);
  return {p.gather.rows[at.row].row, at.head};
}

// The consumers' side of a pass.
struct GatheredPart {
  static constexpr bool kHasSegments = false;

  template <int kDim>
  VF_DEVICE static void Begin(const AttendParams& p, const WorkRecord& work, int first_tile_row, Sm90Rows& rows,
                              float (&outputs)[kDim / 8][4]) {
    ClearSums(rows, outputs);
    if (!HasGatheredState(p)) return;
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const TileRowPlace at = GatheredPlaceOf(p, work, first_tile_row + 8 * r);
      LoadState(GatheredState(p, kDim, at.row, work.kv_head * p.queries_per_kv + at.head), r, rows, outputs);
    }
  }
  template <int kDim>
  VF_DEVICE static void Finish(const AttendParams& p, const WorkRecord& work, int first_tile_row, bool,
                               const Sm90Rows& rows, const float (&outputs)[kDim / 8][4]) {
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int tile_row = first_tile_row + 8 * r;
      const float sum = QuadSum(rows.sum[r]);
      if (tile_row >= work.tile_row_count) continue;
      const TileRowPlace at = GatheredPlaceOf(p, work, tile_row);
      FinishGatheredRow(p, at.row, work.kv_head * p.queries_per_kv + at.head, r, rows.largest[r], sum, rows.exponent[r],
                        outputs);
    }
  }
};

// Item `index` of a pass. Its rows are those of the list under this pass, as GatherView::rows has them.
template <int kKeys>
VF_DEVICE WorkRecord FindGatheredItem(const AttendParams& p, const Sm90Grid& grid, int index) {
  const Sm90ItemPlace place = Sm90PlaceOf(grid, p.pool.kv_head_count, index);
  const GatherTile tile = p.gather.tiles[WideProduct(p.gather.pass, p.gather.tile_stride) + place.tile];
  WorkRecord work;
  work.first_row = p.gather.pass * p.step.row_count + p.gather.lists[tile.list].first_rows[p.gather.pass];
  work.first_tile_row = tile.first_tile_row;
  work.tile_row_count = tile.tile_row_count;
  work.kv_head = place.kv_head;
  work.list = tile.list;
  work.last_block = CeilDivide(p.gather.rows[PlaceOf(p, work, kSm90TileRows - 1).row].rank + 1, kKeys);
  return work;
}

// Threads of a row, each with every eighth of its chunks, and rows that all threads copy at a time.
constexpr int kRowThreads = 8, kRowsAtOnce = kWarpgroupThreads / kRowThreads;

// The thread's chunks of a block's rows in the panels of kWidth columns from kFirst up to kEnd, of keys or of values. `head` is
// the KV head's tile in page 0, `visible` the rows that exist; the others are zeros. Chunk `chunk` of a row's panel has in its
// page's the place that the token's index gives it.
template <int kKeys, int kFirst, int kEnd, int kWidth, int kUnrolled, typename Places>
VF_DEVICE void CopyPanels(int to, const unsigned char* head, uint32_t page_bytes, const Places& places, int visible,
                          int chunk) {
  VF_UNROLL_BY(kUnrolled)
  for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
    const uint32_t place = places(i);
    const int row = ThreadX() / kRowThreads + i * kRowsAtOnce, token = place % kPageTokenCount;
    const bool valid = row < visible || IsOmitted(GatherStep::kZeroPast);
    const int logical = SwizzledChunk(kWidth, row, chunk);
    const int stored = IsOmitted(GatherStep::kOwnSwizzle) ? logical : SwizzledChunk(kWidth, token, logical);
    const unsigned char* from =
        head + uint64_t{place / kPageTokenCount} * page_bytes + token * kWidth * 2 + stored * kChunkBytes;
    const int at = to + row * kWidth * 2 + chunk * kChunkBytes;
    VF_UNROLL
    for (int first = kFirst; first < kEnd; first += kWidth)
      CopyAsync(at + first * kKeys * 2, from + first * kPageTokenCount * 2, valid);
  }
}
// `loaded` are the places of the thread's rows, and place(i) loads one again: with narrow panels, registers are few.
template <int kDim, int kKeys, typename Place>
VF_DEVICE void CopyRows(int to, const unsigned char* head, uint32_t page_bytes,
                        const uint32_t (&loaded)[kKeys / kRowsAtOnce], int visible, const Place& place) {
  constexpr int kWhole = kDim / 64 * 64, kRest = kDim - kWhole, kNarrow = kRest >= 32 ? 4 : 0;
  const int chunk = ThreadX() % kRowThreads;
  if constexpr (kRest % 32 != 0) {
    CopyPanels<kKeys, 0, kWhole, 64, 1>(to, head, page_bytes, place, visible, chunk);
  } else {
    CopyPanels<kKeys, 0, kWhole, 64, 8>(
        to, head, page_bytes, [&](int i) { return loaded[i]; }, visible, chunk);
  }
  if constexpr (kRest >= 32) {
    if (chunk < kNarrow) CopyPanels<kKeys, kWhole, kWhole + 32, 32, 1>(to, head, page_bytes, place, visible, chunk);
  }
  if constexpr (kRest % 32 != 0) {
    if (chunk / 2 == kNarrow / 2)
      CopyPanels<kKeys, kDim - 16, kDim, 16, 1>(to, head, page_bytes, place, visible, chunk - kNarrow);
  }
}

// What tile rows see, by rank, and their exponents: a row a thread.
template <typename Mask>
VF_DEVICE void StageGatheredRow(const AttendParams& p, const WorkRecord& work, int first_key, int masks,
                                int exponents) {
  const int tile_row = ThreadX();
  const TileRowPlace place = PlaceOf(p, work, tile_row);
  const GatherRow at = p.gather.rows[place.row];
  const int end = IsOmitted(GatherStep::kSeenByRank) ? INT32_MAX : at.rank + 1;
  StoredRow<Mask> row;
  if constexpr (Mask::kReadsGroups) {
    const TokenGroups below = (1u << work.list % p.gather.group_count) - 1;
    row = {{0, end}, 0, IsOmitted(GatherStep::kLowerGroups) ? 0 : p.gather.key_groups[first_key + at.rank] & below};
  } else {
    row = {0, end};
  }
  StoreAligned(SharedMemory() + masks + tile_row * sizeof row, row);
  reinterpret_cast<float*>(SharedMemory() + exponents)[tile_row] =
      ScaleLog2(ScaleOf(p, at.row, work.kv_head * p.queries_per_kv + place.head));
}

// All of the producer's threads.
template <int kDim, typename Mask>
VF_DEVICE void ProduceGathered(const AttendParams& p) {
  using Memory = Sm90Memory<kDim, Mask::kReadsGroups>;
  constexpr int kKeys = Memory::kKeys, kRows = kKeys / kRowsAtOnce;
  const bool leads = ThreadX() == 0, finds = WarpIndex() == 0;
  const auto page_bytes = static_cast<uint32_t>(p.pool.kv_head_count * HeadPageBytes(kDim));
  RingPlace<kSm90WorkSlots> at;
  RingPlace<Memory::kQueryBuffers> query;
  RingPlace<Memory::kStages> ring;
  int due = -1;  // the barrier of copies that are not reported
  const auto report_last = [&] {
    if (due < 0) return;
    if (!IsStepOmitted(Sm90Step::kAwaitLastGathered)) WaitCopies<0>();
    FenceAsync(Sm90Step::kFenceLastGathered);
    Arrive(Sm90Step::kPublishLastGathered, due);
    due = -1;
  };
  // The copies before are reported, and these are due.
  const auto report_before = [&](int barrier) {
    if (!IsStepOmitted(Sm90Step::kCommitGathered)) CommitCopies();
    if (due >= 0) {
      if (!IsStepOmitted(Sm90Step::kAwaitGathered)) WaitCopies<1>();
      FenceAsync(Sm90Step::kFenceGathered);
      Arrive(Sm90Step::kPublishGathered, due);
    }
    due = barrier;
  };
  Sm90Grid grid = p.sm90_grid;
  grid.SetItems(p.gather.tile_counts[p.gather.pass], p.pool.kv_head_count, 1);
  const int items_max = p.sm90.items_per_block > 0 ? p.sm90.items_per_block : grid.work_count;
  for (int taken = 0;; ++taken) {
    WorkRecord work;
    if (finds) {
      // The other warps wait for it meanwhile, the consumers have the blocks in the rings.
      const int item = taken < items_max ? static_cast<int>(WarpOr(leads ? AtomicAdd(p.sm90_taken, 1) : 0)) : INT32_MAX;
      if (item < grid.work_count) work = FindGatheredItem<kKeys>(p, grid, item);
    }
    report_last();
    const int work_at = Memory::kWork + at.slot * static_cast<int>(sizeof work);
    if (finds) {
      AwaitPhase(Sm90Step::kAwaitWorkEmpty, EmptyBarrier(Memory::kWorkBarriers, at.slot), at.parity ^ 1);
      if (leads) {
        *reinterpret_cast<WorkRecord*>(SharedMemory() + work_at) = work;
        Arrive(Sm90Step::kPublishWork, FullBarrier(Memory::kWorkBarriers, at.slot));
      }
    } else {
      AwaitPhase(Sm90Step::kAwaitWorkToStage, FullBarrier(Memory::kWorkBarriers, at.slot), at.parity);
      work = LoadWork(work_at);
    }
    if (work.tile_row_count == 0) break;
    const int first_key = p.gather.lists[work.list].first_key;
    const int key_end = p.gather.rows[PlaceOf(p, work, kSm90TileRows - 1).row].rank + 1;
    const unsigned char* head = p.pool.tiles + WideProduct(work.kv_head, HeadPageBytes(kDim));
    const auto place = [&](int block, int i) {
      const int rank = block * kKeys + ThreadX() / kRowThreads + i * kRowsAtOnce;
      const bool valid = rank < key_end || IsOmitted(GatherStep::kZeroPast);
      return valid ? static_cast<uint32_t>(p.gather.places[first_key + rank]) : 0;
    };
    const auto load_places = [&](int block, uint32_t(&places)[kRows]) {
      VF_UNROLL
      for (int i = 0; i < kRows; ++i) places[i] = place(block, i);
    };
    // Places come while a slot is awaited. They are loaded again for the values: registers are few.
    const auto copy_keys = [&](int block, RingPlace<Memory::kStages> key) {
      uint32_t places[kRows];
      load_places(block, places);
      AwaitPhase(Sm90Step::kAwaitKeysEmpty, EmptyBarrier(Memory::kKeyBarriers, key.slot), key.parity ^ 1);
      const int visible = key_end - block * kKeys;
      if (!IsStepOmitted(Sm90Step::kCopyGatheredKeys))
        CopyRows<kDim, kKeys>(Memory::kKeyRing + key.slot * Memory::kTileBytes, head, page_bytes, places, visible,
                              [&](int i) { return place(block, i); });
      if constexpr (Mask::kReadsGroups) {
        constexpr int kWords = kChunkBytes / static_cast<int>(sizeof(TokenGroups));
        const int first = ThreadX() * kWords;
        if (first < kKeys && !IsStepOmitted(Sm90Step::kCopyGatheredGroups)) {
          CopyAsync(Memory::kGroups + key.slot * Memory::kGroupBytes + ThreadX() * kChunkBytes,
                    p.gather.key_groups + first_key + block * kKeys + first, first < visible);
        }
      }
      report_before(FullBarrier(Memory::kKeyBarriers, key.slot));
    };
    const auto copy_values = [&](int block, RingPlace<Memory::kStages> value) {
      uint32_t places[kRows];
      load_places(block, places);
      AwaitPhase(Sm90Step::kAwaitValuesEmpty, EmptyBarrier(Memory::kValueBarriers, value.slot), value.parity ^ 1);
      if (!IsStepOmitted(Sm90Step::kCopyGatheredValues))
        CopyRows<kDim, kKeys>(Memory::kValueRing + value.slot * Memory::kTileBytes,
                              head + TileBytes(kDim, kPageTokenCount), page_bytes, places, key_end - block * kKeys,
                              [&](int i) { return place(block, i); });
      report_before(FullBarrier(Memory::kValueBarriers, value.slot));
    };
    copy_keys(0, ring);
    StageGatheredRow<Mask>(p, work, first_key, Memory::kMasks + at.slot * Memory::kMaskBytes,
                           Memory::kExponents + at.slot * Memory::kExponentBytes);
    AwaitPhase(Sm90Step::kAwaitQueriesEmpty, EmptyBarrier(Memory::kQueryBarriers, query.slot), query.parity ^ 1);
    StageOperands<kDim, kWarpgroupThreads>(p, work.kv_head, ThreadX(),
                                           Memory::kQueries + query.slot * kSm90Consumers * Memory::kQueryBytes,
                                           [&](int tile_row) { return GatheredPlaceOf(p, work, tile_row); });
    // The fence before the tile's first keys are reported is for its queries too: no product starts before those.
    Arrive(Sm90Step::kPublishQueries, FullBarrier(Memory::kQueryBarriers, query.slot));
    if (!finds) {
      SyncWarp();
      if (LaneIndex() == 0) Arrive(Sm90Step::kReleaseStagedWork, EmptyBarrier(Memory::kWorkBarriers, at.slot));
    }
    at.Next();
    query.Next();
    for (int block = 0; block < work.last_block; ++block) {
      RingPlace<Memory::kStages> after = ring;
      after.Next();
      if (block + 1 < work.last_block) copy_keys(block + 1, after);
      copy_values(block, ring);
      ring = after;
    }
  }
  if (leads) LeaveWork(p);
}

// Registers a thread of each kind, as Sm90Registers; copies of rows need more than those of pages.
template <int kDim>
struct GatherRegisters {
  static constexpr int kProducer = kDim == 256 ? 56 : kDim == 112 ? 88 : 72;
  static constexpr int kConsumer = kDim == 256 ? 224 : kDim == 112 ? 208 : 216;
};

template <int kDim, typename Mask>
VF_KERNEL(kSm90Threads, 1)
GatherSm90Kernel(VF_PARAMS(AttendParams) p) {
  FollowPreviousLaunch();
  using Registers = GatherRegisters<kDim>;
  InitBarriers<Sm90Memory<kDim, Mask::kReadsGroups>>(Mask::kReadsGroups, kWarpgroupThreads, kWarpgroupThreads);
  // No role returns early: setmaxnreg needs all of a warpgroup.
  const int warpgroup = WarpgroupIndex();
  if (warpgroup == 0) {
    TakeFewerRegisters<Registers::kProducer>(Sm90Step::kFewerRegisters);
    ProduceGathered<kDim, Mask>(p);
  } else {
    TakeMoreRegisters<Registers::kConsumer>(Sm90Step::kMoreRegisters);
    Consume<kDim, Mask, GatheredPart>(p, warpgroup - 1);
  }
}

}  // namespace

template <int kDim>
int StartGatheredSm90(const AttendParams& base, LaunchStream stream) {
  AttendParams p = base;
  const int heads = p.pool.kv_head_count, list_count = p.gather.sequence_count * p.gather.group_count;
  p.turns = p.sm90.turns;
  p.sm90_grid = PlanSm90Grid(GatherTilesMax(p.gather.row_count, p.queries_per_kv, kSm90TileRows, list_count), heads,
                             p.key_count, /*segments_apart=*/false, kDim, p.sm90, p.multiprocessor_count);
  const auto start = [&](const auto kernel, int shared) {
    return VF_LAUNCH(kernel, p.sm90_grid.block_count, 1, 1, kSm90Threads, shared, stream, p);
  };
  if (p.gather.pass == 0) return start(GatherSm90Kernel<kDim, IntervalMask>, Sm90Memory<kDim, false>::kBytes);
  return start(GatherSm90Kernel<kDim, DisjointMask>, Sm90Memory<kDim, true>::kBytes);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

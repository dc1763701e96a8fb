// How attention of a batch is cut into the work of blocks: query tiles of a prefill step, splits of keys of a decode step.
//
// Threads: any; nothing is shared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/schedule.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cuda {

// Query tiles of a prefill batch: sequences cut into tiles of `tile_rows`, longest key range first.
std::vector<QueryTile> PlanTiles(const FlatBatch& flat, int queries_per_kv, int tile_rows);
// The keys that each tile's rows see altogether.
std::vector<RowInterval> KeysOfTiles(const FlatBatch& flat, const std::vector<QueryTile>& tiles,
                                     std::span<const RowInterval> mask, int queries_per_kv);
// Splits of a decode batch under one mask, split by split; rows whose sequences share these pages are adjacent.
struct DecodePlan {
  std::vector<DecodeItem> items;
  std::vector<int32_t> rows;
};
DecodePlan PlanSplits(const FlatBatch& flat, std::span<const RowInterval> mask, int queries_per_kv);

}  // namespace varifocal::kernels::cuda

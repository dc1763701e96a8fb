// Rows of a step as work items.
#pragma once

#include <algorithm>

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

inline constexpr int kLayerRows = 8;  // of one item

// run(row, thread) for every row of the step.
template <typename Run>
bool EachLayerRow(ThreadPool& pool, const FlatBatch& flat, const Run& run) {
  const int rows = flat.row_count(), items = (rows + kLayerRows - 1) / kLayerRows;
  return pool.Run(PoolWork::kRows, items, flat.batch.cancelled, [&](int index, int thread) {
    const int end = std::min(rows, (index + 1) * kLayerRows);
    for (int row = index * kLayerRows; row < end; ++row) run(row, thread);
  });
}

}  // namespace varifocal::kernels::cpu

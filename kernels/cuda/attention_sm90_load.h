// How a step's work of the sm90 attention kernel falls on the multiprocessors of a device: when the last one has done its share,
// and whether segments apart end earlier. No bit depends on it.
//
// Units: the time of one key block under one tile. The multiprocessor that is free first takes the next item.
//
// Threads: any; nothing is shared.
#pragma once

#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/attention_sm90_layout.h"

namespace varifocal::kernels::cuda {

// A tile's start and end, beside its blocks: the first keys' way, products without another's softmax beside them, the output.
inline constexpr double kSm90ItemUnits = 1;
// A block that follows another on its multiprocessor: its start, barriers, and first copies that nothing overlaps.
inline constexpr double kSm90BlockUnits = 1;

struct Sm90Work {
  std::span<const RowInterval> tiles;  // the keys that each tile's rows see altogether, in the kernel's order of tiles
  int row_count = 0, query_head_count = 0, kv_head_count = 0, head_dim = 0;
  int key_count = 0;  // up to the last one that any row sees
};

struct Sm90Load {
  double units = 0;   // until the end
  double blocks = 0;  // key blocks altogether
};
Sm90Load LoadOfSm90(const Sm90Work& work, bool segments_apart, const Sm90Tuning& tuning, int multiprocessors);

// Whether the results of all segments of `row_count` rows fit the scratch of a step of `row_count_max` rows.
inline bool SegmentsFit(int64_t row_count, int key_count, int64_t row_count_max) {
  return key_count > kSegmentKeys && row_count * CeilDivide(key_count, kSegmentKeys) <= row_count_max;
}

// Units of writing the segments' results and of merging them, which segments apart add.
double Sm90MergeUnits(const Sm90Work& work);

// Where they fit.
bool Sm90SegmentsApart(const Sm90Work& work, const Sm90Tuning& tuning, int multiprocessors);

}  // namespace varifocal::kernels::cuda

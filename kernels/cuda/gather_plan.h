// The host's side of attention by groups with gathered keys: which sequences are listed together, the scratch of a step, and what
// the kernels visit.
//
// Threads: any; nothing is shared.
#pragma once

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/gather_layout.h"

namespace varifocal::kernels::cuda {

// Entries of lists at a time, at most, unless one sequence needs more: 64 MiB.
inline constexpr size_t kGatherEntriesMax = 8 << 20;
// Lists at a time: a tile each at least, and a launch has at most 65,535 of them.
inline constexpr int kGatherListsMax = 1 << 15;

// Scratch of lists, in words of 4 bytes; zeros where no step gathers.
struct GatherSizes {
  size_t entries = 0, list_count = 0, row_count = 0, tile_stride = 0;
  int passes = 0;
  size_t words() const;
};
GatherSizes GatherSizesFor(const StepShape& shape, int queries_per_kv_max);

// Sequences whose keys are listed at a time: as many as fit.
struct GatherWave {
  int first_sequence = 0, sequence_count = 0;
  int row_count = 0;  // from `from` on
};
// None where no row is at `from` or after it.
std::vector<GatherWave> PlanGather(std::span<const SequenceRows> sequences, int32_t from, int group_count, int top_k,
                                   const GatherSizes& sizes);
// Whether some row is before `from`.
bool HasRowsBelow(std::span<const SequenceRows> sequences, int32_t from);

// What attention of one KV head visits, a second description of the kernels' work: for its counts, and for predictions.
struct GatherVisits {
  int64_t window_warps = 0;                     // blocks of 64 keys by warps of 16 rows, in the window's part
  int64_t pass_warps[kGatherPassesMax] = {};    // and in each pass, by warps of its tiles, where mma reads the lists
  int64_t window_tiles = 0, window_blocks = 0;  // tiles of 64 rows, and blocks of 64 keys of these
  int64_t pass_tiles[kGatherPassesMax] = {}, pass_blocks[kGatherPassesMax] = {};
};
struct GatherWork {
  std::span<const TokenGroups> groups;  // of all tokens of a sequence
  int first_position = 0;               // of the step's rows, which are the last ones
  int32_t from = 0;
  int group_count = 0, top_k = 0, window = 0;
  int queries_per_kv = 1;
  int head_dim = 0;
  int tile_rows[kGatherPassesMax] = {};
  int block_keys = kBlockKeys;  // of the passes' blocks
};
GatherVisits VisitsOf(const GatherWork& work);

}  // namespace varifocal::kernels::cuda

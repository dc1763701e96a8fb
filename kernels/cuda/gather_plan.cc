#include "kernels/cuda/gather_plan.h"

#include <algorithm>
#include <bit>

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {
namespace {

int EndOf(const SequenceRows& sequence) { return sequence.first_position + sequence.row_count; }
int RowsFrom(const SequenceRows& sequence, int32_t from) {
  return std::max(0, EndOf(sequence) - std::max(from, sequence.first_position));
}

}  // namespace

size_t GatherSizes::words() const {
  return 2 * entries + list_count * (sizeof(GatherList) / sizeof(int32_t)) +
         passes * (row_count * (sizeof(GatherRow) / sizeof(int32_t)) +
                   tile_stride * (sizeof(GatherTile) / sizeof(int32_t)) + 1);
}

GatherSizes GatherSizesFor(const StepShape& shape, int queries_per_kv_max) {
  GatherSizes sizes;
  sizes.passes = std::min(shape.gather_top_k_max, kGatherPassesMax);
  if (sizes.passes == 0) return {};
  const size_t rows = shape.row_count_max, sequences = std::min(shape.row_count_max, shape.sequence_count_max);
  const size_t room = GatherRoom(sizes.passes, shape.context_length_max, kGroupCountMax);
  sizes.entries = std::max(room, std::min(sequences * room, kGatherEntriesMax));
  sizes.list_count = sequences * kGroupCountMax;
  sizes.row_count = rows;
  sizes.tile_stride =
      GatherTilesMax(static_cast<int>(rows), queries_per_kv_max, 64, static_cast<int>(sizes.list_count));
  return sizes;
}

std::vector<GatherWave> PlanGather(std::span<const SequenceRows> sequences, int32_t from, int group_count, int top_k,
                                   const GatherSizes& sizes) {
  std::vector<GatherWave> waves;
  size_t entries = 0;
  for (int s = 0; s < std::ssize(sequences); ++s) {
    const int rows = RowsFrom(sequences[s], from);
    const size_t room = GatherRoom(top_k, rows > 0 ? EndOf(sequences[s]) : 0, group_count);
    VF_CHECK(room <= sizes.entries, "the workspace was planned for this context");
    if (waves.empty() || entries + room > sizes.entries ||
        (waves.back().sequence_count + 1) * group_count > kGatherListsMax) {
      if (!waves.empty() && waves.back().row_count == 0) waves.pop_back();
      waves.push_back({.first_sequence = s});
      entries = 0;
    }
    entries += room;
    ++waves.back().sequence_count;
    waves.back().row_count += rows;
  }
  if (!waves.empty() && waves.back().row_count == 0) waves.pop_back();
  return waves;
}

bool HasRowsBelow(std::span<const SequenceRows> sequences, int32_t from) {
  return std::any_of(sequences.begin(), sequences.end(),
                     [&](const SequenceRows& s) { return s.row_count > 0 && s.first_position < from; });
}

GatherVisits VisitsOf(const GatherWork& work) {
  GatherVisits visits;
  const int end = static_cast<int>(work.groups.size()), from = std::max(work.from, work.first_position);
  const int rows_of_tile = PrefillTileRows(work.head_dim);
  // The window's part: tiles as the host cuts the step, in halves of 64 tile rows, without the rows below.
  const int step_rows = (end - work.first_position) * work.queries_per_kv;
  for (int tile = 0; tile < step_rows && work.window > 0; tile += rows_of_tile) {
    for (int half = tile; half < std::min(tile + rows_of_tile, step_rows); half += 64) {
      const int first = std::max(half, (from - work.first_position) * work.queries_per_kv);
      const int last = std::min(half + 64, step_rows) - 1;
      if (first > last) continue;
      const auto position = [&](int tile_row) { return work.first_position + tile_row / work.queries_per_kv; };
      const BlockRange blocks = BlocksOf(std::max(0, position(first) - work.window), position(last) + 1);
      ++visits.window_tiles;
      visits.window_blocks += blocks.last - blocks.first;
      for (int warp = 0; warp < 4; ++warp) {
        const auto tile_row = [&](int index) { return std::min(first + index, last); };
        const int begin = std::max(0, position(tile_row(16 * warp)) - work.window),
                  seen = position(tile_row(16 * warp + 15)) + 1;
        const BlockRange own = BlocksOf(begin, seen);
        visits.window_warps += own.last - own.first;
      }
    }
  }
  for (int group = 0; group < work.group_count; ++group) {
    std::vector<int> ranks[kGatherPassesMax];  // of the rows of each pass
    int rank = 0;
    for (int position = 0; position < end; ++position) {
      const TokenGroups groups = work.groups[position];
      if ((groups >> group & 1) == 0) continue;
      const int pass = std::popcount(groups & ((1u << group) - 1));
      if (position >= from) ranks[pass].push_back(rank);
      ++rank;
    }
    for (int pass = 0; pass < work.top_k; ++pass) {
      const int all = static_cast<int>(ranks[pass].size()) * work.queries_per_kv, tile_rows = work.tile_rows[pass];
      for (int first = 0; first < all; first += tile_rows) {
        const int last = std::min(first + tile_rows, all) - 1;
        const auto blocks_of = [&](int tile_row) {
          return ranks[pass][std::min(tile_row, last) / work.queries_per_kv] / work.block_keys + 1;
        };
        ++visits.pass_tiles[pass];
        visits.pass_blocks[pass] += blocks_of(last);
        // Without a test of groups no warp looks whether it sees a block.
        for (int warp = 0; warp < 4; ++warp) {
          const int rows = tile_rows / 4;
          visits.pass_warps[pass] += blocks_of(pass == 0 ? last : first + (warp + 1) * rows - 1);
        }
      }
    }
  }
  return visits;
}

}  // namespace varifocal::kernels::cuda

#include "kernels/cuda/attention_sm90_load.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace varifocal::kernels::cuda {
namespace {

// Of device memory, in the time of a key block on a Hopper: 3 TB/s, 1.7 us (docs/gpu/kernels.md).
constexpr double kBytesPerUnit = 5e6;

}  // namespace

Sm90Load LoadOfSm90(const Sm90Work& work, bool segments_apart, const Sm90Tuning& tuning, int multiprocessors) {
  const int tiles = static_cast<int>(work.tiles.size()), heads = work.kv_head_count;
  if (tiles == 0 || heads == 0) return {};
  const Sm90Grid grid =
      PlanSm90Grid(tiles, heads, work.key_count, segments_apart, work.head_dim, tuning, multiprocessors);
  struct Multiprocessor {
    double free_at = 0;
    int items_left = 0;  // of its block
    bool operator>(const Multiprocessor& other) const { return free_at > other.free_at; }
  };
  const int items_max = tuning.items_per_block > 0 ? tuning.items_per_block : grid.work_count;
  std::priority_queue<Multiprocessor, std::vector<Multiprocessor>, std::greater<>> waiting;
  for (int i = 0; i < multiprocessors; ++i) waiting.push({});
  int started = 0;
  Sm90Load load;
  for (int item = 0; item < grid.work_count; ++item) {
    const Sm90ItemPlace place = Sm90PlaceOf(grid, heads, item);
    const RowInterval& seen = work.tiles[place.tile];
    const BlockRange blocks =
        Sm90BlocksOf(seen.begin, seen.end, Sm90BlockKeys(work.head_dim), segments_apart, place.segment);
    const int count = std::max(blocks.last - blocks.first, 0);
    if (count == 0 && segments_apart) continue;
    Multiprocessor first = waiting.top();
    waiting.pop();
    if (first.items_left == 0) {
      first.items_left = items_max;
      if (++started > multiprocessors) first.free_at += kSm90BlockUnits;
    }
    --first.items_left;
    first.free_at += count + kSm90ItemUnits;
    load.blocks += count;
    load.units = std::max(load.units, first.free_at);
    waiting.push(first);
  }
  return load;
}

double Sm90MergeUnits(const Sm90Work& work) {
  const double results =
      static_cast<double>(work.row_count) * work.query_head_count * CeilDivide(work.key_count, kSegmentKeys);
  return 2 * results * (work.head_dim + 2) * sizeof(float) / kBytesPerUnit;
}

bool Sm90SegmentsApart(const Sm90Work& work, const Sm90Tuning& tuning, int multiprocessors) {
  if (work.key_count <= kSegmentKeys) return false;
  return LoadOfSm90(work, /*segments_apart=*/true, tuning, multiprocessors).units + Sm90MergeUnits(work) <
         LoadOfSm90(work, /*segments_apart=*/false, tuning, multiprocessors).units;
}

}  // namespace varifocal::kernels::cuda

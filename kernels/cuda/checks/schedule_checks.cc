// Tiles, blocks and splits, against the definition: every lane in one tile, every visible key in one block and split,
// nothing that depends on neighbours.

#include <algorithm>
#include <map>

#include "kernels/conformance/rig.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {
namespace {

std::string CheckBlocksOf() {
  for (int begin = 0; begin < 300; ++begin) {
    for (int end = 0; end < 300; ++end) {
      const BlockRange blocks = BlocksOf(begin, end);
      for (int block = 0; block < 6; ++block) {
        const bool holds = std::max(begin, block * kBlockKeys) < std::min(end, (block + 1) * kBlockKeys);
        if (begin < end && holds != (block >= blocks.first && block < blocks.last)) {
          return "block " + std::to_string(block) + " of keys " + std::to_string(begin) + ".." + std::to_string(end);
        }
        const bool full = begin <= block * kBlockKeys && end >= (block + 1) * kBlockKeys;
        if (full != BlockIsFull(block, begin, end)) return "a block is taken for full";
      }
      if (begin >= end && blocks.first < blocks.last) return "no keys have a block";
    }
  }
  return "";
}

std::string CheckSplits() {
  std::vector<RowInterval> mask;
  for (int i = 0; i < 400; ++i) {
    const int begin = static_cast<int>(Mix(1, i) % 5000), end = static_cast<int>(Mix(2, i) % 5000);
    mask.push_back({begin, end});
  }
  mask.push_back({0, 0});
  mask.push_back({1024, 1025});
  mask.push_back({1023, 1024});
  const std::vector<DecodeItem> items = PlanSplits(mask);
  std::map<int, std::vector<int>> found;
  for (const DecodeItem& item : items) found[item.row].push_back(item.split);
  for (int row = 0; row < static_cast<int>(mask.size()); ++row) {
    std::vector<int> wanted;
    for (int split = 0; split < 6; ++split) {
      if (std::max(mask[row].begin, split * kSplitKeys) < std::min(mask[row].end, (split + 1) * kSplitKeys)) {
        wanted.push_back(split);
      }
    }
    if (mask[row].begin >= mask[row].end) wanted.clear();
    if (found[row] != wanted) return "row " + std::to_string(row) + " has other splits than its keys";
  }
  return "";
}

// Every lane of every sequence stands in exactly one tile; long ranges come first.
std::string CheckTiles() {
  for (const int group : {1, 2, 3, 7, 16, 200}) {
    for (const int lanes : {64, 128}) {
      std::vector<SequenceRows> sequences(6);
      const int rows[] = {300, 1, 0, 129, 64, 17}, firsts[] = {0, 999, 5, 128, 4000, 1};
      for (int s = 0; s < 6; ++s) sequences[s] = {.row_count = rows[s], .first_position = firsts[s]};
      FlatBatch flat;
      const StepShape shape{.row_count_max = 1000, .sequence_count_max = 6, .context_length_max = 5000};
      if (!flat.Assign({.sequences = sequences}, shape).ok()) return "the batch is valid";
      std::map<std::pair<int, int>, int> seen;
      int last = 1 << 30;
      for (const QueryTile& tile : PlanTiles(flat, group, lanes)) {
        if (tile.lane_count < 1 || tile.lane_count > lanes) return "a tile has no lanes, or too many";
        for (int i = 0; i < tile.lane_count; ++i) ++seen[{tile.sequence, tile.first_lane + i}];
        const int position = firsts[tile.sequence] + (tile.first_lane + tile.lane_count - 1) / group;
        if (position > last) return "a longer tile comes later";
        last = position;
      }
      size_t total = 0;
      for (const int r : rows) total += static_cast<size_t>(r) * group;
      if (seen.size() != total) return "lanes are missing or double";
      for (const auto& [lane, count] : seen) {
        if (count != 1) return "a lane stands in two tiles";
      }
    }
  }
  return "";
}

// K is cut into whole steps that cover it, the same for every number of rows, and not too finely.
std::string CheckSplitK() {
  for (const int outputs : {1, 63, 64, 65, 512, 2560, 7680, 8192, 13824, 50257}) {
    for (const int inner : {1, 16, 64, 65, 255, 256, 1000, 2560, 6912, 13824}) {
      const int splits = DecodeSplitK(outputs, inner), steps = SplitSteps(inner, splits), all = CeilDivide(inner, 64);
      if (splits < 1 || steps * splits < all || (splits > 1 && (splits - 1) * steps >= all)) {
        return std::to_string(splits) + " splits of " + std::to_string(steps) + " steps for K " + std::to_string(inner);
      }
      if (splits > 1 && steps < 4) return "a split of fewer than 4 steps for K " + std::to_string(inner);
    }
  }
  return "";
}

// What admission counts is what a workspace takes, and a plan for many rows grows with them alone.
std::string CheckSizes() {
  const StepShape shape{.row_count_max = 2048,
                        .sequence_count_max = 16,
                        .head_row_count_max = 64,
                        .context_length_max = 32768,
                        .model_dim = 2560,
                        .query_head_count = 20,
                        .kv_head_count = 20,
                        .head_dim = 128,
                        .ffn_dim = 6912,
                        .vocab_size = 50257};
  const WorkspaceSizes sizes = SizesFor(shape);
  // The largest product of such a step is q, k and v in f32; gate and up are bf16.
  if (sizes.product_bytes != size_t{2048} * 7680 * 4) return "scratch is " + std::to_string(sizes.product_bytes);
  if (sizes.partial_floats != size_t{16} * 20 * 32 * 130) return "partials are " + std::to_string(sizes.partial_floats);
  return "";
}

}  // namespace

std::vector<NamedCheck> ScheduleChecks() {
  return {{"schedule_blocks", CheckBlocksOf},
          {"schedule_decode_splits", CheckSplits},
          {"schedule_tiles", CheckTiles},
          {"schedule_split_k", CheckSplitK},
          {"schedule_sizes", CheckSizes}};
}

}  // namespace varifocal::kernels::cuda

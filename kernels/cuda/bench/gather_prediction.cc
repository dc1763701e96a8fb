// What attention by groups with gathered keys is expected to take beside dense attention, before any run (docs/gpu/kernels.md).
//
// Blocks are counted as the kernels visit them (gather_plan.h), for groups drawn evenly. Where mma reads the lists, their time is that
// of the mma kernel as it was measured on an H100, and states and queries pass at the device's rate of a copy. Where sm90 does,
// it is that of the cycle model (prediction.cc), for dense attention as well.

#include <algorithm>
#include <bit>
#include <cstdio>

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/attention_choice.h"
#include "kernels/cuda/attention_sm90_load.h"
#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/gather_plan.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kHeads = 20, kDim = 128, kWindow = 128;
// 4.2 ms at 16K; with masks of groups, and half tiles, 0.77 of that rate (docs/gpu/results, h100-2026-11-27-first.json).
constexpr double kSecondsABlock = 12.8e-9, kMasked = 1 / 0.77;
// Copies row by row take more instructions.
constexpr double kGathered = 1.05;
// Of a launch that follows another: its start, and its end with fewer and fewer blocks.
constexpr double kSecondsALaunch = 8e-6;
// Dense attention of the kernel sm90, in the middle of what is predicted.
constexpr double kSm90Flops = 640e12;

// Of the lists by sm90, at best and at worst. Copies row by row beside copies of pages: the tag stage of the L1 cache, 512 cycles of a
// block, hides under products or not.
constexpr double kGatheredSm90[] = {1.05, 1.15};
// The test of groups: 202 instructions more a warp, of two warps a scheduler, under products or not.
constexpr double kMaskCycles[] = {200, 400};
// A tile's start and end, in blocks, beside its states.
constexpr double kTileBlocks = kSm90ItemUnits;
constexpr double kBusy = 0.98;

std::vector<TokenGroups> DrawGroups(int group_count, int top_k, int length) {
  std::vector<TokenGroups> groups(length);
  for (int position = 0; position < length; ++position) {
    for (uint64_t draw = 0; std::popcount(groups[position]) < top_k; ++draw)
      groups[position] |= 1u << Mix(31, position * 64 + draw) % group_count;
  }
  return groups;
}

// Blocks of `keys` keys under 128 tile rows of the first rows.
double CausalBlocks(int rows, int keys) {
  double blocks = 0;
  for (int first = 0; first < rows; first += 128) blocks += CeilDivide(std::min(first + 128, rows), keys);
  return blocks;
}
// Of each part queries and a state that is written and, by the next one, read; then the output.
double StateBytes(double rows, int top_k) {
  return rows * (4.0 * kDim * (top_k + 1) + 8.0 * (kDim + 2) * top_k + 2.0 * kDim);
}

void PrintSm90Setting(int group_count, int top_k, int length, const DeviceRates& rates) {
  const std::vector<TokenGroups> groups = DrawGroups(group_count, top_k, length);
  const AttentionChoice choice{.sm90 = true, .gathered = true};
  GatherWork work{.groups = groups,
                  .from = std::min(length, GatherFrom(group_count, top_k, kWindow, choice.gather_costs())),
                  .group_count = group_count,
                  .top_k = top_k,
                  .window = kWindow,
                  .head_dim = kDim,
                  .block_keys = Sm90BlockKeys(kDim)};
  for (int pass = 0; pass < top_k; ++pass) work.tile_rows[pass] = kSm90TileRows;
  const GatherVisits visits = VisitsOf(work);
  const double dense_blocks = CausalBlocks(length, Sm90BlockKeys(kDim));
  const Bounds cycles = Sm90BlockCycles(kDim, rates);
  // Bytes of states and queries of the whole device: a multiprocessor alone receives 64 a cycle; all at once the memory's.
  const double state_bytes[] = {64.0 * rates.multiprocessors * rates.hertz, rates.copy_bytes_per_second};
  const double bytes = kHeads * StateBytes(length - work.from, top_k);
  double dense[2], lists[2], others[2], states[2], whole[2], blocks = 0;
  for (int i = 0; i < 2; ++i) {  // at best, at worst
    const double block = i == 0 ? cycles.best : cycles.worst;
    const auto seconds = [&](double all) { return kHeads * all / (rates.multiprocessors * rates.hertz * kBusy); };
    double all = 0;
    blocks = 0;
    for (int pass = 0; pass < top_k; ++pass) {
      blocks += visits.pass_blocks[pass];
      all += visits.pass_blocks[pass] * (block * kGatheredSm90[i] + (pass > 0 ? kMaskCycles[i] : 0)) +
             visits.pass_tiles[pass] * kTileBlocks * block;
    }
    dense[i] = seconds(dense_blocks * block);
    lists[i] = seconds(all);
    // mma has the window's part; in blocks of 64 keys under 128 tile rows.
    others[i] = seconds(CausalBlocks(work.from, Sm90BlockKeys(kDim)) * (block + kMaskCycles[i])) +
                kHeads * visits.window_blocks / 2.0 * kMasked * kSecondsABlock + (top_k + 4) * kSecondsALaunch;
    states[i] = bytes / state_bytes[i];
    whole[i] = lists[i] + others[i] + states[i];
  }
  const auto range = [](const double(&of)[2]) {
    char text[64];
    std::snprintf(text, sizeof text, "%.2f to %.2f", 1e3 * of[0], 1e3 * of[1]);
    return std::string(text);
  };
  const double gains[] = {dense[0] / whole[0], dense[1] / whole[1]};
  std::printf("| %d, %d | %d | %d | %.0f %% | %s | %s | %s | %s | %s | %.1f to %.1f |\n", group_count, top_k, length,
              work.from, 100 * blocks / dense_blocks, range(dense).c_str(), range(lists).c_str(), range(others).c_str(),
              range(states).c_str(), range(whole).c_str(), std::min(gains[0], gains[1]), std::max(gains[0], gains[1]));
}

void PrintSetting(int group_count, int top_k, int length, const DeviceRates& rates) {
  const std::vector<TokenGroups> groups = DrawGroups(group_count, top_k, length);
  const AttentionChoice choice{.gathered = true};
  GatherWork work{.groups = groups,
                  .from = std::min(length, GatherFrom(group_count, top_k, kWindow, choice.gather_costs())),
                  .group_count = group_count,
                  .top_k = top_k,
                  .window = kWindow,
                  .head_dim = kDim};
  for (int pass = 0; pass < top_k; ++pass) work.tile_rows[pass] = 64 * GatherTilesPerWarp(kDim, pass > 0);
  const GatherVisits visits = VisitsOf(work);
  // In blocks of 64 keys under 128 tile rows.
  const double dense = CausalBlocks(length, kBlockKeys), below = CausalBlocks(work.from, kBlockKeys),
               window = visits.window_blocks / 2.0;
  double passes = 0, cost = (below + window) * kMasked;
  for (int pass = 0; pass < top_k; ++pass) {
    const double blocks = visits.pass_blocks[pass] * work.tile_rows[pass] / 128.0;
    passes += blocks;
    cost += blocks * (pass > 0 ? kMasked : kGathered);
  }
  const double bytes = StateBytes(length - work.from, top_k);
  const double dense_ms = 1e3 * kHeads * dense * kSecondsABlock;
  const double ms =
      1e3 * (kHeads * (cost * kSecondsABlock + bytes / rates.copy_bytes_per_second) + (top_k + 4) * kSecondsALaunch);
  const double sm90_ms = 1e3 * 2.0 * length * length * kHeads * kDim / kSm90Flops;
  std::printf("| %d, %d | %d | %.0f %% | %d | 100 %% | %.0f %% | %.0f %% | %.2f | %.2f | %.2f | %.1f | %.1f |\n",
              group_count, top_k, length, 100 * SharedGroupPairs(group_count, top_k), work.from,
              100 * (below + window) / dense, 100 * passes / dense, dense_ms, dense_ms * kMasked, ms, dense_ms / ms,
              sm90_ms / ms);
}

}  // namespace

void PrintGatherPredictions(const DeviceRates& rates) {
  std::printf(
      "\n| Groups, a token's | Length | Pairs with a group in common | From | Blocks visited of dense: masks | gathered: window "
      "and rows before | lists | ms: dense | masked | gathered | Times dense | Times dense of sm90 |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  const auto print = [&rates](const auto& setting) {
    for (const auto& [group_count, top_k] : {std::pair{8, 1}, {16, 2}, {32, 2}, {8, 2}}) {
      for (const int length : {8192, 16384, 32768}) setting(group_count, top_k, length, rates);
    }
  };
  print(PrintSetting);
  std::printf(
      "\n| Groups, a token's | Length | From | Blocks of the lists of dense | ms: dense of sm90 | lists | window, rows before, launches "
      "| states and queries | gathered | Times dense of sm90 |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  print(PrintSm90Setting);
}

}  // namespace varifocal::kernels::cuda

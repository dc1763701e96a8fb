// What attention by groups with gathered keys is expected to take beside dense attention, before any run (docs/gpu/kernels.md).
//
// Blocks are counted as the kernels visit them (gather_plan.h), for groups drawn evenly; their time is that of the mma kernel as it
// was measured on an H100, and states and queries pass at the device's rate of a copy.

#include <bit>
#include <cstdio>

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/attention_choice.h"
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

void PrintSetting(int group_count, int top_k, int length, const DeviceRates& rates) {
  std::vector<TokenGroups> groups(length);
  for (int position = 0; position < length; ++position) {
    for (uint64_t draw = 0; std::popcount(groups[position]) < top_k; ++draw) {
      groups[position] |= 1u << Mix(31, position * 64 + draw) % group_count;
    }
  }
  const AttentionChoice choice{.gathered = true};
  GatherWork work{.groups = groups,
                  .from = std::min(length, GatherFrom(group_count, top_k, kWindow, choice.gather_costs())),
                  .group_count = group_count,
                  .top_k = top_k,
                  .window = kWindow,
                  .head_dim = kDim};
  for (int pass = 0; pass < top_k; ++pass) work.tile_rows[pass] = 64 * GatherTilesPerWarp(kDim, pass > 0);
  const GatherVisits visits = VisitsOf(work);
  // In blocks of 64 keys under 128 lanes.
  const auto causal = [](int rows) {
    double blocks = 0;
    for (int first = 0; first < rows; first += 128) blocks += CeilDivide(std::min(first + 128, rows), kBlockKeys);
    return blocks;
  };
  const double dense = causal(length), below = causal(work.from), window = visits.window_blocks / 2.0;
  double passes = 0, cost = (below + window) * kMasked, bytes = 0;
  for (int pass = 0; pass < top_k; ++pass) {
    const double blocks = visits.pass_blocks[pass] * work.tile_rows[pass] / 128.0;
    passes += blocks;
    cost += blocks * (pass > 0 ? kMasked : kGathered);
  }
  const double rows = length - work.from;
  // Of each part queries and a state that is written and, by the next one, read; then the output.
  bytes = rows * (4.0 * kDim * (top_k + 1) + 8.0 * (kDim + 2) * top_k + 2.0 * kDim);
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
  for (const auto& [group_count, top_k] : {std::pair{8, 1}, {16, 2}, {32, 2}, {8, 2}}) {
    for (const int length : {8192, 16384, 32768}) PrintSetting(group_count, top_k, length, rates);
  }
}

}  // namespace varifocal::kernels::cuda

// The cycle model of the sm90 attention kernel: what a run on an H100 is expected to show, before any (docs/gpu/kernels.md).
//
// A cell takes as many units as its longest multiprocessor (attention_sm90_load.h). A unit takes the cycles that Sm90BlockCycles
// predicts, but never less than the L2 cache takes to deliver the keys and values of all multiprocessors.

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/attention_sm90_load.h"
#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr double kL2BytesPerSecond = 5.75e12;
// Products of a warpgroup pair: multiplications and additions a cycle of a multiprocessor.
constexpr double kTensorRate = 2048;

void PrintCell(const Cell& cell, const Sm90Tuning& tuning) {
  std::vector<SequenceRows> sequences;
  std::vector<RowInterval> mask;
  for (int s = 0; s < cell.sequences; ++s) {
    const int rows = RowsOf(cell, s);
    sequences.push_back({.row_count = rows, .first_position = cell.context});
    for (int r = 0; r < rows; ++r) mask.push_back(CausalInterval(cell.context + r));
  }
  const int row_count = static_cast<int>(mask.size()), group = cell.heads / cell.kv_heads;
  FlatBatch flat;
  Must(flat.Assign({.sequences = sequences}, {.row_count_max = row_count,
                                              .sequence_count_max = cell.sequences,
                                              .context_length_max = cell.context + cell.rows}));
  const std::vector<RowInterval> tiles = KeysOfTiles(flat, PlanTiles(flat, group, kSm90Lanes), mask, group);
  const Sm90Work work{.tiles = tiles,
                      .row_count = row_count,
                      .query_head_count = cell.heads,
                      .kv_head_count = cell.kv_heads,
                      .head_dim = cell.head_dim,
                      .key_count = cell.context + cell.rows};
  const bool apart = SegmentsFit(row_count, work.key_count, StepRowsOf(cell)) &&
                     Sm90SegmentsApart(work, tuning, kModelMultiprocessors);
  const Sm90Load load = LoadOfSm90(work, apart, tuning, kModelMultiprocessors);
  const double units = load.units + (apart ? Sm90MergeUnits(work) : 0);
  double pairs = 0;
  for (const RowInterval& seen : mask) pairs += seen.end - seen.begin;
  const double flops = 4 * pairs * cell.heads * cell.head_dim;
  const BlockCycles cycles = Sm90BlockCycles(cell.head_dim);
  const double best = units * cycles.best / kModelHertz, worst = units * cycles.worst / kModelHertz;
  std::printf("| %s | %s | %.0f %% | %.0f to %.0f | %.3g to %.3g | %.0f to %.0f |\n", cell.name.c_str(),
              apart ? "apart" : "in order", 100 * load.blocks / (load.units * kModelMultiprocessors), cycles.best,
              cycles.worst, best * 1e3, worst * 1e3, flops / worst * 1e-12, flops / best * 1e-12);
}

}  // namespace

BlockCycles Sm90BlockCycles(int dim) {
  const double tensor = 2.0 * kSm90Lanes * Sm90BlockKeys(dim) * dim / kTensorRate;
  const double bytes = 4.0 * Sm90BlockKeys(dim) * dim * kModelMultiprocessors;
  const double cache = bytes / kL2BytesPerSecond * kModelHertz;
  return {std::max(tensor + 650, cache), std::max(tensor + 1300, cache)};
}

void PrintPredictions(const std::vector<Cell>& cells, const Sm90Tuning& tuning) {
  std::printf(
      "| Cell | Segments | Busy | Cycles a block | ms | TFLOP/s |\n| --- | --- | ---: | ---: | ---: | ---: |\n");
  for (const Cell& cell : cells) {
    const bool is_attention = cell.kind == "attention" && cell.group_count == 0;
    if (is_attention && Sm90Supports(cell.head_dim, false, false)) PrintCell(cell, tuning);
  }
}

}  // namespace varifocal::kernels::cuda

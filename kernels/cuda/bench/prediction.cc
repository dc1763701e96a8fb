// The cycle model of the sm90 attention kernel: what a run on a device is expected to show, before any (docs/gpu/kernels.md).
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

// Products of a warpgroup pair: multiplications and additions a cycle of a multiprocessor.
constexpr double kTensorRate = 2048;

struct Prediction {
  bool apart = false;
  double busy = 0, flops = 0;
  Bounds cycles, seconds;
};

Prediction Predict(const Cell& cell, const Sm90Tuning& tuning, const DeviceRates& rates) {
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
  const std::vector<RowInterval> tiles = KeysOfTiles(flat, PlanTiles(flat, group, kSm90TileRows), mask, group);
  const Sm90Work work{.tiles = tiles,
                      .row_count = row_count,
                      .query_head_count = cell.heads,
                      .kv_head_count = cell.kv_heads,
                      .head_dim = cell.head_dim,
                      .key_count = cell.context + cell.rows};
  Prediction p;
  p.apart = SegmentsFit(row_count, work.key_count, StepRowsOf(cell)) &&
            Sm90SegmentsApart(work, tuning, rates.multiprocessors);
  const Sm90Load load = LoadOfSm90(work, p.apart, tuning, rates.multiprocessors);
  const double units = load.units + (p.apart ? Sm90MergeUnits(work) : 0);
  p.busy = load.blocks / (load.units * rates.multiprocessors);
  double pairs = 0;
  for (const RowInterval& seen : mask) pairs += seen.end - seen.begin;
  p.flops = 4 * pairs * cell.heads * cell.head_dim;
  p.cycles = Sm90BlockCycles(cell.head_dim, rates);
  p.seconds = {units * p.cycles.best / rates.hertz, units * p.cycles.worst / rates.hertz};
  return p;
}

}  // namespace

Bounds Sm90BlockCycles(int dim, const DeviceRates& rates) {
  const double tensor = 2.0 * kSm90TileRows * Sm90BlockKeys(dim) * dim / kTensorRate;
  const double bytes = 4.0 * Sm90BlockKeys(dim) * dim * rates.multiprocessors;
  const double cache = bytes / rates.l2_bytes_per_second * rates.hertz;
  return {std::max(tensor + 650, cache), std::max(tensor + 1300, cache)};
}

Bounds PredictSm90(const Cell& cell, const Sm90Tuning& tuning, const DeviceRates& rates) {
  return Predict(cell, tuning, rates).seconds;
}

void PrintPredictions(const std::vector<Cell>& cells, const Sm90Tuning& tuning, const DeviceRates& rates) {
  std::printf("Predicted for one %s.\n\n", rates.name);
  std::printf(
      "| Cell | Segments | Busy | Cycles a block | ms | TFLOP/s |\n| --- | --- | ---: | ---: | ---: | ---: |\n");
  for (const Cell& cell : cells) {
    if (cell.kind != "attention" || cell.group_count != 0 || !Sm90Supports(cell.head_dim, false, false)) continue;
    const Prediction p = Predict(cell, tuning, rates);
    std::printf("| %s | %s | %.0f %% | %.0f to %.0f | %.3g to %.3g | %.0f to %.0f |\n", cell.name.c_str(),
                p.apart ? "apart" : "in order", 100 * p.busy, p.cycles.best, p.cycles.worst, p.seconds.best * 1e3,
                p.seconds.worst * 1e3, p.flops / p.seconds.worst * 1e-12, p.flops / p.seconds.best * 1e-12);
  }
}

}  // namespace varifocal::kernels::cuda

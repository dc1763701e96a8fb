// What decode steps and whole prompts are expected to take, before any run (docs/gpu/kernels.md).
//
// A decode step reads weights and keys at the rate of a copy, and each of its kernels takes some time more: its start, and an end with
// fewer and fewer blocks. A layer of a prompt is its products, its attention, and row kernels, whose bytes pass at a rate measured once.

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {
namespace {

// Kernels of a decode step, and seconds of one beyond its bytes.
struct DecodeKind {
  int kernels_per_layer;
  Bounds beyond;
};
// 3.5 ms a step of 2.7B at 1K (docs/gpu/results), of which 1.87 are bytes.
constexpr DecodeKind kSeparate = {10, {5.1e-6, 5.1e-6}};
// Judged: a start of 1.5 us under programmatic launch, and an end of 1 to 2 us that the next weights do not hide.
constexpr DecodeKind kAhead = {10, {2.5e-6, 3.5e-6}};
// And of 0.5 to 1.4 us where each kernel is a large one.
constexpr DecodeKind kFused = {5, {2.0e-6, 2.9e-6}};

// Of the 8K prompt of 2.7B, a layer: 1.10 ms of mma attention, 1.74 of products, 0.75 of the rest.
constexpr double kMmaFlops = 312e12, kProductsOfCeiling = 0.99, kRestOfCopy = 1 / 1.69;

struct LayerSize {
  double weights, projected, attended,
      keys_values;  // numbers: of all weights; of a row's q, k, v; its queries; its k, v
};
LayerSize SizeOf(const LlamaShape& m) {
  const double attended = 1.0 * m.heads * m.head_dim, keys_values = 2.0 * m.kv_heads * m.head_dim;
  const double projected = attended + keys_values;
  return {m.width * (projected + attended + 3.0 * m.ffn), projected, attended, keys_values};
}
double HeadBytes(const LlamaShape& m) { return 2.0 * m.vocab * m.width; }

void PrintDecode(const Cell& cell, const DeviceRates& rates) {
  const LayerSize size = SizeOf(cell.model);
  const double weights = 2 * size.weights * cell.model.layers + HeadBytes(cell.model);
  const double keys = 2 * size.keys_values * cell.model.layers * cell.context * cell.sequences;
  std::printf("| %s | %.2f, %.2f |", cell.name.c_str(), weights * 1e-9, keys * 1e-9);
  if (weights + keys > rates.memory_bytes) {
    std::printf(" does not fit | | | |\n");
    return;
  }
  const double floor = (weights + keys) / rates.copy_bytes_per_second;
  std::printf(" %.2f |", floor * 1e3);
  for (const DecodeKind& kind : {kSeparate, kAhead, kFused}) {
    const double kernels = kind.kernels_per_layer * cell.model.layers;
    const double best = floor + kernels * kind.beyond.best, worst = floor + kernels * kind.beyond.worst;
    if (best == worst) {
      std::printf(" %.2f (%.2f) |", worst * 1e3, floor / worst);
    } else {
      std::printf(" %.2f to %.2f (%.2f to %.2f) |", best * 1e3, worst * 1e3, floor / worst, floor / best);
    }
  }
  std::printf("\n");
}

void PrintPrompt(const Cell& cell, const Sm90Tuning& tuning, const DeviceRates& rates) {
  const LlamaShape& m = cell.model;
  const LayerSize size = SizeOf(m);
  const double rows = cell.rows, head = HeadBytes(m) / rates.copy_bytes_per_second;
  const double product_flops = 2 * rows * size.weights, attention_flops = 2 * rows * (rows + 1) * size.attended;
  const double floor = m.layers * (product_flops + attention_flops) / rates.product_flops + head;
  const double products = product_flops / (rates.product_flops * kProductsOfCeiling);
  // Read and written by kernels that are no products: q, k, v; twice a sum, the residual and a norm; gates.
  const double row_bytes =
      4 * size.projected + 4 * size.attended + 2 * size.keys_values + 2 * 14.0 * m.width + 6.0 * m.ffn;
  const double rest = rows * row_bytes / (rates.copy_bytes_per_second * kRestOfCopy);
  // Neither written nor read where a product's epilogue has it in registers: gate and up in bf16; q, k, v in f32.
  const double gates = rows * 8.0 * m.ffn / rates.copy_bytes_per_second;
  const double projections = rows * 8 * size.projected / rates.copy_bytes_per_second;
  const Bounds attention =
      PredictSm90({.heads = m.heads, .kv_heads = m.kv_heads, .head_dim = m.head_dim, .rows = cell.rows}, tuning, rates);
  const auto whole = [&](double attend, double saved) { return head + m.layers * (products + attend + rest - saved); };
  const double now = whole(attention_flops / kMmaFlops, 0);
  std::printf("| %s | %.1f | %.0f (%.2f) |", cell.name.c_str(), floor * 1e3, now * 1e3, floor / now);
  for (const double saved : {0.0, gates, gates + projections}) {
    const double best = whole(attention.best, saved), worst = whole(attention.worst, saved);
    std::printf(" %.0f to %.0f (%.2f to %.2f) |", best * 1e3, worst * 1e3, floor / worst, floor / best);
  }
  std::printf("\n");
}

}  // namespace

void PrintModelPredictions(const std::vector<Cell>& cells, const Sm90Tuning& tuning, const DeviceRates& rates) {
  std::printf(
      "\n| Decode step | GB: weights, keys | Floor, ms | ten kernels a layer (share of the floor) | which ask ahead | five |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Cell& cell : cells) {
    if (cell.kind == "model_decode" && !cell.graphs && !cell.draws) PrintDecode(cell, rates);
  }
  std::printf(
      "\n| Whole prompt | Floor, ms | mma and the library | sm90 attention | and gates in the product | and q, k, v |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const Cell& cell : cells) {
    if (cell.kind == "model_prefill" && !cell.learned_tau) PrintPrompt(cell, tuning, rates);
  }
}

}  // namespace varifocal::kernels::cuda

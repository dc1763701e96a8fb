// What whole prompts of 8,192 tokens are expected to take, before any run (docs/gpu/kernels.md): a layer's products, what
// follows them, attention and norms, with and without the epilogues of the product kernel sm90.
//
// Of two numbers the first assumes that nothing but what is named costs time, the second what was measured or published of the like.

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/matmul_sm90_layout.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kRows = 8192;
// Measured on an H100 (docs/gpu/README.md): the library's layer products.
constexpr double kLibraryRate = 747e12;
// Row kernels move their bytes at this share of a copy's rate: as measured of a layer (0.34 ms of bytes took 0.75), and at best.
constexpr double kRowShareWorst = 0.45, kRowShareBest = 0.9;
// The kernel sm90 of attention (gpu_bench --predict).
constexpr double kAttentionWorst = 549e12, kAttentionBest = 682e12;
// Stages of 64 columns of K and a tile of 128 x 256. The tensor cores take 1,024 cycles. At best the rate is that of a published kernel
// of the same structure without clusters, 777 TFLOP/s; at worst the L2 cache delivers 48 KiB a stage and multiprocessor at 8.1 TB/s, the
// most that kernel is known to have had. With clusters of two, 32 KiB, and that author's 799 TFLOP/s.
constexpr double kStageBest = 1246, kStageWorst = 1402, kStageOfClusters = 1213;
// Of a multiprocessor to its L2 cache, in bytes a cycle; and until the first store of a tile. Of a gate or an up a byte is stored, and
// the time of one special function, 16 a cycle, is that of four.
constexpr double kStoreRate = 64, kStoreLatency = 600, kGateBytes = 5;

Bounds operator+(const Bounds& a, const Bounds& b) { return {a.best + b.best, a.worst + b.worst}; }
Bounds Evenly(double seconds) { return {seconds, seconds}; }

enum class Kind { kLibrary, kApart, kFused, kClusters };

class Prompt {
 public:
  Prompt(const LlamaShape& shape, Kind kind, const DeviceRates& rates) : shape_(shape), kind_(kind), rates_(rates) {}

  double flops() const {
    const double products = 2.0 * kRows * shape_.width * (heads() + attended() + 3.0 * shape_.ffn);
    return products + AttentionFlops();
  }
  Bounds Layer() const {
    const double rows = kRows, width = shape_.width, ffn = shape_.ffn, kv = heads() - attended();
    const bool fused = kind_ == Kind::kFused || kind_ == Kind::kClusters;
    const double gated = kind_ == Kind::kApart ? 4 : 2;  // bytes of a gate's product in memory
    // Bytes of a tile's outputs a row and column, read and written.
    const double of_heads = (attended() * 4 + kv * 2 + attended() * 1.5) / heads();  // and angles
    Bounds all = Product(heads(), width, fused ? of_heads : 4) + Product(width, attended(), 8) +
                 Product(width, ffn, 8) + Product(2 * ffn, width, fused ? kGateBytes : gated);
    if (!fused) all = all + Moved(rows * (4 * heads() + 4 * attended() + 2 * kv)) + Moved(rows * ffn * (2 * gated + 2));
    all = all + Moved(2 * rows * 6 * width);
    return all + Bounds{AttentionFlops() / kAttentionBest, AttentionFlops() / kAttentionWorst};
  }

 private:
  double attended() const { return shape_.heads * shape_.head_dim; }
  double heads() const { return attended() + 2.0 * shape_.kv_heads * shape_.head_dim; }
  double AttentionFlops() const { return 2.0 * kRows * (kRows + 1) * attended(); }
  Bounds Moved(double bytes) const {
    const double seconds = bytes / rates_.copy_bytes_per_second;
    return {seconds / kRowShareBest, seconds / kRowShareWorst};
  }
  Bounds Product(double outputs, double inner, double bytes_of_output) const {
    if (kind_ == Kind::kLibrary) return Evenly(2 * kRows * outputs * inner / kLibraryRate);
    const Sm90ProductGrid grid = PlanSm90Product(kRows, static_cast<int>(outputs), rates_.multiprocessors);
    const double stages = inner / kSm90ProductColumns, turns = CeilDivide(grid.tiles(), grid.block_count);
    const double stores = kStoreLatency + kSm90ProductRows * grid.tile_outputs * bytes_of_output / kStoreRate;
    const auto seconds = [&](double stage) { return turns * (stages * stage + stores) / rates_.hertz; };
    if (kind_ == Kind::kClusters) return Evenly(seconds(kStageOfClusters));
    return {seconds(kStageBest), seconds(kStageWorst)};
  }

  const LlamaShape shape_;
  const Kind kind_;
  const DeviceRates& rates_;
};

}  // namespace

void PrintPromptPredictions(const DeviceRates& rates) {
  constexpr std::pair<Kind, const char*> kKinds[] = {{Kind::kLibrary, "library"},
                                                     {Kind::kApart, "sm90:epilogues=apart"},
                                                     {Kind::kFused, "sm90"},
                                                     {Kind::kClusters, "sm90 with clusters"}};
  std::printf("\n| Prompt of 8K | Products | ms a layer | ms | of the floor |\n| --- | --- | --- | --- | --- |\n");
  for (const Cell& cell : Cells(/*tiny=*/false)) {
    if (cell.kind != "layer_ops" || cell.rows != kRows) continue;
    for (const auto& [kind, name] : kKinds) {
      const Prompt prompt(cell.model, kind, rates);
      const Bounds layer = prompt.Layer();
      const double floor = prompt.flops() / rates.product_flops, count = cell.model.layers * 1e3;
      std::printf("| %s | %s | %.2f to %.2f | %.0f to %.0f | %.2f to %.2f |\n", cell.model.name, name, 1e3 * layer.best,
                  1e3 * layer.worst, count * layer.best, count * layer.worst, floor / layer.worst, floor / layer.best);
    }
  }
}

}  // namespace varifocal::kernels::cuda

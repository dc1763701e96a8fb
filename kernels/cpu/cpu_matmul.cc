#include "kernels/cpu/cpu_matmul.h"

#include <algorithm>

namespace varifocal::kernels::cpu {
namespace {

// Rows of one item: as many as possible, because each item reads its panels again (512 rows are 1.1 to 1.2 times as fast as 96
// where the weight exceeds L2), but few enough for kItemsPerThread items a thread. Blocks are whole register tiles.
constexpr int kTileRows = 6, kBlockRowsMin = 96, kBlockRowsMax = 516;
constexpr int kItemsPerThread = 8;
// Panels of one item: enough to amortize scheduling, few enough to balance.
constexpr size_t kItemBytes = 128 << 10;

// Rows packed by one item.
constexpr int kPackRows = 32;

int BlockRows(int row_count, int panel_runs, int threads) {
  int blocks = (row_count + kBlockRowsMax - 1) / kBlockRowsMax;
  while (blocks * panel_runs < kItemsPerThread * threads && row_count > blocks * kBlockRowsMin) ++blocks;
  const int rows = (row_count + blocks - 1) / blocks;
  return (rows + kTileRows - 1) / kTileRows * kTileRows;
}

}  // namespace

bool RunMatmul(const KernelTable& kernels, ThreadPool& pool, const MatmulArgs& args, float* words,
               const std::atomic<bool>* cancelled) {
  const PackedWeight& weight = *args.weight;
  const int64_t inner = weight.words();
  const float* x = args.x;
  if (kernels.elements_per_word != 1) {
    x = words;
    const int items = (args.row_count + kPackRows - 1) / kPackRows;
    const bool packed = pool.Run(PoolWork::kProducts, items, cancelled, [&](int index, int) {
      const int last = std::min(args.row_count, (index + 1) * kPackRows);
      for (int row = index * kPackRows; row < last; ++row) {
        kernels.pack_row(args.x + row * weight.columns(), weight.columns(), words + row * inner);
      }
    });
    if (!packed) return false;
  }
  const int outputs = weight.panel_outputs();
  const size_t out_stride = weight.gated() ? weight.rows() / 2 : weight.rows();
  const int per_item = std::max<size_t>(1, kItemBytes / (inner * kPanel * sizeof(float)));
  const int panel_runs = (weight.panel_count() + per_item - 1) / per_item;
  const int block_rows = BlockRows(args.row_count, panel_runs, pool.thread_count());
  const int blocks = (args.row_count + block_rows - 1) / block_rows;
  return pool.Run(PoolWork::kProducts, blocks * panel_runs, cancelled, [&](int index, int) {
    const int first_row = index / panel_runs * block_rows;
    const int first_panel = index % panel_runs * per_item;
    const int last_panel = std::min(weight.panel_count(), first_panel + per_item);
    for (int p = first_panel; p < last_panel; ++p) {
      kernels.gemm_panel({.x = x + first_row * inner,
                          .x_stride = static_cast<size_t>(inner),
                          .row_count = std::min(block_rows, args.row_count - first_row),
                          .panel = weight.panel(p),
                          .inner = inner,
                          .epilogue = args.epilogue,
                          .activation = args.activation,
                          .terms = args.terms,
                          .bias = args.bias == nullptr ? nullptr : args.bias + p * outputs,
                          .up_bias = args.bias == nullptr ? nullptr : args.bias + out_stride + p * outputs,
                          .multiplier = args.multiplier,
                          .out = args.out + first_row * out_stride + p * outputs,
                          .out_stride = out_stride,
                          .columns = weight.columns_of_panel(p)});
    }
  });
}

}  // namespace varifocal::kernels::cpu

// Sizes of the sm90 product kernel (matmul_sm90.cu), shared with the host: tiles, stages, shared memory, order of tiles.
#pragma once

#include "kernels/activation.h"
#include "kernels/cuda/attention_sm90_layout.h"

namespace varifocal::kernels::cuda {

// A tile is 128 rows of x, 64 a consumer, times 128, 192 or 256 outputs. K is staged 64 columns at a time: a row is what a swizzle of
// 128 bytes covers.
inline constexpr int kSm90ProductRows = kSm90Consumers * 64;
inline constexpr int kSm90ProductColumns = 64;  // of K
inline constexpr int kSm90ProductStages = 4;
inline constexpr int kSm90ProductStageRowBytes = kSm90ProductColumns * 2;

// Copies need rows of whole 16 bytes, stores whole pairs of outputs.
VF_HD constexpr bool Sm90ProductSupports(int64_t outputs, int64_t inner) { return outputs % 8 == 0 && inner % 8 == 0; }

// Epilogues that a product can have: gates of these activations; and q, k, v of heads that tiles of these widths are whole ones of,
// where the two numbers that turn together are a multiple of eight columns apart, so that one thread has both.
VF_HD constexpr bool Sm90ProductGates(Activation activation) {
  return activation == Activation::kSilu || activation == Activation::kGeluTanh;
}
VF_HD constexpr bool Sm90ProductWritesHeads(int dim) {
  return dim == 16 || dim == 32 || dim == 64 || dim == 96 || dim == 128 || dim == 256;
}
VF_HD constexpr bool Sm90ProductTurns(int dim, int rotary) {
  return rotary == 0 || (rotary % 16 == 0 && (rotary == dim || 2 * rotary == dim || 4 * rotary == dim));
}
// Outputs of a tile; `dim` is 0 where there are no heads. Small heads have narrow tiles: their models are small.
VF_HD constexpr int Sm90ProductTile(int dim, bool wide) {
  if (dim == 96) return 192;
  return dim == 256 || (wide && dim != 16 && dim != 32) ? 256 : 128;
}

// Offsets in dynamic shared memory.
template <int kOutputs>
struct Sm90ProductMemory {
  static constexpr int kRowBytes = kSm90ProductRows * kSm90ProductStageRowBytes;  // of a stage of x
  static constexpr int kWeightBytes = kOutputs * kSm90ProductStageRowBytes;
  static constexpr int kStageBytes = kRowBytes + kWeightBytes;
  static constexpr int kBarriers = kSm90ProductStages * kStageBytes;
  static constexpr int kBytes = kBarriers + 16 * kSm90ProductStages;
  static_assert(kRowBytes % 1024 == 0 && kWeightBytes % 1024 == 0, "swizzles repeat every 1,024 bytes");
  static_assert(kBytes <= 232448, "the largest block of compute capability 9.0");
};

// Tiles of a product. Blocks take every block_count-th. No result depends on it.
struct Sm90ProductGrid {
  int32_t tile_outputs = 256;
  int32_t row_tiles = 0, output_tiles = 0, block_count = 0;
  VF_HD constexpr int tiles() const { return row_tiles * output_tiles; }
};

// Narrow tiles where wide ones would leave multiprocessors without one.
VF_HD constexpr Sm90ProductGrid PlanSm90Product(int rows, int outputs, int multiprocessors, int dim = 0) {
  Sm90ProductGrid grid;
  grid.row_tiles = CeilDivide(rows, kSm90ProductRows);
  grid.tile_outputs = Sm90ProductTile(dim, grid.row_tiles * CeilDivide(outputs, 256) >= multiprocessors);
  grid.output_tiles = CeilDivide(outputs, grid.tile_outputs);
  grid.block_count = grid.tiles() < multiprocessors ? grid.tiles() : multiprocessors;
  return grid;
}

// Tiles in bands of 16 row tiles, in a band output by output: blocks that run at the same time then share rows of x and of the
// weight in the L2 cache.
inline constexpr int kSm90ProductBand = 16;
struct Sm90ProductPlace {
  int row_tile = 0, output_tile = 0;
};
VF_HD constexpr Sm90ProductPlace Sm90ProductPlaceOf(const Sm90ProductGrid& grid, int tile) {
  const int band_tiles = kSm90ProductBand * grid.output_tiles, band = tile / band_tiles;
  const int left = grid.row_tiles - band * kSm90ProductBand;
  const int height = left < kSm90ProductBand ? left : kSm90ProductBand, inside = tile - band * band_tiles;
  return {band * kSm90ProductBand + inside % height, inside / height};
}

}  // namespace varifocal::kernels::cuda

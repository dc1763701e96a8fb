// Memory layout of keys and values in a page, and in the tiles that kernels stage in shared memory.
//
// A tile of R tokens is cut into panels of 64, then at most one of 32 and one of 16 columns. A panel is [R, width] with
// its 16-byte chunks exclusive-ored by row as in Hopper's 128-, 64- and 32-byte swizzles. A panel row of eight tokens
// then accesses every bank once; a wgmma kernel can use a panel directly; and the first or second half of a page is,
// panel by panel, contiguous.
//
// Shapes:  a page of one KV head is a K tile [128, D], then a V tile [128, D], bf16; D a multiple of 16.
#pragma once

#include "base/wide_product.h"
#include "kernels/cuda/simt.h"

namespace varifocal::kernels::cuda {

inline constexpr int kPageTokenCount = 128;  // backend.h's kPageTokens, compared by a static_assert
inline constexpr int kBlockKeys = 64;        // keys an attention kernel stages at a time: half a page
inline constexpr int kChunkBytes = 16;       // what one lane copies, and a row of an 8x8 matrix
inline constexpr int kChunkDims = 8;

// Columns of the panel that holds column `column` of a row of `dim` columns, and the column it starts at.
struct Panel {
  int first = 0;
  int width = 0;
};
VF_HD constexpr Panel PanelOf(int dim, int column) {
  const int whole = dim / 64 * 64;
  if (column < whole) return {column / 64 * 64, 64};
  if (dim - whole >= 32 && column < whole + 32) return {whole, 32};
  return {dim - 16, 16};
}

// The swizzled index of a row's chunk: bits 4.. of a panel's byte address, exclusive-ored with bits 7.. .
VF_HD constexpr int SwizzledChunk(int width, int row, int chunk) {
  return width == 64 ? chunk ^ (row & 7) : width == 32 ? chunk ^ ((row >> 1) & 3) : chunk ^ ((row >> 2) & 1);
}

// Byte offset of the 16-byte chunk `chunk` (8 columns) of a row in a tile of `rows` rows.
VF_HD constexpr int TileOffset(int dim, int rows, int row, int chunk) {
  const Panel panel = PanelOf(dim, chunk * kChunkDims);
  return (panel.first * rows + row * panel.width) * 2 +
         SwizzledChunk(panel.width, row, chunk - panel.first / kChunkDims) * kChunkBytes;
}

// Byte offset of one number of a page's K tile (or V tile).
VF_HD constexpr int ElementOffset(int dim, int token, int column) {
  return TileOffset(dim, kPageTokenCount, token, column / kChunkDims) + column % kChunkDims * 2;
}

// Byte offset of chunk 2 k + half (half 0 or 1), given that of a row's chunk 2 k: the two differ in one bit.
VF_HD constexpr int NeighbourOffset(int offset, int half) { return offset ^ (half * kChunkBytes); }

VF_HD constexpr int TileBytes(int dim, int rows) { return dim * rows * 2; }
VF_HD constexpr size_t HeadPageBytes(int dim) { return WideProduct(2, TileBytes(dim, kPageTokenCount)); }

// The i-th chunk of a staged block of 64 keys: where it comes from in the page's tile, and which row of the block it
// belongs to. A block's own offset of chunk i is 16 i: the halves of a page keep their order and their swizzle.
struct BlockChunk {
  int page_offset = 0;
  int row = 0;
};
VF_HD constexpr BlockChunk BlockChunkOf(int dim, int half, int index) {
  const int block_offset = index * kChunkBytes;
  const Panel panel = PanelOf(dim, block_offset / (kBlockKeys * 2));
  const int inside = block_offset - panel.first * kBlockKeys * 2;
  return {(panel.first * kPageTokenCount + half * kBlockKeys * panel.width) * 2 + inside, inside / (panel.width * 2)};
}

// A block is copied by 128 threads in steps of 128 chunks, each inside one panel: chunk t of a step comes
// from page_offset + 16 t and belongs to row + 16 t / (2 width).
inline constexpr int kCopyThreads = 128;
struct BlockStep {
  int page_offset = 0;
  int row = 0;
  int width = 0;
};
VF_HD constexpr BlockStep BlockStepOf(int dim, int half, int step) {
  const BlockChunk first = BlockChunkOf(dim, half, step * kCopyThreads);
  return {first.page_offset, first.row, PanelOf(dim, step * kCopyThreads * kChunkBytes / (kBlockKeys * 2)).width};
}

}  // namespace varifocal::kernels::cuda

// Partitioning into query tiles, key blocks, decode splits and K splits, independent of the batch around a row.
//
// A tile row is (row of the step, query head of one KV head): row * G + head, with G query heads per KV head. Tile rows
// are packed into tiles, so that the heads of a KV head and short suffixes share a pass over their keys. Key blocks of 64
// and decode splits of 512 start at multiples of their size in absolute positions; so do prefill's segments of 8,192 keys,
// whose results are merged in order, by one block after the other segment or by another kernel after all blocks. A block
// that is masked for a tile row leaves its sums unchanged, bit for bit, so its result depends neither on its tile nor on
// the other rows of its decode item.
#pragma once

#include "kernels/cuda/page_layout.h"

namespace varifocal::kernels::cuda {

inline constexpr int kSplitKeys = 512;
inline constexpr int kSegmentKeys = 8192;
inline constexpr int kHeadSlice = 8192;     // tokens of the vocabulary whose statistics a block takes
inline constexpr int kDecodeTileRows = 16;  // of a decode block: one mma row tile

VF_HD constexpr int CeilDivide(int a, int b) { return (a + b - 1) / b; }

// Tile rows of a prefill block: four warps, each with two row tiles of 16 where ptxas fits that into 255 registers.
// The size of query tiles is that of blocks of the mask without groups; a block of another mask may process half of
// one.
VF_HD constexpr int RowTilesPerWarp(int dim, bool reads_groups) {
  return dim <= 80 || (!reads_groups && (dim == 96 || dim == 128)) ? 2 : 1;
}
VF_HD constexpr int PrefillTileRows(int dim, bool reads_groups = false) {
  return 64 * RowTilesPerWarp(dim, reads_groups);
}

// Values of a head that a block sums: a wide head has as many blocks as parts, each with all scores and a part of the values. A
// part has a result of its own, as a head has.
inline constexpr int kValueDimsMax = 256;
VF_HD constexpr int ValueParts(int dim) { return dim <= kValueDimsMax ? 1 : CeilDivide(dim, kValueDimsMax); }
VF_HD constexpr int ValueDims(int dim) { return dim / ValueParts(dim); }

// Stages of the key ring. Decode has more where shared memory allows it; they do not affect a result.
VF_HD constexpr int PrefillStages(int) { return 2; }
VF_HD constexpr int DecodeStages(int dim) { return dim <= 64 ? 4 : dim <= 128 ? 3 : 2; }
inline constexpr int kDecodeStagesMin = 2;
// Shared memory of a block on the smallest devices that are supported: compute capability 8.6, 8.9 and 12.0.
inline constexpr int kSmallSharedBytes = 99 << 10;
VF_HD constexpr int StageBytes(int dim) { return 2 * TileBytes(dim, kBlockKeys); }
// Of a wide head there is one stage: a block's keys are copied while values are read, and the reverse.
VF_HD constexpr int RingBytes(int dim, int stages) {
  return ValueParts(dim) == 1 ? stages * StageBytes(dim) : TileBytes(dim + ValueDims(dim), kBlockKeys);
}
// If the mask reads groups, those of a stage's keys are stored behind the ring.
inline constexpr int kBlockGroupBytes = kBlockKeys * static_cast<int>(sizeof(uint32_t));
VF_HD constexpr int PrefillSharedBytes(int dim, bool reads_groups, int tile_rows) {
  const int stages = PrefillStages(dim);
  return TileBytes(dim, tile_rows) + RingBytes(dim, stages) + (reads_groups ? stages * kBlockGroupBytes : 0);
}
VF_HD constexpr int DecodeSharedBytes(int dim, bool reads_groups, int stages) {
  return TileBytes(dim, kDecodeTileRows) + RingBytes(dim, stages) + (reads_groups ? stages * kBlockGroupBytes : 0);
}
// Static shared memory of a prefill block is at most this: a mask row and an exponent per tile row.
VF_HD constexpr int PrefillStaticBytes(int dim, bool reads_groups) {
  return PrefillTileRows(dim, reads_groups) * (reads_groups ? 24 : 16);
}
// And with gathered keys (gather_layout.h) the places of two stages' keys.
inline constexpr int kGatheredBytes = 2 * kBlockGroupBytes;
// Shared memory without which a block of some attention kernel cannot be launched.
VF_HD constexpr int AttentionSharedBytes(int dim) {
  int most = 0;
  for (const bool reads_groups : {false, true}) {
    const int prefill = PrefillSharedBytes(dim, reads_groups, PrefillTileRows(dim, reads_groups)) +
                        PrefillStaticBytes(dim, reads_groups) + (ValueParts(dim) == 1 ? kGatheredBytes : 0);
    const int decode = DecodeSharedBytes(dim, reads_groups, kDecodeStagesMin);
    most = prefill > most ? prefill : most;
    most = decode > most ? decode : most;
  }
  return most;
}

// Key blocks [first, last) that contain a key of [begin, end).
struct BlockRange {
  int first = 0;
  int last = 0;
};
VF_HD constexpr BlockRange BlocksOf(int begin, int end) {
  if (begin >= end) return {0, 0};
  return {begin / kBlockKeys, CeilDivide(end, kBlockKeys)};
}

// Decode splits [first, last) that contain a key of [begin, end).
VF_HD constexpr BlockRange SplitsOf(int begin, int end) {
  if (begin >= end) return {0, 0};
  return {begin / kSplitKeys, CeilDivide(end, kSplitKeys)};
}

// Prefill segments [first, last) that contain a key of [begin, end).
inline constexpr int kSegmentBlocks = kSegmentKeys / kBlockKeys;
VF_HD constexpr BlockRange SegmentsOf(int begin, int end) {
  if (begin >= end) return {0, 0};
  return {begin / kSegmentKeys, CeilDivide(end, kSegmentKeys)};
}

// Decode products: K is split by the weight's shape only, so that a small N still fills a device of about 130 SMs
// twice.
inline constexpr int kProductStepK = 64;
inline constexpr int kDecodeColumns = 64;
inline constexpr int kDecodeBlocks = 264;
VF_HD constexpr int ProductSteps(int64_t inner) { return inner < 1 ? 1 : CeilDivide(inner, kProductStepK); }
VF_HD constexpr int SplitsMax(int64_t inner) { return ProductSteps(inner) < 8 ? 1 : ProductSteps(inner) / 4; }
VF_HD constexpr int DecodeSplitK(int64_t outputs, int64_t inner) {
  const int tiles = outputs < 1 ? 1 : CeilDivide(outputs, kDecodeColumns), steps = ProductSteps(inner);
  const int wanted = CeilDivide(kDecodeBlocks, tiles), most = SplitsMax(inner);
  const int splits = wanted < most ? wanted : most;
  return CeilDivide(steps, CeilDivide(steps, splits));
}
// Numbers of a row of partial products, at most, of any product of up to this many outputs and inputs.
VF_HD constexpr int64_t DecodeNumbersMax(int64_t outputs, int64_t inner) {
  const int64_t by_inner = outputs * SplitsMax(inner), by_outputs = outputs + kDecodeColumns * kDecodeBlocks;
  return by_inner < by_outputs ? by_inner : by_outputs;
}
// Steps of 64 per split; the last one may have fewer.
VF_HD constexpr int SplitSteps(int64_t inner, int splits) {
  return CeilDivide(CeilDivide(inner, kProductStepK), splits);
}

// One tile of prefill work.
struct QueryTile {
  int32_t sequence = 0;
  int32_t first_tile_row = 0;  // of the sequence's
  int32_t tile_row_count = 0;
};

// One split of decode rows whose sequences share its pages: rows first_row .. of AttendParams::item_rows. Shared pages
// are thus read once for as many sequences as a tile has rows.
struct DecodeItem {
  int32_t first_row = 0;
  int32_t row_count = 0;
  int32_t split = 0;
};
// Maximum rows of one item, and its tiles: more than one where a KV head has more query heads than a tile has rows.
VF_HD constexpr int DecodeRows(int queries_per_kv) {
  return queries_per_kv < kDecodeTileRows ? kDecodeTileRows / queries_per_kv : 1;
}
VF_HD constexpr int DecodeTiles(int queries_per_kv) {
  return CeilDivide(DecodeRows(queries_per_kv) * queries_per_kv, kDecodeTileRows);
}

}  // namespace varifocal::kernels::cuda

// What the product kernel sm90 does with a tile's sums (matmul_sm90.cu), in f32: the bias first, then one of these.
//
// A thread has two rows of its warp's 16, and of every eight columns two neighbouring ones (FragmentC). Where a kernel of its own does
// the same, the operations and their order are those of that kernel, and so are the bits.
#pragma once

#include "kernels/cuda/device_activation.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/page_layout.h"
#include "kernels/cuda/qkv_heads.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// An epilogue has Rows, what it knows of a thread's rows before the products are done; and Store, whose `row` and `column` are the
// first of the warp's rows and of the tile.
struct NothingOfRows {
  VF_DEVICE NothingOfRows(const ProductSm90Params&, int) {}
};

// The two columns are a gate and its up where `kGated`.
template <bool kGated, int kGroups>
VF_DEVICE void AddBias(const ProductSm90Params& p, int column, float (&sums)[kGroups][4]) {
  if (p.bias == nullptr) return;
  const int first = column + FragmentC(LaneIndex(), 0).column;
  VF_UNROLL
  for (int n = 0; n < kGroups; ++n) {
    const int at = first + 8 * n;
    if (at >= p.outputs) break;
    const float low = p.bias[kGated ? at / 2 : at], high = p.bias[kGated ? (p.outputs + at) / 2 : at + 1];
    sums[n][0] += low;
    sums[n][1] += high;
    sums[n][2] += low;
    sums[n][3] += high;
  }
}

// As f32 or bf16, or added to the residual.
template <ProductEpilogue kEpilogue>
struct StorePairs {
  using Rows = NothingOfRows;

  static VF_DEVICE void StorePairOf(const ProductSm90Params& p, size_t at, float low, float high) {
    if constexpr (kEpilogue == ProductEpilogue::kBf16) {
      StorePair(static_cast<uint16_t*>(p.out) + at, PackBf16(low, high));
    } else {
      float* out = static_cast<float*>(p.out) + at;
      TwoFloats pair{{low, high}};
      if constexpr (kEpilogue == ProductEpilogue::kResidual) {
        const auto before = LoadAligned<TwoFloats>(out);
        pair = {{before.at[0] + p.multiplier * low, before.at[1] + p.multiplier * high}};
      }
      StoreAligned(out, pair);
    }
  }
  template <int kGroups>
  static VF_DEVICE void Store(const ProductSm90Params& p, const Rows&, int row, int column, float (&sums)[kGroups][4]) {
    const FragmentIndex at = FragmentC(LaneIndex(), 0);
    AddBias<false>(p, column, sums);
    VF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int own = row + at.row + 8 * half;
      if (own >= p.rows) continue;
      const size_t first = WideProduct(own, p.outputs) + column + at.column;
      VF_UNROLL
      for (int n = 0; n < kGroups; ++n) {
        if (column + 8 * n < p.outputs) StorePairOf(p, first + 8 * n, sums[n][2 * half], sums[n][2 * half + 1]);
      }
    }
  }
};

template <Activation kActivation>
struct StoreGates {
  using Rows = NothingOfRows;

  // Four hidden units of a row: those of groups n and n + 1 of eight columns, two a lane. A lane of even number has a gate and its
  // up of both groups, and so has its neighbour; after an exchange each has two neighbouring units of one group.
  static VF_DEVICE void StoreFour(const ProductSm90Params& p, int row, int column, const float (&first)[2],
                                  const float (&second)[2]) {
    const bool odd = LaneIndex() % 2 != 0;
    const float mine[2] = {ActivateGate(kActivation, {}, first[0], first[1]),
                           ActivateGate(kActivation, {}, second[0], second[1])};
    const float other = ShuffleXor(odd ? mine[0] : mine[1], 1);
    const uint32_t word = odd ? PackBf16(other, mine[1]) : PackBf16(mine[0], other);
    // The units of the even lane and the odd one, of the first group; of the second four units on.
    const int unit = (column + LaneIndex() % 4 / 2 * 4) / 2 + (odd ? 4 : 0);
    if (row < p.rows && 2 * unit < p.outputs)
      StorePair(static_cast<uint16_t*>(p.out) + WideProduct(row, p.outputs / 2) + unit, word);
  }
  template <int kGroups>
  static VF_DEVICE void Store(const ProductSm90Params& p, const Rows&, int row, int column, float (&sums)[kGroups][4]) {
    AddBias<true>(p, column, sums);
    VF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int own = row + FragmentC(LaneIndex(), 0).row + 8 * half;
      VF_UNROLL
      for (int n = 0; n < kGroups; n += 2) {
        StoreFour(p, own, column + 8 * n, {sums[n][2 * half], sums[n][2 * half + 1]},
                  {sums[n + 1][2 * half], sums[n + 1][2 * half + 1]});
      }
    }
  }
};

// q, k, v as QkvKernel writes them, without norms. A tile's columns are whole heads.
template <int kDim>
struct WriteHeads {
  // Of a row past the last one: those of the last.
  struct Rows {
    unsigned char* tiles[2];  // of the row's page
    int position[2], rope[2];

    VF_DEVICE Rows(const ProductSm90Params& p, int row) {
      const QkvParams& heads = p.heads;
      VF_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int wanted = row + FragmentC(LaneIndex(), 0).row + 8 * half, own = wanted < p.rows ? wanted : p.rows - 1;
        const HeadPlace at = PlaceOfHead(heads, own, heads.query_head_count);
        tiles[half] = at.tile;
        position[half] = at.position;
        rope[half] = at.rope == nullptr ? -1 : static_cast<int>(at.rope - heads.ropes);
      }
    }
  };

  // Rotates those of kHeads heads that are before column `end`; pairs are kHalf columns apart.
  template <int kHalf, int kHeads>
  static VF_DEVICE void TurnRow(const RopeView& rope, int position, int half, int column, int end, float (*sums)[4]) {
    if constexpr (kHalf % 8 == 0) {
      const size_t first = WideProduct(position, kHalf) + FragmentC(LaneIndex(), 0).column;
      VF_UNROLL
      for (int n = 0; n < kHalf / 8; ++n) {
        const auto cosine = LoadAligned<TwoFloats>(rope.cosines + first + 8 * n);
        const auto sine = LoadAligned<TwoFloats>(rope.sines + first + 8 * n);
        VF_UNROLL
        for (int head = 0; head < kHeads; ++head) {
          if (column + head * kDim >= end) continue;
          VF_UNROLL
          for (int i = 0; i < 2; ++i) {
            Turn(sums[head * kDim / 8 + n][2 * half + i], sums[head * kDim / 8 + n + kHalf / 8][2 * half + i],
                 cosine.at[i], sine.at[i]);
          }
        }
      }
    }
  }
  template <int kGroups>
  static VF_DEVICE void Store(const ProductSm90Params& p, const Rows& rows, int row, int column,
                              float (&sums)[kGroups][4]) {
    static_assert(kGroups * 8 % kDim == 0);
    constexpr int kHeads = kGroups * 8 / kDim;
    const QkvParams& heads = p.heads;
    const FragmentIndex at = FragmentC(LaneIndex(), 0);
    const int queries_end = heads.query_head_count * kDim, keys_end = queries_end + heads.kv_head_count * kDim;
    AddBias<false>(p, column, sums);
    if (heads.clip > 0) {
      VF_UNROLL
      for (int n = 0; n < kGroups; ++n) {
        VF_UNROLL
        for (int i = 0; i < 4; ++i) sums[n][i] = Clipped(sums[n][i], heads.clip);
      }
    }
    VF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int own = row + at.row + 8 * half, position = rows.position[half];
      if (own >= p.rows) continue;
      if (rows.rope[half] >= 0) {
        const RopeView& rope = heads.ropes[rows.rope[half]];
        if (rope.rotary_dim == kDim) {
          TurnRow<kDim / 2, kHeads>(rope, position, half, column, keys_end, sums);
        } else if (rope.rotary_dim == kDim / 2) {
          TurnRow<kDim / 4, kHeads>(rope, position, half, column, keys_end, sums);
        } else if (rope.rotary_dim != 0) {
          TurnRow<kDim / 8, kHeads>(rope, position, half, column, keys_end, sums);
        }
      }
      VF_UNROLL
      for (int head = 0; head < kHeads; ++head) {
        const int begin = column + head * kDim;
        if (begin >= p.outputs) break;
        if (begin < queries_end) {
          float* out = QueryRow(heads, own) + begin + at.column;
          VF_UNROLL
          for (int n = 0; n < kDim / 8; ++n) {
            const float(&pair)[4] = sums[head * kDim / 8 + n];
            StoreAligned(out + 8 * n, TwoFloats{{pair[2 * half], pair[2 * half + 1]}});
          }
          continue;
        }
        const bool is_key = begin < keys_end;
        unsigned char* tile = rows.tiles[half] +
                              (begin - (is_key ? queries_end : keys_end)) / kDim * HeadPageBytes(kDim) +
                              (is_key ? 0 : TileBytes(kDim, kPageTokenCount));
        VF_UNROLL
        for (int n = 0; n < kDim / 8; ++n) {
          const float(&pair)[4] = sums[head * kDim / 8 + n];
          const int to = TileOffset(kDim, kPageTokenCount, position % kPageTokenCount, n) + at.column * 2;
          StorePair(reinterpret_cast<uint16_t*>(tile + to), PackBf16(pair[2 * half], pair[2 * half + 1]));
        }
      }
    }
  }
};

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

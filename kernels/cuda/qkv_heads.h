// q, k, v of a product: norms, rotation, and writing to queries and pages, a head by some lanes of a warp.
//
// Heads whose dimensions are multiples of 8 are read and written 16 bytes at a time.
#pragma once

#include <math.h>

#include "kernels/cuda/row_values.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

VF_DEVICE float* QueryRow(const QkvParams& p, int row) {
  return p.queries + WideProduct(row, p.query_head_count, p.pool.head_dim);
}

// Lanes that process one head, kPairs pairs each at a time; a warp processes several small heads.
VF_HD constexpr int QkvLanes(int dim, int pairs) { return pairs == 1 || dim > 128 ? 32 : dim > 64 ? 16 : 8; }
VF_HD constexpr int QkvHeadsPerBlock(int dim, int pairs) { return kWarps * (32 / QkvLanes(dim, pairs)); }

template <int kCount>
struct Numbers {
  float at[kCount];
};
template <int kPairs>
VF_DEVICE Numbers<kPairs> BiasedNumbersAt(const ProductView& product, int row, int column) {
  if constexpr (kPairs == 4) {
    const FourFloats four = FourBiasedAt(product, row, column);
    return {{four.at[0], four.at[1], four.at[2], four.at[3]}};
  } else {
    return {{BiasedAt(product, row, column)}};
  }
}

template <int kPairs>
VF_DEVICE Numbers<kPairs> NumbersAt(const float* from) {
  if constexpr (kPairs == 4) {
    const FourFloats four = LoadAligned<FourFloats>(from);
    return {{four.at[0], four.at[1], four.at[2], four.at[3]}};
  } else {
    return {{*from}};
  }
}

// A head of a row, and where it is written: known before the product is.
struct HeadPlace {
  int row, head, inner, position;
  bool is_query, is_key;
  unsigned char* tile;
  const RopeView* rope;
  const float* norm;
};
VF_DEVICE HeadPlace PlaceOfHead(const QkvParams& p, int row, int head) {
  const int dim = p.pool.head_dim, kv_heads = p.kv_head_count, heads = p.query_head_count;
  const int sequence = p.step.row_sequences[row], position = p.step.row_positions[row];
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + position / kPageTokenCount];
  unsigned char* page_tiles = p.pool.tiles + WideProduct(page, p.pool.kv_head_count, HeadPageBytes(dim));
  HeadPlace at;
  at.row = row;
  at.head = head;
  at.position = position;
  at.rope = p.sequence_ropes == nullptr ? nullptr : p.ropes + p.sequence_ropes[sequence];
  at.is_query = head < heads;
  at.is_key = !at.is_query && head < heads + kv_heads;
  at.inner = at.is_query ? head : at.is_key ? head - heads : head - heads - kv_heads;
  at.norm = at.is_query ? p.query_norm : at.is_key ? p.key_norm : p.value_norm;
  at.tile =
      page_tiles + at.inner * HeadPageBytes(dim) + (at.is_query || at.is_key ? 0 : TileBytes(dim, kPageTokenCount));
  return at;
}

// Whether some heads have norms of their own, q and k not those over the width.
VF_DEVICE bool HasHeadNorms(const QkvParams& p) {
  return p.value_norm != nullptr || (!p.norm_over_width && (p.query_norm != nullptr || p.key_norm != nullptr));
}

// One over the root of a head's mean square, the same in its lanes.
template <int kPairs>
VF_DEVICE float InverseOfHead(const QkvParams& p, const HeadPlace& at, int lane, int lanes) {
  const int dim = p.pool.head_dim;
  float squares = 0;
  for (int i = lane * kPairs; i < dim; i += lanes * kPairs) {
    const Numbers<kPairs> values = BiasedNumbersAt<kPairs>(p.product, at.row, at.head * dim + i);
    VF_UNROLL
    for (int n = 0; n < kPairs; ++n) squares += values.at[n] * values.at[n];
  }
  for (int mask = lanes / 2; mask > 0; mask >>= 1) squares += ShuffleXor(squares, mask);
  return 1.0f / sqrtf(squares / dim + p.norm_epsilon);
}

// Not by fminf, which hides a value that is not a number.
VF_DEVICE float Clipped(float x, float clip) { return x < -clip ? -clip : x > clip ? clip : x; }
VF_DEVICE void Turn(float& x, float& y, float cosine, float sine) {
  const float rotated = x * cosine - y * sine;
  y = y * cosine + x * sine;
  x = rotated;
}

// `inverse` is that of the norm, which `norm` scales.
template <int kPairs>
VF_DEVICE void WriteHead(const QkvParams& p, const HeadPlace& place, const float* norm, float inverse, int lane,
                         int lanes) {
  const int dim = p.pool.head_dim, row = place.row, head = place.head, position = place.position;
  const bool is_query = place.is_query;
  const RopeView* rope = place.rope;
  unsigned char* tile = place.tile;
  const int rotary = (is_query || place.is_key) && rope != nullptr ? rope->rotary_dim : 0, half = rotary / 2;
  // Pairs that turn together first, then what passes unrotated.
  for (int pair = lane * kPairs; pair < dim / 2; pair += lanes * kPairs) {
    const bool turns = pair < half;
    const int a = turns ? pair : 2 * pair, b = turns ? pair + half : 2 * pair + kPairs;
    Numbers<kPairs> x = BiasedNumbersAt<kPairs>(p.product, row, head * dim + a);
    Numbers<kPairs> y = BiasedNumbersAt<kPairs>(p.product, row, head * dim + b);
    Numbers<kPairs> cosine, sine;
    if (turns) {
      const size_t at = WideProduct(position, half) + pair;
      cosine = NumbersAt<kPairs>(rope->cosines + at);
      sine = NumbersAt<kPairs>(rope->sines + at);
    }
    VF_UNROLL
    for (int n = 0; n < kPairs; ++n) {
      if (norm != nullptr && !p.norm_after_rotation) {
        x.at[n] = x.at[n] * inverse * norm[a + n];
        y.at[n] = y.at[n] * inverse * norm[b + n];
      }
      if (p.clip > 0) {
        x.at[n] = Clipped(x.at[n], p.clip);
        y.at[n] = Clipped(y.at[n], p.clip);
      }
      if (turns) Turn(x.at[n], y.at[n], cosine.at[n], sine.at[n]);
      if (norm != nullptr && p.norm_after_rotation) {  // the mean square is that before it
        x.at[n] = x.at[n] * inverse * norm[a + n];
        y.at[n] = y.at[n] * inverse * norm[b + n];
      }
    }
    const auto store = [&](int column, const Numbers<kPairs>& values) {
      float* out = QueryRow(p, row) + head * dim + column;
      unsigned char* to = tile + ElementOffset(dim, position % kPageTokenCount, column);
      if constexpr (kPairs == 4) {
        const FourFloats four{{values.at[0], values.at[1], values.at[2], values.at[3]}};
        if (is_query) {
          StoreAligned(out, four);
        } else {
          StoreAligned(to, PackFour(four));
        }
      } else if (is_query) {
        *out = values.at[0];
      } else {
        *reinterpret_cast<uint16_t*>(to) = RoundBf16(values.at[0]);
      }
    };
    store(a, x);
    store(b, y);
  }
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

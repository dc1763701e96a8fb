// q, k, v of a product: norms, rotation, and writing to queries and pages; and the scores of a written query.
//
// Heads whose dimensions are multiples of 8 are read and written 16 bytes at a time.

#include <math.h>

#include "kernels/cuda/row_values.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// ---- q, k, v: norms, rotation, and writing ----

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

// Blocks over rows and heads. kPairs is 4 where a head's dimensions and its rotary half are multiples of 8 and 4.
template <int kPairs>
VF_KERNEL(kThreads, 1)
QkvKernel(VF_PARAMS(QkvParams) p) {
  AllowNextLaunch();
  const int row = BlockX(), dim = p.pool.head_dim, kv_heads = p.kv_head_count, heads = p.query_head_count;
  const int lanes = QkvLanes(dim, kPairs), lane = LaneIndex() % lanes;
  const int wanted = BlockY() * QkvHeadsPerBlock(dim, kPairs) + WarpIndex() * (32 / lanes) + LaneIndex() / lanes;
  // Lanes past the last head repeat it and store nothing.
  const bool inside = wanted < heads + 2 * kv_heads;
  const int head = inside ? wanted : heads + 2 * kv_heads - 1;
  const int sequence = p.step.row_sequences[row], position = p.step.row_positions[row];
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + position / kPageTokenCount];
  unsigned char* page_tiles = p.pool.tiles + WideProduct(page, p.pool.kv_head_count, HeadPageBytes(dim));
  const RopeView* rope = p.sequence_ropes == nullptr ? nullptr : p.ropes + p.sequence_ropes[sequence];
  const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
  const int inner = is_query ? head : is_key ? head - heads : head - heads - kv_heads;
  const float* norm = is_query ? p.query_norm : is_key ? p.key_norm : p.value_norm;
  // Until here only what the host has written for this step was read.
  WaitForPreviousLaunch();
  float inverse = 1;
  if (p.norm_over_width) {
    // Over the width of all heads: every block sums q, then k.
    for (int which = 0; which < 2; ++which) {
      const int begin = which == 0 ? 0 : heads * dim, width = (which == 0 ? heads : kv_heads) * dim;
      float squares = 0;
      for (int i = ThreadX(); i < width; i += kThreads) {
        const float value = BiasedAt(p.product, row, begin + i);
        squares += value * value;
      }
      const float wide = 1.0f / sqrtf(BlockSum(squares) / width + p.norm_epsilon);
      if (which == 0 ? is_query : is_key) inverse = wide;
    }
    if (norm != nullptr && (is_query || is_key)) norm += inner * dim;
  }
  // Of each head; over the width of all heads there are still norms of values.
  if (p.value_norm != nullptr || (!p.norm_over_width && (p.query_norm != nullptr || p.key_norm != nullptr))) {
    float squares = 0;
    for (int i = lane * kPairs; i < dim; i += lanes * kPairs) {
      const Numbers<kPairs> values = BiasedNumbersAt<kPairs>(p.product, row, head * dim + i);
      VF_UNROLL
      for (int n = 0; n < kPairs; ++n) squares += values.at[n] * values.at[n];
    }
    for (int mask = lanes / 2; mask > 0; mask >>= 1) squares += ShuffleXor(squares, mask);
    if (!p.norm_over_width || !(is_query || is_key)) inverse = 1.0f / sqrtf(squares / dim + p.norm_epsilon);
  }
  if (!inside) return;
  const int rotary = (is_query || is_key) && rope != nullptr ? rope->rotary_dim : 0, half = rotary / 2;
  unsigned char* tile =
      page_tiles + inner * HeadPageBytes(dim) + (is_query || is_key ? 0 : TileBytes(dim, kPageTokenCount));
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
        // Not by fminf, which hides a value that is not a number.
        x.at[n] = x.at[n] < -p.clip ? -p.clip : x.at[n] > p.clip ? p.clip : x.at[n];
        y.at[n] = y.at[n] < -p.clip ? -p.clip : y.at[n] > p.clip ? p.clip : y.at[n];
      }
      if (turns) {
        const float rotated = x.at[n] * cosine.at[n] - y.at[n] * sine.at[n];
        y.at[n] = y.at[n] * cosine.at[n] + x.at[n] * sine.at[n];
        x.at[n] = rotated;
      }
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

// Unscaled scores of one query over its interval of keys, one thread a key, for InspectAttention.
VF_KERNEL(kThreads, 1) ScoresKernel(const ScoresParams p) {
  FollowPreviousLaunch();
  const int key = p.begin + BlockX() * kThreads + ThreadX();
  if (key >= p.end) return;
  const int dim = p.pool.head_dim, group = p.query_head_count / p.pool.kv_head_count;
  const int32_t page = p.step.page_tables[p.pool.table_starts[p.step.row_sequences[p.row]] + key / kPageTokenCount];
  const unsigned char* tile =
      p.pool.tiles + (WideProduct(page, p.pool.kv_head_count) + p.head / group) * HeadPageBytes(dim);
  const float* query = p.queries + (WideProduct(p.row, p.query_head_count) + p.head) * dim;
  float sum = 0;
  for (int i = 0; i < dim; ++i) {
    const uint16_t bits = *reinterpret_cast<const uint16_t*>(tile + ElementOffset(dim, key % kPageTokenCount, i));
    sum = FusedMultiplyAdd(query[i], WidenLow(bits), sum);
  }
  p.scores[key - p.begin] = sum;
}

}  // namespace

int LaunchQkv(const QkvParams& p, LaunchStream stream) {
  const int dim = p.pool.head_dim;
  bool wide = IsWide(p.product) && dim % 8 == 0 && IsAligned(p.queries, 16);
  for (const RopeView& rope : p.ropes) {
    wide = wide && rope.rotary_dim % 8 == 0 && IsAligned(rope.cosines, 16) && IsAligned(rope.sines, 16);
  }
  const auto start = [&](const auto kernel, int pairs) {
    const int blocks = CeilDivide(p.query_head_count + 2 * p.kv_head_count, QkvHeadsPerBlock(dim, pairs));
    return VF_LAUNCH(kernel, p.step.row_count, blocks, 1, kThreads, 0, stream, p);
  };
  return wide ? start(QkvKernel<4>, 4) : start(QkvKernel<1>, 1);
}
int LaunchScores(const ScoresParams& p, LaunchStream stream) {
  return VF_LAUNCH(ScoresKernel, CeilDivide(p.end - p.begin, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

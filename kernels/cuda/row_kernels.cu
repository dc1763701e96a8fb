// Row-wise kernels: embedding, norms, epilogues of products, learned tau, and writing q, k, v.
//
// Rows whose width is a multiple of 4 are read and written 16 bytes at a time (kWide).
//
// Sums have a fixed order: a thread's stride, a warp's butterfly, the warps in order. It depends only on the width.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Sum over the block's 256 threads, the same in every thread.
VF_DEVICE float BlockSum(float value) {
  VF_SHARED float parts[kWarps];
  value = WarpSum(value);
  if (LaneIndex() == 0) parts[WarpIndex()] = value;
  SyncThreads();
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += parts[w];
  SyncThreads();
  return sum;
}

VF_DEVICE float ProductAt(const ProductView& product, int row, int column) {
  const size_t at = WideProduct(row, product.columns) + column;
  if (product.is_bf16) return WidenLow(static_cast<const uint16_t*>(product.data)[at]);
  const float* data = static_cast<const float*>(product.data);
  float sum = data[at];
  for (int split = 1; split < product.split_count; ++split) sum += data[split * product.split_stride + at];
  return sum;
}

constexpr int kSplitsAtOnce = 6;

// Four neighbouring numbers; the column and the product's width are multiples of 4.
VF_DEVICE FourFloats FourProductsAt(const ProductView& product, int row, int column) {
  const size_t at = WideProduct(row, product.columns) + column;
  if (product.is_bf16) {
    const TwoWords words = LoadAligned<TwoWords>(static_cast<const uint16_t*>(product.data) + at);
    return {{WidenLow(words.at[0]), WidenHigh(words.at[0]), WidenLow(words.at[1]), WidenHigh(words.at[1])}};
  }
  const float* data = static_cast<const float*>(product.data) + at;
  FourFloats sum = LoadAligned<FourFloats>(data);
  // All splits of a group are loaded before the first is added: with few blocks no other warp hides a load's latency.
  for (int first = 1; first < product.split_count; first += kSplitsAtOnce) {
    FourFloats parts[kSplitsAtOnce];
    VF_UNROLL
    for (int s = 0; s < kSplitsAtOnce; ++s) {
      if (first + s < product.split_count) {
        parts[s] = LoadAligned<FourFloats>(data + (first + s) * product.split_stride);
      }
    }
    VF_UNROLL
    for (int s = 0; s < kSplitsAtOnce; ++s) {
      if (first + s >= product.split_count) break;
      VF_UNROLL
      for (int i = 0; i < 4; ++i) sum.at[i] += parts[s].at[i];
    }
  }
  return sum;
}
VF_DEVICE FourFloats FourBiasedAt(const ProductView& product, int row, int column) {
  FourFloats values = FourProductsAt(product, row, column);
  if (product.bias == nullptr) return values;
  const FourFloats bias = LoadAligned<FourFloats>(product.bias + column);
  VF_UNROLL
  for (int i = 0; i < 4; ++i) values.at[i] += bias.at[i];
  return values;
}
VF_DEVICE TwoWords PackFour(const FourFloats& values) {
  return {{PackBf16(values.at[0], values.at[1]), PackBf16(values.at[2], values.at[3])}};
}

// Whether a product and its bias can be read four numbers at a time.
bool IsWide(const ProductView& product) {
  return product.columns % 4 == 0 && product.split_stride % 4 == 0 && IsAligned(product.data, 16) &&
         (product.bias == nullptr || IsAligned(product.bias, 16));
}

// Whether a norm reads and writes four numbers at a time.
bool IsWide(const NormParams& p) {
  return p.width % 4 == 0 && IsAligned(p.x, 16) && IsAligned(p.out, 8) && IsAligned(p.weight, 16) &&
         IsAligned(p.bias, 16);
}

VF_DEVICE float BiasedAt(const ProductView& product, int row, int column) {
  const float value = ProductAt(product, row, column);
  return product.bias == nullptr ? value : value + product.bias[column];
}

VF_DEVICE float Activate(ActivationCode activation, float x) {
  constexpr float kSqrt2OverPi = 0.7978845608028654f, kSqrtHalf = 0.7071067811865476f;
  switch (activation) {
    case ActivationCode::kSilu:
      return x / (1.0f + expf(-x));
    case ActivationCode::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
    case ActivationCode::kGeluErf:
      return 0.5f * x * erfcf(-x * kSqrtHalf);
    case ActivationCode::kRelu:
      return x < 0 ? 0.0f : x;
    default:
      return x;
  }
}

VF_KERNEL(kThreads, 1) EmbedKernel(const EmbedParams p) {
  FollowPreviousLaunch();
  const int row = BlockX();
  const uint16_t* token = p.table + p.tokens[row] * p.table_stride;
  const uint16_t* position = p.positions == nullptr ? nullptr : p.positions + p.row_positions[row] * p.positions_stride;
  for (int i = ThreadX(); i < p.width; i += kThreads) {
    float value = WidenLow(token[i]) * p.multiplier;
    if (position != nullptr) value += WidenLow(position[i]);
    p.out[WideProduct(row, p.width) + i] = value;
  }
}

// The mean and one over the root of a row; `at` gives its elements, four at a time where kWide.
struct Moments {
  float mean = 0, inverse = 0;
};
template <bool kWide, typename At>
VF_DEVICE float SumOverRow(int width, const At& at, float mean, bool squared) {
  float sum = 0;
  const auto add = [&](float x) {
    const float centred = x - mean;
    sum += squared ? centred * centred : x;
  };
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < width; i += kThreads * 4) {
      const FourFloats four = at.Four(i);
      VF_UNROLL
      for (int n = 0; n < 4; ++n) add(four.at[n]);
    }
  } else {
    for (int i = ThreadX(); i < width; i += kThreads) add(at(i));
  }
  return BlockSum(sum);
}
template <bool kWide, typename At>
VF_DEVICE Moments RowMoments(int width, bool layer, float epsilon, const At& at) {
  Moments moments;
  if (layer) moments.mean = SumOverRow<kWide>(width, at, 0, false) / static_cast<float>(width);
  const float squares = SumOverRow<kWide>(width, at, moments.mean, true);
  moments.inverse = 1.0f / sqrtf(squares / width + epsilon);
  return moments;
}

struct AtPointer {
  const float* x;
  VF_DEVICE float operator()(int i) const { return x[i]; }
  VF_DEVICE FourFloats Four(int i) const { return LoadAligned<FourFloats>(x + i); }
};
struct AtProduct {
  const ProductView* product;
  int row;
  VF_DEVICE float operator()(int i) const { return BiasedAt(*product, row, i); }
  VF_DEVICE FourFloats Four(int i) const { return FourBiasedAt(*product, row, i); }
};

// out = norm(x) for one row; x itself where there is no weight.
template <bool kWide>
VF_DEVICE void WriteNorm(const NormParams& p, const float* x, uint16_t* out) {
  const bool scaled = p.weight != nullptr;
  const Moments moments = scaled ? RowMoments<kWide>(p.width, p.layer, p.epsilon, AtPointer{x}) : Moments{};
  const auto value = [&](float number, float weight) { return (number - moments.mean) * moments.inverse * weight; };
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < p.width; i += kThreads * 4) {
      FourFloats four = LoadAligned<FourFloats>(x + i);
      if (scaled) {
        const FourFloats weight = LoadAligned<FourFloats>(p.weight + i);
        VF_UNROLL
        for (int n = 0; n < 4; ++n) four.at[n] = value(four.at[n], weight.at[n]);
        if (p.bias != nullptr) {
          const FourFloats bias = LoadAligned<FourFloats>(p.bias + i);
          VF_UNROLL
          for (int n = 0; n < 4; ++n) four.at[n] += bias.at[n];
        }
      }
      StoreAligned(out + i, PackFour(four));
    }
  } else {
    for (int i = ThreadX(); i < p.width; i += kThreads) {
      float number = scaled ? value(x[i], p.weight[i]) : x[i];
      if (scaled && p.bias != nullptr) number += p.bias[i];
      out[i] = RoundBf16(number);
    }
  }
}

template <bool kWide>
VF_KERNEL(kThreads, 1)
NormKernel(const NormParams p) {
  FollowPreviousLaunch();
  const int row = BlockX();
  WriteNorm<kWide>(p, p.x + WideProduct(p.rows == nullptr ? row : p.rows[row], p.width),
                   p.out + WideProduct(row, p.width));
}

// A thread reads for the norm what it has written itself.
template <bool kWide>
VF_KERNEL(kThreads, 1)
ResidualKernel(VF_PARAMS(ResidualParams) p) {
  FollowPreviousLaunch();
  const int row = BlockX(), width = p.product.columns;
  const AtProduct at{&p.product, row};
  const bool normed = p.norm_weight != nullptr;
  const Moments moments = normed ? RowMoments<kWide>(width, false, p.norm_epsilon, at) : Moments{};
  float* residual = p.residual + WideProduct(row, width);
  if constexpr (kWide) {
    for (int i = ThreadX() * 4; i < width; i += kThreads * 4) {
      FourFloats four = at.Four(i), sum = LoadAligned<FourFloats>(residual + i);
      if (normed) {
        const FourFloats weight = LoadAligned<FourFloats>(p.norm_weight + i);
        VF_UNROLL
        for (int n = 0; n < 4; ++n) four.at[n] = four.at[n] * moments.inverse * weight.at[n];
      }
      VF_UNROLL
      for (int n = 0; n < 4; ++n) sum.at[n] += p.multiplier * four.at[n];
      StoreAligned(residual + i, sum);
    }
  } else {
    for (int i = ThreadX(); i < width; i += kThreads) {
      const float value = normed ? at(i) * moments.inverse * p.norm_weight[i] : at(i);
      residual[i] += p.multiplier * value;
    }
  }
  if (p.next.out != nullptr) WriteNorm<kWide>(p.next, residual, p.next.out + WideProduct(row, width));
}

// Columns of a product that a thread of FinishKernel finishes: for one 16-byte store where kWide, else two.
VF_HD constexpr int FinishColumns(FinishMode mode, bool wide) {
  if (!wide) return 2;
  return mode == FinishMode::kGated ? 16 : 8;
}

// Eight neighbouring numbers; the column and the product's width are multiples of 8.
struct EightFloats {
  FourFloats low, high;
};
VF_DEVICE EightFloats EightProductsAt(const ProductView& product, int row, int column) {
  if (!product.is_bf16) return {FourProductsAt(product, row, column), FourProductsAt(product, row, column + 4)};
  const size_t at = WideProduct(row, product.columns) + column;
  const FourWords words = LoadAligned<FourWords>(static_cast<const uint16_t*>(product.data) + at);
  const auto four = [&](int first) {
    return FourFloats{{WidenLow(words.at[first]), WidenHigh(words.at[first]), WidenLow(words.at[first + 1]),
                       WidenHigh(words.at[first + 1])}};
  };
  return {four(0), four(2)};
}

// Four hidden units: the gates and ups of eight neighbouring columns.
VF_DEVICE FourFloats GatedAt(const FinishParams& p, int row, int column) {
  const auto [low, high] = EightProductsAt(p.product, row, column);
  float gates[4] = {low.at[0], low.at[2], high.at[0], high.at[2]};
  float ups[4] = {low.at[1], low.at[3], high.at[1], high.at[3]};
  FourFloats out;
  VF_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (p.product.bias != nullptr) {
      gates[i] += p.product.bias[column / 2 + i];
      ups[i] += p.product.bias[p.product.columns / 2 + column / 2 + i];
    }
    out.at[i] = Activate(p.activation, gates[i]) * ups[i];
  }
  return out;
}

// Epilogue of a product: a gate and its up are neighbours.
template <bool kWide>
VF_KERNEL(kThreads, 1)
FinishKernel(const FinishParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), columns = p.product.columns;
  const int column = (BlockY() * kThreads + ThreadX()) * FinishColumns(p.mode, kWide);
  if (column >= columns) return;
  if (p.mode == FinishMode::kGated) {
    const int f = column / 2, width = columns / 2;
    uint16_t* out = p.out + WideProduct(row, width) + f;
    if constexpr (kWide) {
      const TwoWords low = PackFour(GatedAt(p, row, column)), high = PackFour(GatedAt(p, row, column + 8));
      StoreAligned(out, FourWords{{low.at[0], low.at[1], high.at[0], high.at[1]}});
    } else {
      float gate = ProductAt(p.product, row, column), up = ProductAt(p.product, row, column + 1);
      if (p.product.bias != nullptr) {
        gate += p.product.bias[f];
        up += p.product.bias[width + f];
      }
      *out = RoundBf16(Activate(p.activation, gate) * up);
    }
    return;
  }
  uint16_t* out = p.out + WideProduct(row, columns) + column;
  if constexpr (kWide) {
    FourWords words;
    VF_UNROLL
    for (int half = 0; half < 2; ++half) {
      FourFloats value = FourBiasedAt(p.product, row, column + 4 * half);
      VF_UNROLL
      for (int i = 0; i < 4; ++i) value.at[i] = Activate(p.activation, value.at[i]);
      const TwoWords packed = PackFour(value);
      words.at[2 * half] = packed.at[0];
      words.at[2 * half + 1] = packed.at[1];
    }
    StoreAligned(out, words);
  } else {
    for (int c = 0; c < 2 && column + c < columns; ++c) {
      out[c] = RoundBf16(Activate(p.activation, BiasedAt(p.product, row, column + c)));
    }
  }
}

// ---- learned tau ----

// One warp a row: x . weight + bias in f32.
VF_KERNEL(kThreads, 1) TauDotKernel(const TauParams p) {
  FollowPreviousLaunch();
  const int row = BlockX() * kWarps + WarpIndex(), lane = LaneIndex();
  const bool inside = row < p.step.row_count;
  const uint16_t* x = p.x + WideProduct(inside ? row : 0, p.width);
  float sum = 0;
  for (int i = lane; i < p.width; i += 32) sum = FusedMultiplyAdd(WidenLow(x[i]), p.weight[i], sum);
  sum = WarpSum(sum);
  if (inside && lane == 0) p.raw[row] = sum + p.bias;
}

// A page's sums: within it up to each token, and before it.
struct TauPage {
  double* within;
  double* before;
};
VF_DEVICE TauPage TauPageOf(const TauParams& p, int sequence, int page_index) {
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + page_index];
  unsigned char* at = p.pool.annotations + WideProduct(page, p.pool.annotation_stride);
  return {reinterpret_cast<double*>(at + p.annotation_offset * kPageTokenCount),
          reinterpret_cast<double*>(at + p.pool.annotation_stride - kAnnotationTailBytes)};
}
VF_DEVICE double TauSum(const TauParams& p, int sequence, int position) {
  const TauPage page = TauPageOf(p, sequence, position / kPageTokenCount);
  return *page.before + page.within[position % kPageTokenCount];
}

// One block a sequence. The running sum up to a position is (sum before its page) + (sum within its page), each added
// in position order: pages can be summed in parallel, and no value depends on where a step begins.
VF_KERNEL(kThreads, 1) TauSumKernel(const TauParams p) {
  FollowPreviousLaunch();
  const int sequence = BlockX();
  const int first_row = p.step.first_rows[sequence], rows = p.step.first_rows[sequence + 1] - first_row;
  if (rows == 0) return;
  const int first = p.step.first_positions[sequence], last = first + rows - 1;
  const int first_page = first / kPageTokenCount, last_page = last / kPageTokenCount;
  for (int index = first_page + ThreadX(); index <= last_page; index += kThreads) {
    double* page = TauPageOf(p, sequence, index).within;
    const int begin = index == first_page ? first : index * kPageTokenCount;
    const int page_end = (index + 1) * kPageTokenCount, end = page_end < last + 1 ? page_end : last + 1;
    double sum = begin % kPageTokenCount == 0 ? 0.0 : page[begin % kPageTokenCount - 1];
    for (int position = begin; position < end; ++position) {
      sum += p.raw[first_row + position - first];
      page[position % kPageTokenCount] = sum;
    }
  }
  SyncThreads();
  if (ThreadX() == 0) {
    for (int index = first_page; index <= last_page; ++index) {
      // The sum before the page is stored in a page that was started earlier.
      if (index == first_page && first % kPageTokenCount != 0) continue;
      *TauPageOf(p, sequence, index).before = index == 0 ? 0.0 : TauSum(p, sequence, index * kPageTokenCount - 1);
    }
  }
  SyncThreads();
  const int prompt = p.step.prompt_rows[sequence];
  uint32_t low = 0, high = 0;
  for (int i = ThreadX(); i < rows; i += kThreads) {
    const int position = first + i;
    double mean = p.raw[first_row + i];
    if (p.mean != 1) {
      const int end = p.mean == 2 && position < prompt ? prompt - 1 : position;
      mean = TauSum(p, sequence, end) / (end + 1);
    }
    const float rounded = mean;
    const float raised = rounded > p.tau_min ? rounded : p.tau_min;
    const float tau = raised < p.tau_max ? raised : p.tau_max;
    p.scales[first_row + i] = 1.0 / tau;
    low += rounded <= p.tau_min;
    high += rounded >= p.tau_max;
  }
  if (p.bound_counts != nullptr) {
    if (low != 0) AtomicAdd(p.bound_counts + 2 * sequence, low);
    if (high != 0) AtomicAdd(p.bound_counts + 2 * sequence + 1, high);
  }
}

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
  const int row = BlockX(), dim = p.pool.head_dim, kv_heads = p.pool.kv_head_count, heads = p.query_head_count;
  const int lanes = QkvLanes(dim, kPairs), lane = LaneIndex() % lanes;
  const int wanted = BlockY() * QkvHeadsPerBlock(dim, kPairs) + WarpIndex() * (32 / lanes) + LaneIndex() / lanes;
  // Lanes past the last head repeat it and store nothing.
  const bool inside = wanted < heads + 2 * kv_heads;
  const int head = inside ? wanted : heads + 2 * kv_heads - 1;
  const int sequence = p.step.row_sequences[row], position = p.step.row_positions[row];
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + position / kPageTokenCount];
  unsigned char* page_tiles = p.pool.tiles + WideProduct(page, kv_heads, HeadPageBytes(dim));
  const RopeView* rope = p.sequence_ropes == nullptr ? nullptr : p.ropes + p.sequence_ropes[sequence];
  const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
  const int inner = is_query ? head : is_key ? head - heads : head - heads - kv_heads;
  const float* norm = is_query ? p.query_norm : is_key ? p.key_norm : nullptr;
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
    if (norm != nullptr) norm += inner * dim;
  } else if (p.query_norm != nullptr || p.key_norm != nullptr) {
    float squares = 0;
    for (int i = lane * kPairs; i < dim; i += lanes * kPairs) {
      const Numbers<kPairs> values = BiasedNumbersAt<kPairs>(p.product, row, head * dim + i);
      VF_UNROLL
      for (int n = 0; n < kPairs; ++n) squares += values.at[n] * values.at[n];
    }
    for (int mask = lanes / 2; mask > 0; mask >>= 1) squares += ShuffleXor(squares, mask);
    inverse = 1.0f / sqrtf(squares / dim + p.norm_epsilon);
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
      if (norm != nullptr) {
        x.at[n] = x.at[n] * inverse * norm[a + n];
        y.at[n] = y.at[n] * inverse * norm[b + n];
      }
      if (turns) {
        const float rotated = x.at[n] * cosine.at[n] - y.at[n] * sine.at[n];
        y.at[n] = y.at[n] * cosine.at[n] + x.at[n] * sine.at[n];
        x.at[n] = rotated;
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

int LaunchEmbed(const EmbedParams& p, LaunchStream stream) {
  return VF_LAUNCH(EmbedKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchNorm(const NormParams& p, LaunchStream stream) {
  const auto kernel = IsWide(p) ? NormKernel<true> : NormKernel<false>;
  return VF_LAUNCH(kernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchResidual(const ResidualParams& p, LaunchStream stream) {
  const bool wide = IsWide(p.product) && IsAligned(p.norm_weight, 16) && IsAligned(p.residual, 16);
  const auto kernel = wide ? ResidualKernel<true> : ResidualKernel<false>;
  // The order of the norm's sum follows from how it is read: a norm that differs in that has a launch of its own.
  const bool together = p.next.out == nullptr || IsWide(p.next) == wide;
  ResidualParams alone = p;
  if (!together) alone.next.out = nullptr;
  const int code = VF_LAUNCH(kernel, p.row_count, 1, 1, kThreads, 0, stream, alone);
  return code != 0 || together ? code : LaunchNorm(p.next, stream);
}
int LaunchFinish(const FinishParams& p, LaunchStream stream) {
  const bool wide = IsWide(p.product) && IsAligned(p.out, 16) && p.product.columns % FinishColumns(p.mode, true) == 0;
  const auto kernel = wide ? FinishKernel<true> : FinishKernel<false>;
  const int blocks = CeilDivide(p.product.columns, FinishColumns(p.mode, wide) * kThreads);
  return VF_LAUNCH(kernel, p.row_count, blocks, 1, kThreads, 0, stream, p);
}
int LaunchTau(const TauParams& p, LaunchStream stream) {
  const int dots = VF_LAUNCH(TauDotKernel, CeilDivide(p.step.row_count, kWarps), 1, 1, kThreads, 0, stream, p);
  if (dots != 0) return dots;
  return VF_LAUNCH(TauSumKernel, p.step.sequence_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchQkv(const QkvParams& p, LaunchStream stream) {
  const int dim = p.pool.head_dim;
  bool wide = IsWide(p.product) && dim % 8 == 0 && IsAligned(p.queries, 16);
  for (const RopeView& rope : p.ropes) {
    wide = wide && rope.rotary_dim % 8 == 0 && IsAligned(rope.cosines, 16) && IsAligned(rope.sines, 16);
  }
  const auto start = [&](const auto kernel, int pairs) {
    const int blocks = CeilDivide(p.query_head_count + 2 * p.pool.kv_head_count, QkvHeadsPerBlock(dim, pairs));
    return VF_LAUNCH(kernel, p.step.row_count, blocks, 1, kThreads, 0, stream, p);
  };
  return wide ? start(QkvKernel<4>, 4) : start(QkvKernel<1>, 1);
}
int LaunchScores(const ScoresParams& p, LaunchStream stream) {
  return VF_LAUNCH(ScoresKernel, CeilDivide(p.end - p.begin, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

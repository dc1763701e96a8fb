// Row-wise kernels: embedding, norms, epilogues of products, learned tau, and writing q, k, v.
//
// Sums have a fixed order: a thread's stride, a warp's butterfly, the warps in order. It depends only on the width.

#include <math.h>

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
  const size_t at = static_cast<size_t>(row) * product.columns + column;
  if (product.is_bf16) return WidenLow(static_cast<const uint16_t*>(product.data)[at]);
  const float* data = static_cast<const float*>(product.data);
  float sum = data[at];
  for (int split = 1; split < product.split_count; ++split) sum += data[split * product.split_stride + at];
  return sum;
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
  const int row = BlockX();
  const uint16_t* token = p.table + p.tokens[row] * p.table_stride;
  const uint16_t* position = p.positions == nullptr ? nullptr : p.positions + p.row_positions[row] * p.positions_stride;
  for (int i = ThreadX(); i < p.width; i += kThreads) {
    float value = WidenLow(token[i]) * p.multiplier;
    if (position != nullptr) value += WidenLow(position[i]);
    p.out[static_cast<size_t>(row) * p.width + i] = value;
  }
}

// The mean and one over the root of a row the block holds in memory; `at` gives an element.
struct Moments {
  float mean = 0, inverse = 0;
};
template <typename At>
VF_DEVICE Moments RowMoments(int width, bool layer, float epsilon, const At& at) {
  Moments moments;
  if (layer) {
    float sum = 0;
    for (int i = ThreadX(); i < width; i += kThreads) sum += at(i);
    moments.mean = BlockSum(sum) / static_cast<float>(width);
  }
  float squares = 0;
  for (int i = ThreadX(); i < width; i += kThreads) {
    const float centred = at(i) - moments.mean;
    squares += centred * centred;
  }
  moments.inverse = 1.0f / sqrtf(BlockSum(squares) / static_cast<float>(width) + epsilon);
  return moments;
}

struct AtPointer {
  const float* x;
  VF_DEVICE float operator()(int i) const { return x[i]; }
};
struct AtProduct {
  const ProductView* product;
  int row;
  VF_DEVICE float operator()(int i) const { return BiasedAt(*product, row, i); }
};

VF_KERNEL(kThreads, 1) NormKernel(const NormParams p) {
  const int row = BlockX();
  const float* x = p.x + static_cast<size_t>(p.rows == nullptr ? row : p.rows[row]) * p.width;
  uint16_t* out = p.out + static_cast<size_t>(row) * p.width;
  if (p.weight == nullptr) {
    for (int i = ThreadX(); i < p.width; i += kThreads) out[i] = RoundBf16(x[i]);
    return;
  }
  const Moments moments = RowMoments(p.width, p.layer, p.epsilon, AtPointer{x});
  for (int i = ThreadX(); i < p.width; i += kThreads) {
    float value = (x[i] - moments.mean) * moments.inverse * p.weight[i];
    if (p.bias != nullptr) value += p.bias[i];
    out[i] = RoundBf16(value);
  }
}

VF_KERNEL(kThreads, 1) NormResidualKernel(const NormResidualParams p) {
  const int row = BlockX(), width = p.product.columns;
  const AtProduct at{&p.product, row};
  const Moments moments = RowMoments(width, false, p.epsilon, at);
  float* residual = p.residual + static_cast<size_t>(row) * width;
  for (int i = ThreadX(); i < width; i += kThreads) {
    residual[i] += p.multiplier * (at(i) * moments.inverse * p.weight[i]);
  }
}

// Epilogue of a product, two neighbouring values per thread: a gate and its up, or two outputs.
VF_KERNEL(kThreads, 1) FinishKernel(const FinishParams p) {
  const int row = BlockX(), columns = p.product.columns;
  const int column = (BlockY() * kThreads + ThreadX()) * 2;
  if (column >= columns) return;
  if (p.mode == FinishMode::kGated) {
    const int f = column / 2, width = columns / 2;
    float gate = ProductAt(p.product, row, column), up = ProductAt(p.product, row, column + 1);
    if (p.product.bias != nullptr) {
      gate += p.product.bias[f];
      up += p.product.bias[width + f];
    }
    static_cast<uint16_t*>(p.out)[static_cast<size_t>(row) * width + f] = RoundBf16(Activate(p.activation, gate) * up);
    return;
  }
  for (int c = column; c < columns && c < column + 2; ++c) {
    const size_t at = static_cast<size_t>(row) * columns + c;
    const float value = BiasedAt(p.product, row, c);
    if (p.mode == FinishMode::kResidual) {
      static_cast<float*>(p.out)[at] += p.multiplier * value;
    } else {
      static_cast<uint16_t*>(p.out)[at] = RoundBf16(Activate(p.activation, value));
    }
  }
}

// ---- learned tau ----

// One warp a row: x . weight + bias in f32.
VF_KERNEL(kThreads, 1) TauDotKernel(const TauParams p) {
  const int row = BlockX() * kWarps + WarpIndex(), lane = LaneIndex();
  const bool inside = row < p.step.row_count;
  const uint16_t* x = p.x + static_cast<size_t>(inside ? row : 0) * p.width;
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
  unsigned char* at = p.pool.annotations + static_cast<size_t>(page) * p.pool.annotation_stride;
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
      sum += static_cast<double>(p.raw[first_row + position - first]);
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
    const float rounded = static_cast<float>(mean);
    const float raised = rounded > p.tau_min ? rounded : p.tau_min;
    const float tau = raised < p.tau_max ? raised : p.tau_max;
    p.scales[first_row + i] = static_cast<float>(1.0 / static_cast<double>(tau));
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
  return p.queries + static_cast<size_t>(row) * p.query_head_count * p.pool.head_dim;
}

// One block a row, one warp a head at a time.
VF_KERNEL(kThreads, 1) QkvKernel(VF_PARAMS(QkvParams) p) {
  const int row = BlockX(), warp = WarpIndex(), lane = LaneIndex();
  const int dim = p.pool.head_dim, kv_heads = p.pool.kv_head_count, heads = p.query_head_count;
  const int sequence = p.step.row_sequences[row], position = p.step.row_positions[row];
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + position / kPageTokenCount];
  unsigned char* page_tiles = p.pool.tiles + static_cast<size_t>(page) * kv_heads * HeadPageBytes(dim);
  const RopeView* rope = p.sequence_ropes == nullptr ? nullptr : p.ropes + p.sequence_ropes[sequence];
  // Over the width of all heads the whole block sums, q first, then k.
  float wide_query = 1, wide_key = 1;
  if (p.norm_over_width) {
    for (int which = 0; which < 2; ++which) {
      const int begin = which == 0 ? 0 : heads * dim, width = (which == 0 ? heads : kv_heads) * dim;
      float squares = 0;
      for (int i = ThreadX(); i < width; i += kThreads) {
        const float value = BiasedAt(p.product, row, begin + i);
        squares += value * value;
      }
      const float inverse = 1.0f / sqrtf(BlockSum(squares) / static_cast<float>(width) + p.norm_epsilon);
      (which == 0 ? wide_query : wide_key) = inverse;
    }
  }
  for (int head = warp; head < heads + 2 * kv_heads; head += kWarps) {
    const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
    const int inner = is_query ? head : is_key ? head - heads : head - heads - kv_heads;
    const float* norm = is_query ? p.query_norm : is_key ? p.key_norm : nullptr;
    float inverse = is_query ? wide_query : wide_key;
    if (norm != nullptr && !p.norm_over_width) {
      float squares = 0;
      for (int i = lane; i < dim; i += 32) {
        const float value = BiasedAt(p.product, row, head * dim + i);
        squares += value * value;
      }
      inverse = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(dim) + p.norm_epsilon);
    }
    if (norm != nullptr && p.norm_over_width) norm += inner * dim;
    const int rotary = (is_query || is_key) && rope != nullptr ? rope->rotary_dim : 0, half = rotary / 2;
    unsigned char* tile =
        page_tiles + inner * HeadPageBytes(dim) + (is_query || is_key ? 0 : TileBytes(dim, kPageTokenCount));
    // Pairs that turn together first, then what passes unrotated two by two.
    for (int pair = lane; pair < dim / 2; pair += 32) {
      const bool turns = pair < half;
      const int a = turns ? pair : 2 * pair, b = turns ? pair + half : 2 * pair + 1;
      float x = BiasedAt(p.product, row, head * dim + a), y = BiasedAt(p.product, row, head * dim + b);
      if (norm != nullptr) {
        x = x * inverse * norm[a];
        y = y * inverse * norm[b];
      }
      if (turns) {
        const size_t at = static_cast<size_t>(position) * half + pair;
        const float c = rope->cosines[at], s = rope->sines[at];
        const float rotated = x * c - y * s;
        y = y * c + x * s;
        x = rotated;
      }
      if (is_query) {
        float* out = QueryRow(p, row) + head * dim;
        out[a] = x;
        out[b] = y;
      } else {
        const int token = position % kPageTokenCount;
        *reinterpret_cast<uint16_t*>(tile + ElementOffset(dim, token, a)) = RoundBf16(x);
        *reinterpret_cast<uint16_t*>(tile + ElementOffset(dim, token, b)) = RoundBf16(y);
      }
    }
  }
}

// Unscaled scores of one query over its interval of keys, one thread a key, for InspectAttention.
VF_KERNEL(kThreads, 1) ScoresKernel(const ScoresParams p) {
  const int key = p.begin + BlockX() * kThreads + ThreadX();
  if (key >= p.end) return;
  const int dim = p.pool.head_dim, group = p.query_head_count / p.pool.kv_head_count;
  const int32_t page = p.step.page_tables[p.pool.table_starts[p.step.row_sequences[p.row]] + key / kPageTokenCount];
  const unsigned char* tile =
      p.pool.tiles + (static_cast<size_t>(page) * p.pool.kv_head_count + p.head / group) * HeadPageBytes(dim);
  const float* query = p.queries + (static_cast<size_t>(p.row) * p.query_head_count + p.head) * dim;
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
  return VF_LAUNCH(NormKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchNormResidual(const NormResidualParams& p, LaunchStream stream) {
  return VF_LAUNCH(NormResidualKernel, p.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchFinish(const FinishParams& p, LaunchStream stream) {
  return VF_LAUNCH(FinishKernel, p.row_count, CeilDivide(p.product.columns, 2 * kThreads), 1, kThreads, 0, stream, p);
}
int LaunchTau(const TauParams& p, LaunchStream stream) {
  const int dots = VF_LAUNCH(TauDotKernel, CeilDivide(p.step.row_count, kWarps), 1, 1, kThreads, 0, stream, p);
  if (dots != 0) return dots;
  return VF_LAUNCH(TauSumKernel, p.step.sequence_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchQkv(const QkvParams& p, LaunchStream stream) {
  return VF_LAUNCH(QkvKernel, p.step.row_count, 1, 1, kThreads, 0, stream, p);
}
int LaunchScores(const ScoresParams& p, LaunchStream stream) {
  return VF_LAUNCH(ScoresKernel, CeilDivide(p.end - p.begin, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

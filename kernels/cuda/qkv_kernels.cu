// q, k, v of a product: norms, rotation, and writing to queries and pages; and the scores of a written query.

#include "kernels/cuda/prefetch.h"
#include "kernels/cuda/qkv_heads.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// Blocks over rows and heads. kPairs is 4 where a head's dimensions and its rotary half are multiples of 8 and 4.
template <int kPairs>
VF_KERNEL(kThreads, 1)
QkvKernel(VF_PARAMS(QkvParams) p) {
  AllowNextLaunch();
  PrefetchAhead(p.ahead);
  const int row = BlockX(), dim = p.pool.head_dim, kv_heads = p.kv_head_count, heads = p.query_head_count;
  const int lanes = QkvLanes(dim, kPairs), lane = LaneIndex() % lanes;
  const int wanted = BlockY() * QkvHeadsPerBlock(dim, kPairs) + WarpIndex() * (32 / lanes) + LaneIndex() / lanes;
  // Lanes past the last head repeat it and store nothing.
  const bool inside = wanted < heads + 2 * kv_heads;
  const HeadPlace at = PlaceOfHead(p, row, inside ? wanted : heads + 2 * kv_heads - 1);
  const float* norm = at.norm;
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
      if (which == 0 ? at.is_query : at.is_key) inverse = wide;
    }
    if (norm != nullptr && (at.is_query || at.is_key)) norm += at.inner * dim;
  }
  // Of each head; over the width of all heads there are still norms of values.
  if (HasHeadNorms(p)) {
    const float own = InverseOfHead<kPairs>(p, at, lane, lanes);
    if (!p.norm_over_width || !(at.is_query || at.is_key)) inverse = own;
  }
  if (inside) WriteHead<kPairs>(p, at, norm, inverse, lane, lanes);
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
  const auto start = [&](const auto kernel, int pairs) {
    const int blocks = CeilDivide(p.query_head_count + 2 * p.kv_head_count, QkvHeadsPerBlock(dim, pairs));
    return VF_LAUNCH(kernel, p.step.row_count, blocks, 1, kThreads, 0, stream, p);
  };
  return IsWide(p) ? start(QkvKernel<4>, 4) : start(QkvKernel<1>, 1);
}
int LaunchScores(const ScoresParams& p, LaunchStream stream) {
  return VF_LAUNCH(ScoresKernel, CeilDivide(p.end - p.begin, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Focus routing (docs/focus.md): S of every row, Sinkhorn's b where it is computed, the groups of every token.
//
// Computed in float64 up to S and b, which are rounded once. Sums have a fixed order: a thread's stride, a warp's
// butterfly, the warps in order. It depends on the width, and for b on the number of rows, never on other rows.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kScoreRows = kThreads / kGroupCountMax;  // rows per block: they share the reads of the projection
static_assert(kGroupCountMax == 32, "one lane per group");

// The annotation of a position's page at `offset`.
template <typename T>
VF_DEVICE T* Annotation(const RouteParams& p, int sequence, int position, int offset) {
  const int32_t page = p.step.page_tables[p.pool.table_starts[sequence] + position / kPageTokenCount];
  return reinterpret_cast<T*>(p.pool.annotations + WideProduct(page, p.pool.annotation_stride) + offset);
}

VF_DEVICE float* KeptScores(const RouteParams& p, int sequence, int position) {
  return Annotation<float>(p, sequence, position, p.scores_offset) + position % kPageTokenCount * p.group_count;
}

// S = centroids (projection x).
VF_KERNEL(kThreads, 1) RouteScoresKernel(const RouteParams p) {
  FollowPreviousLaunch();
  double* routed = reinterpret_cast<double*>(SharedMemory());  // [kScoreRows][R]
  const int first_row = BlockX() * kScoreRows, left = p.step.row_count - first_row;
  const int rows = left < kScoreRows ? left : kScoreRows;
  for (int r = WarpIndex(); r < p.routing_dim; r += kWarps) {
    const float* weight = p.projection + WideProduct(r, p.width);
    double sums[kScoreRows];
    VF_UNROLL
    for (int row = 0; row < kScoreRows; ++row) sums[row] = 0;
    for (int i = LaneIndex(); i < p.width; i += 32) {
      const double w = weight[i];
      VF_UNROLL
      for (int row = 0; row < kScoreRows; ++row) {
        const size_t at = first_row + (row < rows ? row : 0);
        sums[row] += w * WidenLow(p.x[at * p.width + i]);
      }
    }
    VF_UNROLL
    for (int row = 0; row < kScoreRows; ++row) {
      const double sum = WarpSum(sums[row]);
      if (LaneIndex() == 0) routed[row * p.routing_dim + r] = sum;
    }
  }
  SyncThreads();
  const int row = WarpIndex(), group = LaneIndex();
  if (row >= rows || group >= p.group_count) return;
  double sum = 0;
  for (int r = 0; r < p.routing_dim; ++r) {
    sum += routed[row * p.routing_dim + r] * p.centroids[group * p.routing_dim + r];
  }
  const float score = sum;
  p.scores[WideProduct(first_row + row, p.group_count) + group] = score;
  if (p.bias == GroupBias::kPaged) {
    const int sequence = p.step.row_sequences[first_row + row];
    KeptScores(p, sequence, p.step.row_positions[first_row + row])[group] = score;
  }
}

// One block per b: of the complete pages before a page that this step starts, or of the prompt. A lane is a group, a
// warp processes every eighth row. The divisor of a row follows from the previous b, so there is no state between
// rounds.
VF_KERNEL(kThreads, 1) SinkhornKernel(const RouteParams p) {
  FollowPreviousLaunch();
  VF_SHARED double tops[kWarps][kGroupCountMax];
  VF_SHARED double sums[kWarps][kGroupCountMax];
  const int sequence = BlockX(), warp = WarpIndex(), group = LaneIndex();
  const int first_row = p.step.first_rows[sequence], first = p.step.first_positions[sequence];
  const int end = first + p.step.first_rows[sequence + 1] - first_row;
  const bool paged = p.bias == GroupBias::kPaged, inside = group < p.group_count;
  const int page = paged ? CeilDivide(first, kPageTokenCount) + BlockY() : 0;
  const int count = paged ? page * kPageTokenCount : p.step.prompt_rows[sequence];
  if (paged ? count >= end : first >= count) return;
  double b = 0;
  for (int round = 0; round < kSinkhornRounds && count > 0; ++round) {
    // log of each column's sum; a running largest term keeps the sums in range.
    double top = -INFINITY, sum = 0;
    for (int row = warp; row < count; row += kWarps) {
      const float* scores =
          paged ? KeptScores(p, sequence, row) : p.scores + WideProduct(first_row + row, p.group_count);
      double q = inside ? static_cast<double>(scores[group]) / p.temperature + b : -INFINITY;
      if (round > 0) {
        const double largest = WarpMax(q);
        q -= largest + log(WarpSum(inside ? exp(q - largest) : 0.0));
      }
      if (!inside) continue;
      if (q > top) {
        sum *= exp(top - q);
        top = q;
      }
      sum += exp(q - top);
    }
    tops[warp][group] = top;
    sums[warp][group] = sum;
    SyncThreads();
    double largest = tops[0][group], total = 0;
    for (int w = 1; w < kWarps; ++w) largest = tops[w][group] > largest ? tops[w][group] : largest;
    for (int w = 0; w < kWarps; ++w) total += sums[w][group] * exp(tops[w][group] - largest);
    if (inside) b -= largest + log(total);
    SyncThreads();
  }
  const double mean = WarpSum(inside ? b : 0.0) / p.group_count;
  if (warp == 0 && inside) {
    Annotation<float>(p, sequence, page * kPageTokenCount, p.bias_offset)[group] = b - mean;
  }
}

// One thread per row: the top_k largest of S / temperature + b, ties to the lower group.
VF_KERNEL(kThreads, 1) AssignGroupsKernel(const RouteParams p) {
  FollowPreviousLaunch();
  const int row = BlockX() * kThreads + ThreadX();
  if (row >= p.step.row_count) return;
  const int sequence = p.step.row_sequences[row], position = p.step.row_positions[row];
  const float* scores = p.scores + WideProduct(row, p.group_count);
  const float* bias = p.bias == GroupBias::kStored
                          ? p.group_bias
                          : Annotation<float>(p, sequence, p.bias == GroupBias::kPrompt ? 0 : position, p.bias_offset);
  uint32_t groups = 0;
  for (int n = 0; n < p.top_k; ++n) {
    int best = -1;
    double most = 0;
    for (int g = 0; g < p.group_count; ++g) {
      const double rank = static_cast<double>(scores[g]) / p.temperature + bias[g];
      if ((groups >> g & 1u) != 0 || (best >= 0 && !(rank > most))) continue;
      best = g;
      most = rank;
    }
    groups |= 1u << best;
  }
  Annotation<uint32_t>(p, sequence, position, p.groups_offset)[position % kPageTokenCount] = groups;
}

}  // namespace

int LaunchRoute(const RouteParams& p, LaunchStream stream) {
  const int shared_bytes = kScoreRows * p.routing_dim * static_cast<int>(sizeof(double));
  const int scores =
      VF_LAUNCH(RouteScoresKernel, CeilDivide(p.step.row_count, kScoreRows), 1, 1, kThreads, shared_bytes, stream, p);
  if (scores != 0) return scores;
  if (p.bias != GroupBias::kStored) {
    const int biases = VF_LAUNCH(SinkhornKernel, p.step.sequence_count, p.bias_count, 1, kThreads, 0, stream, p);
    if (biases != 0) return biases;
  }
  return VF_LAUNCH(AssignGroupsKernel, CeilDivide(p.step.row_count, kThreads), 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

// Mixture of experts: the experts of every row, and the rows of every expert.
//
// Sums have a fixed order: a lane's stride, then a warp's butterfly. It depends on the width and the number of experts,
// never on other rows.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = kWarps;  // of a block: they share the reads of the router; then a warp has a row

// In order of rank: the larger logit, or the lower number. One that is not a number counts as the lowest.
VF_DEVICE bool IsBefore(float a, int a_index, float b, int b_index) {
  const float left = isnan(a) ? -INFINITY : a, right = isnan(b) ? -INFINITY : b;
  return left != right ? left > right : a_index < b_index;
}

// Whether experts are ranked by other numbers than their logits.
VF_HD bool RanksApart(const MixtureRouteParams& p) {
  return p.routing.score != ExpertScore::kSoftmax || p.routing.group_count > 1 || p.choice_bias != nullptr;
}

// A warp's row: sigmoids replace logits; `ranks` are scores plus the choice bias.
VF_DEVICE void RankScores(const MixtureRouteParams& p, float top, float* logits, float* ranks) {
  float all = 0;
  if (p.routing.score == ExpertScore::kSoftmax && p.choice_bias != nullptr) {
    for (int e = LaneIndex(); e < p.expert_count; e += 32) all += expf(logits[e] - top);
    all = WarpSum(all);
  }
  for (int e = LaneIndex(); e < p.expert_count; e += 32) {
    if (p.routing.score == ExpertScore::kSigmoid) logits[e] = 1.0f / (1.0f + expf(-logits[e]));
    const bool is_share = p.routing.score == ExpertScore::kSoftmax && p.choice_bias != nullptr;
    const float score = is_share ? expf(logits[e] - top) / all : logits[e];
    ranks[e] = p.choice_bias == nullptr ? score : score + p.choice_bias[e];
  }
  SyncWarp();
}

// Experts outside of the kept groups get the lowest rank. `scores` is scratch for a number each group.
VF_DEVICE void KeepGroups(const MixtureRouteParams& p, float* scores, float* ranks) {
  const int groups = p.routing.group_count, size = p.expert_count / groups;
  for (int g = LaneIndex(); g < groups; g += 32) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const float rank = ranks[e];
      if (rank > first) {
        second = first;
        first = rank;
      } else if (rank > second) {
        second = rank;
      }
    }
    scores[g] = p.routing.group_score == GroupScore::kLargest ? first : first + second;
  }
  SyncWarp();
  for (int g = LaneIndex(); g < groups; g += 32) {
    int before = 0;
    for (int other = 0; other < groups; ++other) before += IsBefore(scores[other], other, scores[g], g) ? 1 : 0;
    for (int e = g * size; before >= p.routing.groups_kept && e < (g + 1) * size; ++e) ranks[e] = -INFINITY;
  }
  SyncWarp();
}

VF_KERNEL(kThreads, 1) MixtureRouteKernel(const MixtureRouteParams p) {
  FollowPreviousLaunch();
  const int experts = p.expert_count, first_row = BlockX() * kRows, left = p.row_count - first_row;
  const int rows = left < kRows ? left : kRows;
  float* all_logits = reinterpret_cast<float*>(SharedMemory());  // [kRows][E]
  int32_t* all_ranks = reinterpret_cast<int32_t*>(all_logits + kRows * experts);
  // The shared expert's gate is one output more.
  for (int e = WarpIndex(); e < experts + (p.shared_gate != nullptr ? 1 : 0); e += kWarps) {
    const float* weight = e < experts ? p.router + WideProduct(e, p.width) : p.shared_gate;
    const uint16_t* x = e < experts ? p.router_x : p.x;
    float sums[kRows];
    VF_UNROLL
    for (int row = 0; row < kRows; ++row) sums[row] = 0;
    for (int i = LaneIndex(); i < p.width; i += 32) {
      const float w = weight[i];
      VF_UNROLL
      for (int row = 0; row < kRows; ++row) {
        const size_t at = first_row + (row < rows ? row : 0);
        sums[row] = FusedMultiplyAdd(w, WidenLow(x[at * p.width + i]), sums[row]);
      }
    }
    VF_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const float sum = WarpSum(sums[row]);
      if (LaneIndex() != 0 || row >= rows) continue;
      if (e < experts) {
        all_logits[row * experts + e] = p.router_bias == nullptr ? sum : sum + p.router_bias[e];
      } else {
        p.shares[first_row + row] = 1.0f / (1.0f + expf(-sum));
      }
    }
  }
  SyncThreads();
  if (WarpIndex() >= rows) return;
  if (p.shared_gate == nullptr && LaneIndex() == 0) p.shares[first_row + WarpIndex()] = 1.0f;
  float* logits = all_logits + WarpIndex() * experts;
  int32_t* ranks = all_ranks + WarpIndex() * experts;
  float top = -INFINITY;
  for (int e = LaneIndex(); e < experts; e += 32) top = logits[e] > top ? logits[e] : top;
  top = WarpMax(top);
  const bool is_softmax = p.routing.score == ExpertScore::kSoftmax;
  float* values = logits;  // what experts are ranked by
  if (RanksApart(p)) {
    values = reinterpret_cast<float*>(all_ranks + kRows * experts) + WarpIndex() * experts;
    RankScores(p, top, logits, values);
    if (p.routing.group_count > 1) KeepGroups(p, reinterpret_cast<float*>(ranks), values);
  }
  for (int e = LaneIndex(); e < experts; e += 32) {
    int rank = 0;
    for (int other = 0; other < experts; ++other) rank += IsBefore(values[other], other, values[e], e) ? 1 : 0;
    ranks[e] = rank;
  }
  SyncWarp();
  const auto score_of = [&](int e) { return is_softmax ? expf(logits[e] - top) : logits[e]; };
  float sum = 0;
  for (int e = LaneIndex(); e < experts; e += 32) {
    if (!p.renormalised || ranks[e] < p.per_token) sum += score_of(e);
  }
  sum = WarpSum(sum);
  if (!is_softmax) sum = p.renormalised ? sum + kScoreSumFloor : 1.0f;
  const size_t first = WideProduct(first_row + WarpIndex(), p.per_token);
  for (int e = LaneIndex(); e < experts; e += 32) {
    if (ranks[e] >= p.per_token) continue;
    int place = 0;
    for (int other = 0; other < e; ++other) place += ranks[other] < p.per_token ? 1 : 0;
    p.chosen[first + place] = e;
    const float weight = score_of(e) / sum * p.routing.scaling;
    p.weights[first + place] = p.expert_scales == nullptr ? weight : weight * p.expert_scales[e];
  }
}

// One block per expert.
VF_KERNEL(kThreads, 1) MixtureListKernel(const MixtureListParams p) {
  FollowPreviousLaunch();
  VF_SHARED int32_t warp_counts[kWarps];
  const int expert = BlockX(), lane = LaneIndex(), warp = WarpIndex();
  int32_t* list = p.lists + WideProduct(expert, p.list_stride);
  int listed = 0;
  for (int begin = 0; begin < p.place_count; begin += kThreads) {
    const int place = begin + ThreadX();
    const bool mine = place < p.place_count && p.chosen[place] == expert;
    const uint32_t bits = WarpOr(mine ? 1u << lane : 0u);
    if (lane == 0) warp_counts[warp] = CountBits(bits);
    SyncThreads();
    int at = listed;
    for (int w = 0; w < kWarps; ++w) {
      at += w < warp ? warp_counts[w] : 0;
      listed += warp_counts[w];
    }
    if (mine) list[at + CountBits(bits & ((1u << lane) - 1))] = place;
    SyncThreads();
  }
  if (ThreadX() == 0) p.counts[expert] = listed;
}

}  // namespace

int LaunchMixtureRoute(const MixtureRouteParams& p, LaunchStream stream) {
  const int shared_bytes =
      kRows * p.expert_count * static_cast<int>(sizeof(float) * (RanksApart(p) ? 2 : 1) + sizeof(int32_t));
  return VF_LAUNCH(MixtureRouteKernel, CeilDivide(p.row_count, kRows), 1, 1, kThreads, shared_bytes, stream, p);
}
int LaunchMixtureList(const MixtureListParams& p, LaunchStream stream) {
  return VF_LAUNCH(MixtureListKernel, p.expert_count, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

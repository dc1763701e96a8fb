#include "kernels/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace varifocal::kernels {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Of numbers, whose larger one is first; ties to the lower index.
bool IsBefore(const float* ranks, int32_t a, int32_t b) {
  const float left = std::isnan(ranks[a]) ? kLowest : ranks[a], right = std::isnan(ranks[b]) ? kLowest : ranks[b];
  return left != right ? left > right : a < b;
}

// The best `wanted` of `count`, in order of their rank.
int TakeBest(const float* ranks, int count, int wanted, int32_t* best) {
  int taken = 0;
  for (int32_t e = 0; e < count; ++e) {
    if (taken == wanted && !IsBefore(ranks, e, best[taken - 1])) continue;
    int at = taken < wanted ? taken++ : taken - 1;
    for (; at > 0 && IsBefore(ranks, e, best[at - 1]); --at) best[at] = best[at - 1];
    best[at] = e;
  }
  return taken;
}

// Experts outside of the kept groups get the lowest rank.
void KeepGroups(const ExpertRouting& routing, int expert_count, float* ranks) {
  const int size = expert_count / routing.group_count;
  float scores[kExpertsMax];
  int32_t kept[kExpertsMax];
  for (int g = 0; g < routing.group_count; ++g) {
    float first = kLowest, second = kLowest;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      second = std::max(second, std::min(first, ranks[e]));
      first = std::max(first, ranks[e]);
    }
    scores[g] = routing.group_score == GroupScore::kLargest ? first : first + second;
  }
  const int count = TakeBest(scores, routing.group_count, routing.groups_kept, kept);
  for (int g = 0; g < routing.group_count; ++g) {
    if (std::find(kept, kept + count, g) == kept + count) std::fill_n(ranks + g * size, size, kLowest);
  }
}

}  // namespace

void ChooseExperts(const ExpertChoice& choice) {
  const float* logits = choice.logits;
  const ExpertRouting& routing = choice.routing;
  const int experts = choice.expert_count;
  float top = logits[0];
  for (int e = 1; e < experts; ++e) top = std::isnan(top) || logits[e] > top ? logits[e] : top;
  // Without a choice bias the order of shares is that of logits.
  const bool is_softmax = routing.score == ExpertScore::kSoftmax;
  const bool has_shares = is_softmax && (!choice.renormalised || choice.choice_bias != nullptr);
  float all = 0;
  for (int e = 0; has_shares && e < experts; ++e) all += std::exp(logits[e] - top);
  const auto score_of = [&](int e) {
    if (!is_softmax) return 1.0f / (1.0f + std::exp(-logits[e]));
    return std::exp(logits[e] - top) / all;
  };
  float ranks[kExpertsMax];
  for (int e = 0; e < experts; ++e) {
    ranks[e] = is_softmax && choice.choice_bias == nullptr ? logits[e] : score_of(e);
    if (choice.choice_bias != nullptr) ranks[e] += choice.choice_bias[e];
  }
  if (routing.group_count > 1) KeepGroups(routing, experts, ranks);
  const int count = TakeBest(ranks, experts, choice.per_token, choice.chosen);
  std::sort(choice.chosen, choice.chosen + count);
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    const int32_t e = choice.chosen[i];
    choice.weights[i] = is_softmax ? std::exp(logits[e] - top) : score_of(e);
    sum += choice.weights[i];
  }
  if (!is_softmax) sum += kScoreSumFloor;
  if (!choice.renormalised) sum = is_softmax ? all : 1.0f;
  for (int i = 0; i < count; ++i) choice.weights[i] = choice.weights[i] / sum * routing.scaling;
  for (int i = 0; choice.scales != nullptr && i < count; ++i) choice.weights[i] *= choice.scales[choice.chosen[i]];
}

}  // namespace varifocal::kernels

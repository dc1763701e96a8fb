#include "kernels/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace varifocal::kernels {

void ChooseExperts(const ExpertChoice& choice) {
  const float* logits = choice.logits;
  const auto rank = [&](int32_t e) {
    return std::isnan(logits[e]) ? -std::numeric_limits<float>::infinity() : logits[e];
  };
  const auto is_before = [&](int32_t a, int32_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; };
  // The best ones so far, in order of their rank.
  int count = 0;
  for (int32_t e = 0; e < choice.expert_count; ++e) {
    if (count == choice.per_token && !is_before(e, choice.chosen[count - 1])) continue;
    int at = count < choice.per_token ? count++ : count - 1;
    for (; at > 0 && is_before(e, choice.chosen[at - 1]); --at) choice.chosen[at] = choice.chosen[at - 1];
    choice.chosen[at] = e;
  }
  const float top = logits[choice.chosen[0]];
  std::sort(choice.chosen, choice.chosen + count);
  float sum = 0;
  for (int i = 0; i < count; ++i) choice.weights[i] = std::exp(logits[choice.chosen[i]] - top);
  if (choice.renormalised) {
    for (int i = 0; i < count; ++i) sum += choice.weights[i];
  } else {
    for (int e = 0; e < choice.expert_count; ++e) sum += std::exp(logits[e] - top);
  }
  for (int i = 0; i < count; ++i) choice.weights[i] /= sum;
  for (int i = 0; choice.scales != nullptr && i < count; ++i) choice.weights[i] *= choice.scales[choice.chosen[i]];
}

}  // namespace varifocal::kernels

#include "kernels/token_draw.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace varifocal::kernels {

DrawnToken DrawToken(std::span<const float> logits, const TokenDraw& draw) {
  VF_CHECK(!logits.empty() && draw.temperature > 0, "something is drawn, at a temperature");
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    return {0, logits[0]};
  struct Candidate {
    float logit;
    int32_t token;
    uint64_t mass;
  };
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> candidates;
  uint64_t total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const uint64_t mass = MassOf(logits[i], largest, draw.temperature);
    if (mass == 0) continue;
    candidates.push_back({logits[i], static_cast<int32_t>(i), mass});
    total += mass;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  if (draw.top_k > 0 && static_cast<size_t>(draw.top_k) < candidates.size()) {
    const float last = candidates[draw.top_k - 1].logit;
    while (candidates.back().logit < last) {
      total -= candidates.back().mass;
      candidates.pop_back();
    }
  }
  const uint64_t to_keep = MassToKeep(total, draw.top_p), least = LeastMass(draw.min_p);
  uint64_t kept = 0;
  for (size_t i = 0; kept < to_keep && candidates[i].mass >= least; ++i) kept += candidates[i].mass;
  uint64_t left = MassToPass(kept, draw.uniform);
  size_t i = 0;
  while (left >= candidates[i].mass) left -= candidates[i++].mass;
  return {candidates[i].token, candidates[i].logit};
}

}  // namespace varifocal::kernels

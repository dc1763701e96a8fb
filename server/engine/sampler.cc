#include "server/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace varifocal {

int32_t SampleToken(std::span<const float> logits, const SamplerSettings& settings, int64_t position) {
  VF_CHECK(!logits.empty() && settings.temperature > 0, "greedy choices are made elsewhere");
  struct Candidate {
    double weight;
    int32_t id;
  };
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> candidates(logits.size());
  double total = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double weight = std::exp((static_cast<double>(logits[id]) - largest) / settings.temperature);
    candidates[id] = {weight, static_cast<int32_t>(id)};
    total += weight;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  double kept = 0;
  size_t kept_count = 0;
  while (kept_count < candidates.size() && (kept_count == 0 || kept < settings.top_p * total))
    kept += candidates[kept_count++].weight;

  const double wanted = KeyedUniform(settings.seed, static_cast<uint64_t>(position)) * kept;
  double passed = 0;
  for (size_t i = 0; i + 1 < kept_count; ++i) {
    passed += candidates[i].weight;
    if (wanted < passed) return candidates[i].id;
  }
  return candidates[kept_count - 1].id;
}

}  // namespace varifocal

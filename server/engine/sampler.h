// Chooses the next token from logits: greedy is done by the backend, this is the seeded draw.
//
// softmax(logits / temperature), cut to the smallest set of most likely tokens that holds top_p of it, drawn with one
// uniform number that depends on (seed, position) alone. Equal logits are ordered by id.
//
// Cost: O(V log V), in float64; one row at a time.
#pragma once

#include <cstdint>
#include <span>

namespace varifocal {

struct SamplerSettings {
  double temperature = 1;
  double top_p = 1;
  uint64_t seed = 0;
};

// `position` is where the new token will stand.
int32_t SampleToken(std::span<const float> logits, const SamplerSettings& settings, int64_t position);

}  // namespace varifocal

// The seeded draw of a token: softmax(logits / temperature), cut by top_k, then top_p, then min_p.
//
// Each filter keeps a prefix of the tokens in the order of logits: top_k the first k and those equal to the last of them,
// top_p the fewest with at least this part of the mass that top_k left, min_p those with at least this part of the most likely
// one's mass.
//
// A token's mass is e^((logit - largest) / temperature) in fixed point, in units of 2^-40. Sums of masses are exact in
// any order, so host (sorting) and device (searching) select the same token. Equal logits are ordered by id.
// Tokens below 2^-40 of the most likely one are never drawn.
//
// Cost:   on the host O(V log V).
// Source: the order of transformers' generate (generation/utils.py, _get_logits_processor). vLLM has min_p before top_k and
//         top_p, so that top_p counts less mass; llama.cpp has the temperature last.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#if defined(__CUDACC__)
#define VF_ANYWHERE __host__ __device__
#else
#define VF_ANYWHERE
#endif

namespace varifocal::kernels {

struct TokenDraw {
  double temperature = 0;  // 0: nothing is drawn
  double top_p = 1;        // in (0, 1]; 1: all
  double uniform = 0;      // in [0, 1): selects the token
  double min_p = 0;        // in [0, 1]; 0: all
  int32_t top_k = 0;       // >= 0; 0: all
};

struct DrawnToken {
  int32_t token = -1;
  float logit = 0;
};

VF_ANYWHERE inline uint64_t MassOf(float logit, float largest, double temperature) {
  return static_cast<uint64_t>(exp((static_cast<double>(logit) - largest) / temperature) * 0x1p40);
}

// The least mass of a token that min_p keeps; that of the most likely one is 2^40.
VF_ANYWHERE inline uint64_t LeastMass(double min_p) {
  const uint64_t least = static_cast<uint64_t>(ceil(min_p * 0x1p40));
  return least < 1 ? 1 : least;
}

// The mass that top_p keeps of `total`.
VF_ANYWHERE inline uint64_t MassToKeep(uint64_t total, double top_p) {
  const double wanted = ceil(top_p * total);
  const uint64_t kept = wanted < total ? static_cast<uint64_t>(wanted) : total;
  return kept < 1 ? 1 : kept > total ? total : kept;
}

// The drawn token is the first whose cumulative mass exceeds this; below `kept`.
VF_ANYWHERE inline uint64_t MassToPass(uint64_t kept, double uniform) {
  const uint64_t passed = static_cast<uint64_t>(uniform * kept);
  return passed < kept ? passed : kept - 1;
}

// Logits that are not all finite give the first token.
DrawnToken DrawToken(std::span<const float> logits, const TokenDraw& draw);

}  // namespace varifocal::kernels

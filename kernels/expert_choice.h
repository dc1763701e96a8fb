// The experts of a row of a Mixture, on the host.
#pragma once

#include <cstdint>

#include "kernels/expert_routing.h"

namespace varifocal::kernels {

struct ExpertChoice {
  const float* logits = nullptr;  // [expert_count]
  int expert_count = 0;           // at most kExpertsMax
  int per_token = 0;
  bool renormalised = false;
  int32_t* chosen = nullptr;  // out [per_token], rising
  float* weights = nullptr;   // out [per_token]
  ExpertRouting routing = {};
  const float* choice_bias = nullptr;  // optional [expert_count]
  const float* scales = nullptr;       // optional [expert_count], multiply the weights
};

// See MixtureArgs. A logit that is not a number is chosen last; weights that are shares of all
// experts are then not numbers.
void ChooseExperts(const ExpertChoice& choice);

}  // namespace varifocal::kernels

// Standard normal draws of simulations and tests: Box and Muller, one of the pair. Two calls of Uniform, radius first, so that
// a seed gives the same experiment everywhere.
#pragma once

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace varifocal::stats {

inline double Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}

}  // namespace varifocal::stats

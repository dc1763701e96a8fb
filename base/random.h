// Random draws that are reproducible on every platform. std::*_distribution is not, so all draws use this header.
//
// A Random is a stream: xoshiro256** seeded by the SHA-256 digest of its name.
// KeyedUniform is stateless: a number that depends on (seed, position) alone, so that a draw does not depend on earlier
// or concurrent draws.
//
// Threads: a Random is used by one thread at a time.
// Source:  Blackman and Vigna 2021, arXiv:1805.01407 (xoshiro256**); Lemire 2019, arXiv:1805.10941 (bounded draws);
//          Steele, Lea and Flood 2014 (SplitMix64 finaliser).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/sha256.h"

namespace varifocal {

class Random {
 public:
  explicit Random(const Sha256Digest& seed);
  explicit Random(absl::string_view name) : Random(Sha256(name)) {}

  uint64_t Next();                 // 64 random bits
  uint64_t Below(uint64_t bound);  // uniform in [0, bound); bound > 0
  double Uniform();                // uniform in [0, 1), a multiple of 2^-53
  bool Coin() { return Next() >> 63; }

  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }
  template <typename T>
  const T& Choose(const std::vector<T>& items) {
    VF_CHECK(!items.empty());
    return items[Below(items.size())];
  }
  // `count` distinct indices below `bound`, in random order; count <= bound.
  std::vector<size_t> Sample(size_t bound, size_t count);

 private:
  uint64_t state_[4];
};

// Uniform in [0, 1), a function of its two arguments alone.
double KeyedUniform(uint64_t seed, uint64_t position);

}  // namespace varifocal

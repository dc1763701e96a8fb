// Bit-exact reimplementation of the draws of CPython's `random` and of numpy.
//
// A benchmark published as a Python program is defined by that program's draws. Reproducing its rows, demonstrations and
// label maps requires the same generators; all other code uses base/random.h.
//
// PythonRandom is random.Random(seed) for seeds below 2^64. NumpyRandom is numpy.random.default_rng(seed), as
// datasets.Dataset.shuffle(seed=..) uses it. NumpyLegacyRandom is numpy.random.seed(seed) and its global state.
//
// Threads: one at a time.
// Source:  Matsumoto and Nishimura 1998 (MT19937); O'Neill 2014 (PCG64, XSL-RR); the draws are those of CPython 3.11
//          and numpy 2, checked against vectors generated with them
//          (recipes/goldens/make_random.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"

namespace varifocal {

class MersenneTwister {
 public:
  static constexpr int kStateSize = 624;

  void Seed(uint32_t seed);                            // Knuth's initialisation
  void SeedByArray(absl::Span<const uint32_t> words);  // at least one
  uint32_t Next();

  int position() const { return position_; }
  uint32_t word(int i) const { return state_[i]; }

 private:
  std::array<uint32_t, kStateSize> state_;
  int position_ = kStateSize;
};

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  double Uniform();                                         // random.random()
  std::vector<uint32_t> GetRandBits(int bit_count);         // least significant word first; bit_count > 0
  uint64_t Below(uint64_t bound);                           // random._randbelow(bound); bound > 0
  std::vector<size_t> Sample(size_t bound, size_t count);   // random.sample(range(bound), count); count <= bound
  std::vector<size_t> Choices(size_t bound, size_t count);  // random.choices(range(bound), k=count)

  template <typename T>
  const T& Choice(const std::vector<T>& items) {
    VF_CHECK(!items.empty());
    return items[Below(items.size())];
  }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  uint32_t Word() { return twister_.Next(); }

  MersenneTwister twister_;
};

class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t Next64();
  uint32_t Next32();                              // two of one Next64, the low half first
  std::vector<size_t> Permutation(size_t count);  // Generator.permutation(count)

 private:
  uint64_t Interval(uint64_t largest);
  void Step();

  unsigned __int128 state_ = 0;
  unsigned __int128 increment_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

class NumpyLegacyRandom {
 public:
  explicit NumpyLegacyRandom(uint32_t seed) { twister_.Seed(seed); }

  double Uniform();                // numpy.random.random_sample()
  uint32_t Below(uint32_t bound);  // numpy.random.randint(0, bound); bound > 0
  // The seed of an unseeded Dataset.shuffle(), taken from the global state, which advances by one Uniform.
  uint32_t TakeShuffleSeed();

 private:
  MersenneTwister twister_;
};

// int(sha256(text).hexdigest(), 16) % 2**31, the seed for one row.
uint32_t Sha256Seed(absl::string_view text);

// random_state.train_test_split(test_size=share, seed=seed): the test rows are the first ones of the permutation.
struct TrainTestSplit {
  std::vector<size_t> train;
  std::vector<size_t> test;
};
TrainTestSplit SplitTrainTest(size_t count, double test_share, uint64_t seed);

}  // namespace varifocal

#include "eval_tasks/python/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/sha256.h"

namespace varifocal {
namespace {

int BitLength(uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }

uint64_t MaskOver(uint64_t x) { return x == 0 ? 0 : ~uint64_t{0} >> (64 - BitLength(x)); }

std::vector<uint32_t> Words(uint64_t seed) {
  std::vector<uint32_t> words = {static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) words.push_back(seed >> 32);
  return words;
}

double TwoWordsToUnit(uint32_t first, uint32_t second) {
  return ((first >> 5) * 67108864.0 + (second >> 6)) / 9007199254740992.0;
}

// numpy's SeedSequence: entropy words mixed into a pool of four, from which state words are generated.
class SeedSequence {
 public:
  explicit SeedSequence(absl::Span<const uint32_t> entropy) {
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = HashMix(i < entropy.size() ? entropy[i] : 0);
    for (size_t from = 0; from < pool_.size(); ++from) {
      for (size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = Mix(pool_[to], HashMix(pool_[from]));
      }
    }
  }

  uint64_t Next64() {
    const uint64_t low = Next32();
    return low | static_cast<uint64_t>(Next32()) << 32;
  }

 private:
  uint32_t HashMix(uint32_t value) {
    value ^= stir_;
    stir_ *= 0x931e8875u;
    value *= stir_;
    return value ^ (value >> 16);
  }
  static uint32_t Mix(uint32_t x, uint32_t y) {
    const uint32_t mixed = 0xca01f9ddu * x - 0x4973f715u * y;
    return mixed ^ (mixed >> 16);
  }
  uint32_t Next32() {
    uint32_t value = pool_[drawn_++ % pool_.size()] ^ draw_;
    draw_ *= 0x58f38dedu;
    value *= draw_;
    return value ^ (value >> 16);
  }

  std::array<uint32_t, 4> pool_;
  uint32_t stir_ = 0x43b0d7e5u;
  uint32_t draw_ = 0x8b51f9ddu;
  size_t drawn_ = 0;
};

}  // namespace

void MersenneTwister::Seed(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kStateSize; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  position_ = kStateSize;
}

void MersenneTwister::SeedByArray(absl::Span<const uint32_t> words) {
  VF_CHECK(!words.empty());
  Seed(19650218u);
  size_t i = 1, j = 0;
  auto advance = [&] {
    if (++i >= kStateSize) {
      state_[0] = state_[kStateSize - 1];
      i = 1;
    }
  };
  for (size_t k = std::max<size_t>(kStateSize, words.size()); k > 0; --k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525u)) + words[j] + j;
    advance();
    if (++j >= words.size()) j = 0;
  }
  for (int k = kStateSize - 1; k > 0; --k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941u)) - i;
    advance();
  }
  state_[0] = 0x80000000u;
  position_ = kStateSize;
}

uint32_t MersenneTwister::Next() {
  constexpr int kShift = 397;
  if (position_ == kStateSize) {
    for (int i = 0; i < kStateSize; ++i) {
      const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kStateSize] & 0x7fffffffu);
      state_[i] = state_[(i + kShift) % kStateSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
    }
    position_ = 0;
  }
  uint32_t y = state_[position_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

PythonRandom::PythonRandom(uint64_t seed) { twister_.SeedByArray(Words(seed)); }

double PythonRandom::Uniform() {
  const uint32_t first = Word();
  return TwoWordsToUnit(first, Word());
}

std::vector<uint32_t> PythonRandom::GetRandBits(int bit_count) {
  VF_CHECK(bit_count > 0);
  std::vector<uint32_t> words;
  for (; bit_count > 0; bit_count -= 32) words.push_back(Word() >> (bit_count < 32 ? 32 - bit_count : 0));
  return words;
}

uint64_t PythonRandom::Below(uint64_t bound) {
  VF_CHECK(bound > 0);
  const int bit_count = BitLength(bound);
  uint64_t value = 0;
  do {
    const std::vector<uint32_t> words = GetRandBits(bit_count);
    value = words[0] | (words.size() > 1 ? static_cast<uint64_t>(words[1]) << 32 : 0);
  } while (value >= bound);
  return value;
}

std::vector<size_t> PythonRandom::Sample(size_t bound, size_t count) {
  VF_CHECK(count <= bound);
  // A pool of all indices, or a set of the selected ones, by CPython's size rule: the draws differ.
  double set_size = 21;
  if (count > 5) {
    set_size += std::pow(4, std::ceil(std::log(static_cast<double>(count * 3)) / std::log(4.0)));
  }
  std::vector<size_t> result(count);
  if (bound <= set_size) {
    std::vector<size_t> pool(bound);
    std::iota(pool.begin(), pool.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      const size_t j = Below(bound - i);
      result[i] = pool[j];
      pool[j] = pool[bound - i - 1];
    }
  } else {
    std::unordered_set<size_t> seen;
    for (size_t& index : result) {
      do index = Below(bound);
      while (!seen.insert(index).second);
    }
  }
  return result;
}

std::vector<size_t> PythonRandom::Choices(size_t bound, size_t count) {
  std::vector<size_t> result(count);
  for (size_t& index : result) index = static_cast<size_t>(std::floor(Uniform() * bound));
  return result;
}

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::vector<uint32_t> words = Words(seed);
  SeedSequence sequence(words);
  auto next128 = [&] {
    const unsigned __int128 high = sequence.Next64();
    return high << 64 | sequence.Next64();
  };
  const unsigned __int128 start = next128();
  increment_ = next128() << 1 | 1;
  Step();
  state_ += start;
  Step();
}

void NumpyRandom::Step() {
  constexpr unsigned __int128 kMultiplier =
      static_cast<unsigned __int128>(0x2360ed051fc65da4ULL) << 64 | 0x4385df649fccf645ULL;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t NumpyRandom::Next64() {
  Step();
  const uint64_t mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const int rotation = state_ >> 122;
  return (mixed >> rotation) | (mixed << (-rotation & 63));
}

uint32_t NumpyRandom::Next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const uint64_t both = Next64();
  has_half_ = true;
  half_ = both >> 32;
  return both;
}

uint64_t NumpyRandom::Interval(uint64_t largest) {
  const uint64_t mask = MaskOver(largest);
  uint64_t value = 0;
  do value = (largest <= 0xffffffffu ? Next32() : Next64()) & mask;
  while (value > largest);
  return value;
}

std::vector<size_t> NumpyRandom::Permutation(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[Interval(i - 1)]);
  return order;
}

double NumpyLegacyRandom::Uniform() {
  const uint32_t first = twister_.Next();
  return TwoWordsToUnit(first, twister_.Next());
}

uint32_t NumpyLegacyRandom::Below(uint32_t bound) {
  VF_CHECK(bound > 0);
  if (bound == 1) return 0;  // without a draw
  const uint32_t mask = MaskOver(bound - 1);
  uint32_t value = 0;
  do value = twister_.Next() & mask;
  while (value >= bound);
  return value;
}

uint32_t NumpyLegacyRandom::TakeShuffleSeed() {
  const bool used_up = twister_.position() == MersenneTwister::kStateSize;
  const uint32_t seed = twister_.word(used_up ? 0 : twister_.position());
  Uniform();
  return seed;
}

uint32_t Sha256Seed(absl::string_view text) {
  const Sha256Digest digest = Sha256(text);
  uint32_t value = 0;
  for (int i = 28; i < 32; ++i) value = value << 8 | digest[i];
  return value & 0x7fffffffu;
}

TrainTestSplit SplitTrainTest(size_t count, double test_share, uint64_t seed) {
  const std::vector<size_t> order = NumpyRandom(seed).Permutation(count);
  const size_t test_count = static_cast<size_t>(std::ceil(test_share * count));
  return {{order.begin() + test_count, order.end()}, {order.begin(), order.begin() + test_count}};
}

}  // namespace varifocal

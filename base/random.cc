#include "base/random.h"

#include <unordered_map>

namespace varifocal {
namespace {

uint64_t RotateLeft(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

uint64_t Mix(uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double ToUnit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

Random::Random(const Sha256Digest& seed) {
  for (int i = 0; i < 4; ++i) {
    state_[i] = 0;
    for (int j = 0; j < 8; ++j) state_[i] |= static_cast<uint64_t>(seed[8 * i + j]) << (8 * j);
  }
  state_[0] |= 1;  // the all-zero state is a fixed point
}

uint64_t Random::Next() {
  const uint64_t result = RotateLeft(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = RotateLeft(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  VF_CHECK(bound > 0);
  // Multiply and keep the high half; draws whose low half falls in the biased remainder are rejected.
  unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = -bound % bound;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<unsigned __int128>(Next()) * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Random::Uniform() { return ToUnit(Next()); }

std::vector<size_t> Random::Sample(size_t bound, size_t count) {
  VF_CHECK(count <= bound);
  // Fisher-Yates on a sparse array: only modified entries are stored.
  std::unordered_map<size_t, size_t> moved;
  std::vector<size_t> result(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t j = i + Below(bound - i);
    auto at = [&](size_t k) {
      auto it = moved.find(k);
      return it == moved.end() ? k : it->second;
    };
    result[i] = at(j);
    moved[j] = at(i);
  }
  return result;
}

double KeyedUniform(uint64_t seed, uint64_t position) {
  return ToUnit(Mix(Mix(seed + 0x9e3779b97f4a7c15ULL) + (position + 1) * 0x9e3779b97f4a7c15ULL));
}

}  // namespace varifocal

// Lists of the keys of a group, and copies of listed keys and values in a page, for kernels that read pages.
//
// Shapes:  from a pool of either layout of keys to a page whose K is [128][D/per] and V [D/16][128/per][16].
#pragma once

#include <bit>

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

// See KernelTable::list_keys.
template <typename S>
int ListGroupKeys(const uint32_t* groups, int count, uint32_t bits, int32_t first, int32_t* positions,
                  uint32_t* key_groups) {
  int listed = 0;
  for (int key = 0; key < count; key += kTile) {
    uint32_t mask = S::AnyBits(groups + key, bits);
    if (count - key < kTile) mask &= (1u << (count - key)) - 1;
    if (positions != nullptr) {
      S::CompressIndices(first + key, mask, positions + listed);
      S::Compress(groups + key, mask, key_groups + listed);
    }
    listed += std::popcount(mask);
  }
  return listed;
}

// The first word of a key; the next ones follow at kv.key_stride.
template <typename S>
inline const float* KeyRow(const KeyValues& kv, int words, int position) {
  const int key = position % kPageTokens;
  const float* page = kv.keys(position / kPageTokens);
  return kv.key_stride == 1 ? page + key * words : page + key / kTile * words * kTile + key % kTile;
}

// The word of the value with the key at dims [0, 16); the next 16 follow at kValueStride.
template <typename S>
inline const float* ValueRow(const KeyValues& kv, int dim, int position) {
  return kv.values(position / kPageTokens, dim / S::kPer) + position % kPageTokens / S::kPer * kTile;
}
template <typename S>
inline constexpr int kValueStride = kPageTokens / S::kPer* kTile;

template <typename S>
inline void CollectKey(const KeyValues& kv, int words, int position, float* to) {
  const float* from = KeyRow<S>(kv, words, position);
  int i = 0;
  if (kv.key_stride == 1) {
    for (; i + kLanes <= words; i += kLanes) S::Store(to + i, S::Load(from + i));
  }
  for (; i < words; ++i) to[i] = from[i * kv.key_stride];
}

// The value of the key at `position` into slot `n` of a page's V. In bf16 an even slot clears the odd slot of its word,
// which may stay unused.
template <typename S>
inline void CollectValue(const KeyValues& kv, int dim, int position, int n, float* values) {
  const float* from = ValueRow<S>(kv, dim, position);
  float* to = values + n / S::kPer * kTile;
  for (int i = 0; i < dim; i += kTile, from += kValueStride<S>, to += kValueStride<S>) {
    if constexpr (S::kPer == 1) {
      S::Store(to, S::Load(from));
    } else {
      const typename S::V value = S::Half(S::Load(from), position % 2);
      S::Store(to, n % 2 == 0 ? S::Join(value, S::Zero()) : S::Join(S::Half(S::Load(to), 0), value));
    }
  }
}

// Prefetches a key and its value into L2. In columns a line has sixteen keys: only the first of them to be listed, after
// the key at `previous`, fetches it.
template <typename S>
inline void PrefetchKey(const KeyValues& kv, int dim, int position, int previous) {
  const int words = dim / S::kPer;
  const float* key = KeyRow<S>(kv, words, position);
  if (kv.key_stride == 1) {
    for (int i = 0; i < words; i += kTile) __builtin_prefetch(key + i, 0, 2);
  } else if (position / kTile != previous / kTile) {
    for (int i = 0; i < words; ++i) __builtin_prefetch(key + i * kTile, 0, 2);
  }
  const float* value = ValueRow<S>(kv, dim, position);
  for (int i = 0; i < dim; i += kTile) __builtin_prefetch(value + i / kTile * kValueStride<S>, 0, 2);
}

// Keys and values at `positions` as a page: K, then V.
template <typename S>
inline void CollectPage(const KeyValues& kv, int dim, const int32_t* positions, int count, float* page) {
  const int words = dim / S::kPer;
  for (int n = 0; n < count; ++n) CollectKey<S>(kv, words, positions[n], page + n * words);
  for (int n = 0; n < count; ++n) CollectValue<S>(kv, dim, positions[n], n, page + kPageTokens * words);
}

}  // namespace varifocal::kernels::cpu

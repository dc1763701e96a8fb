// Copies single keys and values into a page, so that kernels read collected keys in the layout of a page.
//
// Shapes:  from a pool whose K is [128][D/per]; to K rows of D/per words and V [D/16][128/per][16].
#pragma once

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

template <typename S>
inline const float* KeyRow(const KeyValues& kv, int words, int position) {
  return kv.keys(position / kPageTokens) + position % kPageTokens * words;
}

template <typename S>
inline void CopyWords(const float* from, int words, float* to) {
  int i = 0;
  for (; i + kLanes <= words; i += kLanes) S::Store(to + i, S::Load(from + i));
  for (; i < words; ++i) to[i] = from[i];
}

// The value of the key at `position` into slot `n` of a V tile. In bf16 an even slot clears the odd slot of its word,
// which may stay unused.
template <typename S>
inline void CollectValue(const KeyValues& kv, int dim, int position, int n, float* values) {
  const int words = dim / S::kPer, key = position % kPageTokens;
  const float* from = kv.values(position / kPageTokens, words) + key / S::kPer * kTile;
  float* to = values + n / S::kPer * kTile;
  const int column = kPageTokens / S::kPer * kTile;
  for (int d = 0; d < dim / kTile; ++d, from += column, to += column) {
    if constexpr (S::kPer == 1) {
      S::Store(to, S::Load(from));
    } else {
      const int half = n % 2;
      for (int i = 0; i < kTile; ++i) to[i] = WithHalf(half == 0 ? 0.0f : to[i], half, from[i], key % 2);
    }
  }
}

// Prefetches a key and its value into L2.
template <typename S>
inline void PrefetchKey(const KeyValues& kv, int dim, int position) {
  const int words = dim / S::kPer;
  const float* key = KeyRow<S>(kv, words, position);
  for (int i = 0; i < words; i += kTile) __builtin_prefetch(key + i, 0, 2);
  const float* value = kv.values(position / kPageTokens, words) + position % kPageTokens / S::kPer * kTile;
  for (int d = 0; d < dim; d += kTile, value += kPageTokens / S::kPer * kTile) __builtin_prefetch(value, 0, 2);
}

// Keys and values at `positions` as a page: K [128][D/per], then V.
template <typename S>
inline void CollectPage(const KeyValues& kv, int dim, const int32_t* positions, int count, float* page) {
  const int words = dim / S::kPer;
  for (int n = 0; n < count; ++n) CopyWords<S>(KeyRow<S>(kv, words, positions[n]), words, page + n * words);
  for (int n = 0; n < count; ++n) CollectValue<S>(kv, dim, positions[n], n, page + kPageTokens * words);
}

}  // namespace varifocal::kernels::cpu

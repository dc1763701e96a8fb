// Copies single keys and values into a page, so that kernels read collected keys in the layout of a page.
//
// Shapes:  from a pool whose K is [128][D/per] and V [128/per][D] to rows of the same.
#pragma once

#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels::cpu {

template <typename S>
inline const float* KeyRow(const KeyValues& kv, int words, int position) {
  return kv.keys(position / kPageTokens) + position % kPageTokens * words;
}

template <typename S>
inline const float* ValueRow(const KeyValues& kv, int dim, int position) {
  return kv.values(position / kPageTokens, dim / S::kPer) + position % kPageTokens / S::kPer * dim;
}

template <typename S>
inline void CopyWords(const float* from, int words, float* to) {
  int i = 0;
  for (; i + kLanes <= words; i += kLanes) S::Store(to + i, S::Load(from + i));
  for (; i < words; ++i) to[i] = from[i];
}

// The value of the key at `position` into slot `n` of rows of V. In bf16 an even slot clears the odd slot of its word,
// which may stay unused.
template <typename S>
inline void CollectValue(const KeyValues& kv, int dim, int position, int n, float* values) {
  const float* from = ValueRow<S>(kv, dim, position);
  float* to = values + n / S::kPer * dim;
  if constexpr (S::kPer == 1) {
    CopyWords<S>(from, dim, to);
  } else {
    for (int i = 0; i < dim; i += kLanes) {
      const typename S::V value = S::Half(S::Load(from + i), position % 2);
      S::Store(to + i, n % 2 == 0 ? S::Join(value, S::Zero()) : S::Join(S::Half(S::Load(to + i), 0), value));
    }
  }
}

// Prefetches a key and its value into L2.
template <typename S>
inline void PrefetchKey(const KeyValues& kv, int dim, int position) {
  const int words = dim / S::kPer;
  const float* key = KeyRow<S>(kv, words, position);
  for (int i = 0; i < words; i += kTile) __builtin_prefetch(key + i, 0, 2);
  const float* value = ValueRow<S>(kv, dim, position);
  for (int i = 0; i < dim; i += kTile) __builtin_prefetch(value + i, 0, 2);
}

// Keys and values at `positions` as a page: K [128][D/per], then V.
template <typename S>
inline void CollectPage(const KeyValues& kv, int dim, const int32_t* positions, int count, float* page) {
  const int words = dim / S::kPer;
  for (int n = 0; n < count; ++n) CopyWords<S>(KeyRow<S>(kv, words, positions[n]), words, page + n * words);
  for (int n = 0; n < count; ++n) CollectValue<S>(kv, dim, positions[n], n, page + kPageTokens * words);
}

}  // namespace varifocal::kernels::cpu

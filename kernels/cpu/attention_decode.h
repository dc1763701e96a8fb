// Decode attention of one query row and one KV head over one split of keys.
//
// Scores have keys in lanes and values have head dims in lanes, so both read the page in place; decode_blocks.h has the
// blocks of keys. row_max is the whole part of the largest score so far, updated between blocks; values are summed in
// four chains by word (a key, or a pair of bf16 keys) modulo 4. Splits are fixed ranges of absolute positions and are
// merged in order, so bits depend on the row alone. "per" is KernelTable::elements_per_word.
//
// Shapes:  scratch has per head the scaled query [D], the chains [4][D], the sums, row_max and the weights of a
//          block [128]; then a page of transposed keys.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/decode_blocks.h"

namespace varifocal::kernels::cpu {

inline constexpr int kChains = 4;

// Scores of a page's 128 keys, four vectors of keys at a time; the query in words. Sums begin at `start`, [128], or at
// zero where it is null: kMaskedScore hides a key at no cost, as no score is large enough to change it much.
template <typename S>
inline void ScorePage(const float* keys, int words, const float* query, const float* start, float* scores) {
  for (int tile = 0; tile < kPageTokens / kTile; tile += 4) {
    const float* from = keys + tile * words * kTile;
    typename S::V sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = start == nullptr ? S::Zero() : S::Load(start + (tile + j) * kTile);
    for (int i = 0; i < words; ++i) {
      const typename S::V q = S::Set1(query[i]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] = S::Dot(q, S::Load(from + (j * words + i) * kTile), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) S::Store(scores + (tile + j) * kTile, sum[j]);
  }
}

// Scores of sixteen keys that are rows [D/per]. All loops over keys are unrolled, so that sums stay in registers.
template <typename S>
inline typename S::V ScoreRows(const float* const* rows, int words, const float* query) {
  typename S::V sum[kTile];
#pragma GCC unroll 4
  for (int first = 0; first < kTile; first += S::kDecodeKeys) {
    typename S::V part[S::kDecodeKeys];
#pragma GCC unroll 8
    for (int j = 0; j < S::kDecodeKeys; ++j) part[j] = S::Zero();
    int i = 0;
    for (; i + kLanes <= words; i += kLanes) {
      const typename S::V q = S::Load(query + i);
#pragma GCC unroll 8
      for (int j = 0; j < S::kDecodeKeys; ++j) part[j] = S::Dot(q, S::Load(rows[first + j] + i), part[j]);
    }
    if (i < words) {
      float padded[2][kLanes] = {};
      std::copy(query + i, query + words, padded[0]);
      const typename S::V q = S::Load(padded[0]);
#pragma GCC unroll 8
      for (int j = 0; j < S::kDecodeKeys; ++j) {
        std::copy(rows[first + j] + i, rows[first + j] + words, padded[1]);
        part[j] = S::Dot(q, S::Load(padded[1]), part[j]);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < S::kDecodeKeys; ++j) sum[first + j] = part[j];
  }
  return S::SumEach(sum);
}

// The words of values that are added, in order: their number, indices among the weights, and addresses.
struct PageWords {
  const DecodeBlock& block;
  int last = 0;
  int Index(int n) const { return n; }
  const float* At(int n) const { return block.values + n * kTile; }
};
template <int kPer>
struct SomeWords : PageWords {
  uint32_t Index(int n) const { return static_cast<uint32_t>(block.word_keys[n]) / kPer; }
  const float* At(int n) const { return block.values + Index(n) * kTile; }
};
struct ListedWords : PageWords {
  const float* At(int n) const { return block.value_words[n]; }
};

// chains[n % 4][dims] += weights * values of word n, for words [first, words.last) and kTiles tiles of 16 dims.
template <typename S, int kTiles, typename Words>
inline void AddValueTiles(const Words& words, int first, int dim, int dim_first, const float* weights, float* chains) {
  const int column = dim_first / kTile * kValueStride<S>, last = words.last;
  typename S::V sum[kTiles][kChains];
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) sum[t][c] = S::Load(chains + c * dim + dim_first + t * kTile);
  }
  const auto add = [&](int n, int c) __attribute__((always_inline)) {
    const float* value = words.At(n) + column;
    const typename S::V weight = S::Set1(weights[words.Index(n)]);
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) sum[t][c] = S::Dot(weight, S::Load(value + t * kValueStride<S>), sum[t][c]);
  };
  int n = first;
  for (; n + kChains <= last; n += kChains) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) add(n + c, c);
  }
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) {
    if (n + c < last) add(n + c, c);
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) S::Store(chains + c * dim + dim_first + t * kTile, sum[t][c]);
  }
}

template <typename S, typename Words>
inline void AddWords(const Words& words, int first, int dim, const float* weights, float* chains) {
  int d = 0;
  if constexpr (S::kLaneVectors >= 3) {
    for (; d + 4 * kTile <= dim; d += 4 * kTile) AddValueTiles<S, 4>(words, first, dim, d, weights, chains);
  }
  for (; d < dim; d += kTile) AddValueTiles<S, 1>(words, first, dim, d, weights, chains);
}

// Adds the values of a block to the chains. Words before the first visible key have weight zero; words after the last
// one are not read: they may contain data of another sequence.
template <typename S, bool kListed>
inline void AddValues(const DecodeBlock& block, int dim, const float* weights, float* chains) {
  const int first = block.from / S::kPer / kChains * kChains, last = (block.to + S::kPer - 1) / S::kPer;
  if constexpr (kListed) {
    AddWords<S>(ListedWords{{block, last}}, first, dim, weights, chains);
  } else if (block.word_keys != nullptr) {
    AddWords<S>(SomeWords<S::kPer>{{block, block.word_count}}, 0, dim, weights, chains);
  } else {
    AddWords<S>(PageWords{block, last}, first, dim, weights, chains);
  }
}

// The running state of a head.
template <typename S>
struct DecodeHead {
  float* query;   // [D/per]
  float* chains;  // [4][D]
  float* sums;    // [16]
  float* row_max;
  float* weights;  // [128] of the block; scores at first

  DecodeHead(float* scratch, int dim)
      : query(scratch),
        chains(scratch + dim),
        sums(chains + kChains * dim),
        row_max(sums + kTile),
        weights(row_max + kTile) {}
  static int Floats(int dim) { return (1 + kChains) * dim + 2 * kTile + kPageTokens; }
};

// kMaskedScore at [from, 128).
template <typename S>
inline void MaskScoresFrom(int from, float* scores) {
  int key = from;
  for (; key % kLanes != 0; ++key) scores[key] = kMaskedScore;
  for (; key < kPageTokens; key += kLanes) S::Store(scores + key, S::Set1(kMaskedScore));
}

// Scores of a block in head.weights, kMaskedScore or less than any score where the row does not see the key.
template <typename S>
inline void MaskedScores(const DecodeBlock& block, int dim, float soft_cap, const DecodeHead<S>& head) {
  float* weights = head.weights;
  if (block.key_rows == nullptr) ScorePage<S>(block.keys, dim / S::kPer, head.query, block.start, weights);
  if (soft_cap > 0) CapScores<S>(soft_cap, kPageTokens, weights);
  std::fill(weights, weights + block.from, kMaskedScore);
  MaskScoresFrom<S>(block.to, weights);
}

template <typename S, bool kListed>
inline void DecodeKeys(const DecodeBlock& block, int dim, float soft_cap, const DecodeHead<S>& head) {
  MaskedScores<S>(block, dim, soft_cap, head);
  float* weights = head.weights;
  typename S::V top = S::Load(weights);
  for (int k = kTile; k < kPageTokens; k += kTile) top = S::Max(top, S::Load(weights + k));
  const float page_top = MaxLanes<S>(top);
  typename S::V sums = S::Load(head.sums);
  if (page_top > *head.row_max) {
    const typename S::V moved = S::Round(S::Set1(page_top));
    const typename S::V scale = S::Scale2(S::Set1(1.0f), S::Sub(S::Set1(*head.row_max), moved));
    sums = S::Mul(sums, scale);
    for (int i = 0; i < kChains * dim; i += kLanes) S::Store(head.chains + i, S::Mul(S::Load(head.chains + i), scale));
    float lanes[kLanes];
    S::Store(lanes, moved);
    *head.row_max = lanes[0];
  }
  for (int k = 0; k < kPageTokens; k += kTile) {
    const typename S::V weight = WeightAgainst<S>(S::Load(weights + k), S::Set1(*head.row_max));
    sums = S::Add(sums, weight);
    S::Store(weights + k, weight);
  }
  S::Store(head.sums, sums);
  if constexpr (S::kPer == 2) {
    for (int word = 0; word < kPageTokens / 2; word += kLanes)
      S::Store(weights + word, S::PackAdjacent(weights + 2 * word));
  }
  AddValues<S, kListed>(block, dim, weights, head.chains);
}

// The scaled queries of the query heads of a KV head.
template <typename S, typename HeadAt>
inline void LoadQueries(const DecodeSplit& split, int dim, const HeadAt& head_at) {
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    const float* from = split.queries + head * split.head_dim;
    const float scale = split.head_scales != nullptr ? split.scale * split.head_scales[head] : split.scale;
    ScaleQuery<S>(from, split.head_dim, QueryFactor<S>(from, split.head_dim, scale), state.query);
    std::fill(state.query + WordCount(split.head_dim, S::kPer), state.query + dim / S::kPer, 0.0f);
  }
}

// Scores of listed keys in their slots, sixteen keys at a time, which stay in the first-level cache for all heads.
template <typename S, typename HeadAt>
inline void ScoreKeyRows(const DecodeBlock& block, const DecodeSplit& split, int dim, const HeadAt& head_at) {
  if (block.key_rows == nullptr) return;
  for (int first = 0; first < block.listed; first += kTile) {
    for (int head = 0; head < split.head_count; ++head) {
      S::Store(head_at(head).weights + first, ScoreRows<S>(block.key_rows + first, dim / S::kPer, head_at(head).query));
    }
  }
  if constexpr (S::kPer == 2) {
    // From the last one on: a score's slot is its index or a later one.
    for (int head = 0; head < split.head_count; ++head) {
      float* weights = head_at(head).weights;
      int index = block.listed;
      for (int n = (block.to - 1) / kTile; n >= 0; --n) {
        index -= std::popcount(block.slots[n]);
        S::Store(weights + n * kTile, S::Expand(weights + index, block.slots[n], kMaskedScore));
      }
    }
  }
}

// A block of keys is read once for all its query heads.
template <typename S, typename Keys>
void AttendDecode(const DecodeSplit& split, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    std::fill(state.chains, state.chains + kChains * dim, 0.0f);
    S::Store(state.sums, S::Zero());
    *state.row_max = kEmptyRowMax;
  }
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head)
      DecodeKeys<S, Keys::kListed>(block, dim, split.soft_cap, head_at(head));
  });
  for (int head = 0; head < split.head_count; ++head) {
    const DecodeHead<S> state = head_at(head);
    const float* chains = state.chains;
    float* partial = split.partials + head * (dim + 2);
    for (int i = 0; i < dim; i += kLanes) {
      S::Store(partial + i, S::Add(S::Add(S::Load(chains + i), S::Load(chains + dim + i)),
                                   S::Add(S::Load(chains + 2 * dim + i), S::Load(chains + 3 * dim + i))));
    }
    partial[dim] = *state.row_max;
    partial[dim + 1] = SumLanes<S>(S::Load(state.sums));
  }
}

// See MergedParts.
template <typename S>
void MergeRowParts(const MergedParts& args) {
  const int dim = args.dim, whole = dim / kLanes * kLanes;
  float* out = args.out;
  std::fill(out, out + dim, 0.0f);
  float row_max = kEmptyRowMax, sum = 0;
  for (int n = 0; n < args.part_count; ++n) row_max = std::max(row_max, args.parts[n * args.stride + args.sums_at]);
  const auto each = [&](const auto& vectors, const auto& numbers) {
    for (int i = 0; i < whole; i += kLanes) S::Store(out + i, vectors(i));
    for (int i = whole; i < dim; ++i) out[i] = numbers(i);
  };
  for (int n = 0; n < args.part_count; ++n) {
    const float* from = args.parts + n * args.stride;
    // 2^below for a whole number; those that are not normal count as 0.
    const float below = from[args.sums_at] - row_max;
    const float factor = below < -126.0f ? 0.0f : std::bit_cast<float>((127 + static_cast<int32_t>(below)) << 23);
    each([&](int i) { return S::Add(S::Load(out + i), S::Mul(S::Load(from + i), S::Set1(factor))); },
         [&](int i) { return out[i] + from[i] * factor; });
    sum += from[args.sums_at + 1] * factor;
  }
  sum += SinkWeight<S>(args.sink, row_max);
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
  each([&](int i) { return S::Mul(S::Load(out + i), S::Set1(inverse)); }, [&](int i) { return out[i] * inverse; });
  if (args.log_sum_exp != nullptr) *args.log_sum_exp = LogSumExp<S>(row_max, sum, args.sink);
}

// The scores that AttendDecode computes weights from, under its mask, for a visitor.
template <typename S, typename Keys>
void VisitScores(const DecodeSplit& split, ScoreVisitor& visitor, float* scratch) {
  const int dim = PaddedDim(split.head_dim);
  const auto head_at = [&](int head) { return DecodeHead<S>(scratch + head * DecodeHead<S>::Floats(dim), dim); };
  float* tile = scratch + split.head_count * DecodeHead<S>::Floats(dim);
  LoadQueries<S>(split, dim, head_at);
  Keys::template Each<S>(split, tile, [&](const DecodeBlock& block) {
    ScoreKeyRows<S>(block, split, dim, head_at);
    for (int head = 0; head < split.head_count; ++head) {
      MaskedScores<S>(block, dim, split.soft_cap, head_at(head));
      visitor.Visit(head, {.scores = head_at(head).weights,
                           .from = block.from,
                           .to = block.to,
                           .first = block.first,
                           .positions = block.positions});
    }
  });
}

}  // namespace varifocal::kernels::cpu

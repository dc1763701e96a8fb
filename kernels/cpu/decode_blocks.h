// The keys of a decode split as blocks of up to 128: pages in place, pages under a mask by groups, or listed keys.
//
// Under a mask either the visible keys are listed and read as rows, where these are few, or all keys of a page are
// scored and the values of visible ones read.
//
// Shapes:  see DecodeBlock and kernel_table.h.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/cpu/collect_keys.h"

namespace varifocal::kernels::cpu {

// A block of up to 128 keys: K [128/16][D/per][16] of a page, V [D/16][128/per][16], of which those in [from, to) are
// visible that `start` does not hide. Or listed keys, all visible, with the words of their values.
struct DecodeBlock {
  const float* keys = nullptr;
  const float* values = nullptr;
  int from = 0, to = 0;                // listed: slots of keys, those of the words of values
  int32_t first = 0;                   // position of key 0; not used with `positions`
  const int32_t* positions = nullptr;  // listed: of the slots

  // A page under a mask: where sums of scores begin, and the first keys of the words with a visible key where the others
  // are not read.
  const float* start = nullptr;  // [128]
  const int32_t* word_keys = nullptr;
  int word_count = 0;

  int listed = 0;
  const float* const* key_rows = nullptr;  // to a whole tile
  const float* const* value_words = nullptr;
  const uint32_t* slots = nullptr;  // bit i of n: slot 16 n + i has a key
};

// Words of a key up to which the next page's keys are prefetched: ScorePage reads four tiles of them in turn, and the
// hardware's prefetching starts too late for streams that short. Keys that are rows take the same path.
inline constexpr int kShortKeyWords = 32;

// Pages read in place.
struct PageKeys {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    const int words = PaddedDim(split.head_dim) / S::kPer;
    const RowInterval seen = split.mask.seen;
    for (int first = seen.begin / kPageTokens * kPageTokens; first < seen.end; first += kPageTokens) {
      if (words <= kShortKeyWords && first + kPageTokens < seen.end) {
        const float* next = split.kv.keys(first / kPageTokens + 1);
        for (int i = 0; i < kPageTokens * words; i += kTile) __builtin_prefetch(next + i, 0, 2);
      }
      block(DecodeBlock{.keys = split.kv.keys(first / kPageTokens),
                        .values = split.kv.values(first / kPageTokens, words),
                        .from = std::max(seen.begin - first, 0),
                        .to = std::min(seen.end - first, kPageTokens),
                        .first = first});
    }
  }
};

// Pages whose keys are rows.
struct TransposedKeys {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float* tile, const Block& block) {
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      const int words = PaddedDim(split.head_dim) / S::kPer;
      for (int first = 0; first < kPageTokens; first += kTile) {
        const float* rows[kTile];
        for (int key = 0; key < kTile; ++key) rows[key] = page.keys + (first + key) * words;
        TransposeRows<S>(rows, words, tile + first * words, kTile);
      }
      page.keys = tile;
      block(page);
    });
  }
};

// Room for a page under a mask.
struct MaskedPage {
  float start[kPageTokens];
  int32_t word_keys[kPageTokens + kTile];
};

// Sets block.start, and block.word_keys where at most three quarters of the words have a visible key: an index costs a
// part of its products.
template <typename S>
inline void MaskPage(const DecodeSplit& split, MaskedPage& room, DecodeBlock& block) {
  const uint32_t* groups = split.kv.groups(block.first / kPageTokens);
  uint32_t with_window[kPageTokens];  // keys of the row's window are in every group
  if (split.mask.window_begin < block.first + kPageTokens) {
    std::copy_n(groups, kPageTokens, with_window);
    std::fill(with_window + std::max(0, split.mask.window_begin - block.first), with_window + kPageTokens, ~0u);
    groups = with_window;
  }
  uint32_t words[kPageTokens / kTile];  // bits of first keys
#pragma GCC unroll 8
  for (int n = 0; n < kPageTokens / kTile; ++n) {
    const uint32_t* of_tile = groups + n * kTile;
    const typename S::V of_keys = S::Load(reinterpret_cast<const float*>(of_tile));
    S::Store(room.start + n * kTile,
             S::SelectAnyBit(of_keys, split.mask.token_groups, S::Zero(), S::Set1(kMaskedScore)));
    words[n] = S::AnyBits(of_tile, split.mask.token_groups);
    if constexpr (S::kPer == 2) words[n] = (words[n] | words[n] >> 1) & 0x5555u;
  }
  block.start = room.start;
  // What is outside of [from, to) may belong to another sequence, and must not decide.
  const int first = block.from / kTile, last = (block.to + kTile - 1) / kTile;
  if (block.to % kTile != 0) words[last - 1] &= (1u << block.to % kTile) - 1;
  words[first] &= 0xFFFFu << block.from % kTile / S::kPer * S::kPer;
  int count = 0;
  for (int n = first; n < last; ++n) count += std::popcount(words[n]);
  if (count > kPageTokens / S::kPer * 3 / 4) return;
  for (int n = first; n < last; ++n) {
    S::CompressIndices(n * kTile, words[n], room.word_keys + block.word_count);
    block.word_count += std::popcount(words[n]);
  }
  block.word_keys = room.word_keys;
  // Skipped lines defeat the hardware's prefetching of the others. In bf16 too few are skipped: it costs 8 % there.
  if constexpr (S::kPer == 1) {
    for (int d = 0; d < PaddedDim(split.head_dim) / kTile; ++d) {
      for (int n = 0; n < block.word_count; ++n)
        __builtin_prefetch(block.values + d * kValueStride<S> + room.word_keys[n] * kTile, 0, 2);
    }
  }
}

// Pages read in place, without the values of words that have no visible key where these are many.
struct MaskedPages {
  static constexpr bool kListed = false;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    MaskedPage room;
    PageKeys::Each<S>(split, nullptr, [&](DecodeBlock page) {
      if (page.first < split.mask.window_begin) MaskPage<S>(split, room, page);
      block(page);
    });
  }
};

// Positions of the keys visible to the row under WindowOrGroupMask, in order; `list` has a tile of room behind them.
template <typename S>
inline int ListKeys(const DecodeSplit& split, int32_t* list) {
  const RowInterval seen = split.mask.seen;
  int count = 0;
  for (int first = seen.begin / kTile * kTile; first < seen.end; first += kTile) {
    const uint32_t* groups = split.kv.groups(first / kPageTokens) + first % kPageTokens;
    const auto from_lane = [&](int key) { return key <= first ? 0xFFFFu : 0xFFFFu << std::min(key - first, kTile); };
    uint32_t seen_keys = S::AnyBits(groups, split.mask.token_groups) | from_lane(split.mask.window_begin);
    seen_keys &= from_lane(seen.begin) & ~from_lane(seen.end) & 0xFFFFu;
    S::CompressIndices(first, seen_keys, list + count);
    count += std::popcount(seen_keys);
  }
  return count;
}

// Visible keys, read in place, as many at a time as their values have 128 / per words.
struct ListedKeys {
  static constexpr bool kListed = true;
  template <typename S, typename Block>
  static void Each(const DecodeSplit& split, float*, const Block& block) {
    constexpr uint32_t kPer = S::kPer, kWordsMax = kPageTokens / kPer;
    const int dim = PaddedDim(split.head_dim), words = dim / S::kPer;
    int32_t list[kSplitTokens + kTile], positions[kPageTokens];
    const float *keys[kPageTokens], *values[kWordsMax];
    const int count = ListKeys<S>(split, list);
    for (int first = 0, taken = 0; first < count; first += taken) {
      uint32_t slots[kPageTokens / kTile] = {};
      uint32_t word_count = 0, last_word = UINT32_MAX;
      for (taken = 0; first + taken < count; ++taken) {
        const uint32_t position = list[first + taken], word = position / kPer;
        if (word != last_word) {
          if (word_count == kWordsMax) break;
          values[word_count] = ValueRow<S>(split.kv, dim, position);
          for (uint32_t i = 0; i < kPer; ++i) positions[word_count * kPer + i] = word * kPer + i;
          ++word_count;
          last_word = word;
        }
        keys[taken] = KeyRow<S>(split.kv, words, position);
        const uint32_t slot = (word_count - 1) * kPer + position % kPer;
        slots[slot / kTile] |= 1u << slot % kTile;
      }
      for (int n = taken; n % kTile != 0; ++n) keys[n] = keys[taken - 1];
      for (int n = first + taken; n < std::min(first + taken + kPageTokens, count); ++n)
        PrefetchKey<S>(split.kv, dim, list[n], list[n - 1]);
      block(DecodeBlock{.to = static_cast<int>(word_count * kPer),
                        .positions = positions,
                        .listed = taken,
                        .key_rows = keys,
                        .value_words = values,
                        .slots = slots});
    }
  }
};

}  // namespace varifocal::kernels::cpu

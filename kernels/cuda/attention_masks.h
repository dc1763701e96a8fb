// Mask state of the attention kernels (attention_variants.h): the mask of each tile row, the groups of a block's keys,
// and the masking of scores.
#pragma once

#include <type_traits>

#include "base/wide_product.h"
#include "kernels/cuda/attention_math.h"
#include "kernels/cuda/launch.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

// IntervalMask needs only the interval of a row.
template <typename Mask>
using StoredRow = std::conditional_t<Mask::kReadsGroups, MaskRow, RowInterval>;
VF_DEVICE MaskRow RowOf(const RowInterval& seen) { return {.seen = seen}; }
VF_DEVICE MaskRow RowOf(const MaskRow& row) { return row; }

// The groups of a page's 128 tokens.
VF_DEVICE const TokenGroups* PageGroups(const AttendParams& p, int32_t page) {
  return p.token_groups.words + WideProduct(page, p.token_groups.page_stride);
}

template <typename Mask>
VF_DEVICE StoredRow<Mask> LoadRow(const AttendParams& p, int row) {
  if constexpr (Mask::kReadsGroups) {
    const int position = p.step.row_positions[row];
    const int32_t* table = p.step.page_tables + p.pool.table_starts[p.step.row_sequences[row]];
    const TokenGroups groups = PageGroups(p, table[position / kPageTokenCount])[position % kPageTokenCount];
    return {p.mask[row], position - p.token_groups.window, groups};
  } else {
    return p.mask[row];
  }
}

// The groups of one block's keys into dynamic shared memory, where the mask reads them.
template <typename Mask>
VF_DEVICE void StageGroups(int to, const AttendParams& p, const int32_t* table, int block) {
  if constexpr (Mask::kReadsGroups) {
    constexpr int kWords = kChunkBytes / static_cast<int>(sizeof(TokenGroups));
    if (ThreadX() >= kBlockKeys / kWords) return;
    const TokenGroups* from = PageGroups(p, table[block * kBlockKeys / kPageTokenCount]) + block % 2 * kBlockKeys;
    CopyAsync(to + ThreadX() * kChunkBytes, from + ThreadX() * kWords, true);
  }
}

// The groups of key `index` of a stage.
template <typename Mask>
VF_DEVICE TokenGroups KeyGroups(int groups, int index) {
  if constexpr (!Mask::kReadsGroups) return 0;
  return reinterpret_cast<const TokenGroups*>(SharedMemory() + groups)[index];
}

// MaskScores of DisjointMask, with few registers: two rows and two keys at a time. `kTestsInterval`: not every key is in every row's
// interval.
template <bool kTestsInterval, int kTiles, int kColumns, typename Row>
VF_DEVICE void MaskDisjoint(int groups, int first, int first_key, const Row& row,
                            float (&scores)[kTiles][kColumns][4]) {
  const int thread_column = (LaneIndex() % 4) * 2;
  VF_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    TokenGroups row_groups[2];
    int begins[2];
    uint32_t lengths[2];
    HoldLoads();
    VF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const MaskRow at = row(m, r);
      row_groups[r] = at.token_groups;
      begins[r] = at.seen.begin - first_key - thread_column;
      lengths[r] = at.seen.end > at.seen.begin ? at.seen.end - at.seen.begin : 0;
    }
    VF_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      if (n % 2 == 0) HoldLoads();
      const auto key_groups =
          LoadAligned<TwoWords>(SharedMemory() + groups + (first + n * 8 + thread_column) * sizeof(TokenGroups));
      VF_UNROLL
      for (int i = 0; i < 4; ++i) {
        bool visible = DisjointMask::GroupsMatch(row_groups[i / 2], key_groups.at[i % 2]);
        if (kTestsInterval) visible = visible && static_cast<uint32_t>(n * 8 + i % 2 - begins[i / 2]) < lengths[i / 2];
        scores[m][n][i] = visible ? scores[m][n][i] : -INFINITY;
      }
    }
  }
}

// Sets the scores of masked pairs to minus infinity. Keys start at `first` of a stage, which is key `first_key` of the
// sequence; row(m, r) is the row of this thread's row r of row tile m.
template <typename Mask, int kTiles, int kColumns, typename Row>
VF_DEVICE void MaskScores(TileCover cover, int groups, int first, int first_key, const Row& row,
                          float (&scores)[kTiles][kColumns][4]) {
  if constexpr (std::is_same_v<Mask, DisjointMask>) {
    if (cover == TileCover::kGroups) MaskDisjoint<false>(groups, first, first_key, row, scores);
    if (cover == TileCover::kPartial) MaskDisjoint<true>(groups, first, first_key, row, scores);
    return;
  }
  const int thread_column = (LaneIndex() % 4) * 2;  // the first of this thread's two columns
  const auto mask = [&](const auto& is_visible) {
    VF_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      VF_UNROLL
      for (int r = 0; r < 2; ++r) {
        const MaskRow at = RowOf(row(m, r));
        VF_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          VF_UNROLL
          for (int i = 0; i < 2; ++i) {
            const int key = n * 8 + thread_column + i;
            if (!is_visible(at, first_key + key, KeyGroups<Mask>(groups, first + key)))
              scores[m][n][2 * r + i] = -INFINITY;
          }
        }
      }
    }
  };
  if (cover == TileCover::kFull) return;
  if constexpr (Mask::kReadsGroups) {
    if (cover == TileCover::kGroups) {
      mask([](const MaskRow& at, int, TokenGroups key_groups) {
        return Mask::GroupsMatch(at.token_groups, key_groups);
      });
      return;
    }
  }
  mask([](const MaskRow& at, int key, TokenGroups key_groups) { return Mask::IsVisible(at, key, key_groups); });
}

}  // namespace
}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE

#include "kernels/cpu/group_attention.h"

#include <array>
#include <bit>
#include <climits>
#include <utility>

#include "base/wide_product.h"

namespace varifocal::kernels::cpu {
namespace {

constexpr int kRowsPerMerge = 16;

}  // namespace

size_t GatherScratch::Sizes::total_bytes() const {
  return part_floats * sizeof(float) + keys * (sizeof(uint32_t) + sizeof(int32_t));
}

GatherScratch::Sizes GatherScratch::SizesFor(const StepShape& shape) {
  const size_t groups = shape.gather_top_k_max, rows = shape.row_count_max;
  if (groups == 0) return {};
  // Listing writes behind a group's last key, and the groups of a tile are read whole.
  return {.keys = groups * shape.context_length_max + kGroupCountMax * kTile,
          .part_floats = (1 + groups) * rows * shape.query_head_count * (shape.head_dim + 2)};
}

bool GatherScratch::Allocate(const Sizes& wanted) {
  sizes = wanted;
  return groups.Map(sizes.keys * sizeof(uint32_t)) && positions.Map(sizes.keys * sizeof(int32_t)) &&
         parts.Map(sizes.part_floats * sizeof(float));
}

namespace {

// A group's keys in the lists. The last ones are those of its rows.
struct ListedGroup {
  size_t first_key = 0;  // of GatherScratch::positions
  int key_count = 0;
  int row_count = 0;
  int rank(int row) const { return key_count - row_count + row; }  // of the row's key
};

// One sequence's rows that are computed by groups.
class SequenceByGroups {
 public:
  SequenceByGroups(const AttentionCall& call, ThreadPool& pool, CpuWorkspace& workspace, int sequence)
      : call_(call),
        pool_(pool),
        workspace_(workspace),
        scratch_(workspace.gather),
        sequence_(sequence),
        begin_row_(workspace.flat.first_rows[sequence] + call.tested_rows(sequence)),
        end_row_(workspace.flat.first_rows[sequence + 1]),
        end_position_(workspace.flat.batch.sequences[sequence].first_position +
                      workspace.flat.batch.sequences[sequence].row_count) {}

  bool Run() { return ListKeys() && Attend() && Merge(); }

 private:
  int top_k() const { return call_.args.groups->top_k; }
  bool has_window() const { return call_.args.groups->window > 0; }
  int position(int row) const { return workspace_.flat.row_positions[row]; }
  static uint32_t Below(int group) { return (1u << group) - 1; }

  // A group without rows is not listed.
  bool ListKeys() {
    for (int row = begin_row_; row < end_row_; ++row) {
      for (uint32_t bits = call_.token_groups(row); bits != 0; bits &= bits - 1)
        ++groups_[std::countr_zero(bits)].row_count;
    }
    // Once to count them, once to write them where they fit.
    for (const bool writes : {false, true}) {
      size_t keys = 0;
      for (ListedGroup& group : groups_) {
        group.first_key = keys;
        // Writing the last key overwrites what is behind it.
        if (group.key_count > 0) keys += std::exchange(group.key_count, 0) + kTile;
      }
      VF_CHECK(keys <= scratch_.sizes.keys, "the workspace was planned for this context");
      const int threads = pool_.thread_count();
      if (!pool_.Run(PoolWork::kAttention, threads, cancelled(),
                     [&](int item, int) { ListGroups(item, threads, writes); })) {
        return false;
      }
    }
    return true;
  }

  // The keys of groups first, first + step, ..: all of them page by page.
  void ListGroups(int first, int step, bool writes) {
    const std::span<const int32_t> table = call_.page_table(sequence_);
    for (int page = 0; page * kPageTokens < end_position_; ++page) {
      const uint32_t* key_groups = call_.page_groups(table[page]);
      const int count = std::min(kPageTokens, end_position_ - page * kPageTokens);
      for (int index = first; index < kGroupCountMax; index += step) {
        ListedGroup& group = groups_[index];
        if (group.row_count == 0) continue;
        const size_t at = group.first_key + group.key_count;
        group.key_count += call_.kernels.list_keys(key_groups, count, 1u << index, page * kPageTokens,
                                                   writes ? scratch_.key_positions() + at : nullptr,
                                                   writes ? scratch_.key_groups() + at : nullptr);
      }
    }
  }

  bool Attend() {
    std::vector<AttentionItem>& items = workspace_.items;
    items.clear();
    const int rows = end_row_ - begin_row_, kv_heads = call_.pages.shape().kv_head_count;
    const int64_t queries = WideProduct(rows, call_.heads);
    const auto add = [&](int group, int row_count, int queries_max, const auto& cost_of) {
      const int pieces = (row_count * call_.queries_per_kv + queries_max - 1) / queries_max;
      for (int piece = 0; piece < pieces; ++piece) {
        // Whole rows, equally many.
        const int first = row_count * piece / pieces, end = row_count * (piece + 1) / pieces;
        int64_t cost = 0;
        for (int row = first; row < end; ++row) cost += cost_of(row);
        for (int kv_head = 0; kv_head < kv_heads; ++kv_head) {
          items.push_back({.sequence = sequence_,
                           .kv_head = kv_head,
                           .first_query = first * call_.queries_per_kv,
                           .query_count = (end - first) * call_.queries_per_kv,
                           .group = group,
                           .cost = cost * call_.queries_per_kv});
        }
      }
    };
    constexpr int kItemsPerThread = 4;
    const auto queries_per_item = [&](int64_t query_count, int queries_max) {
      return QueriesPerItem(query_count, call_.kernels.query_lanes, queries_max,
                            kItemsPerThread * pool_.thread_count());
    };
    if (has_window()) {
      add(-1, rows, queries_per_item(queries, kPrefillLanesMax), [&](int) { return call_.args.groups->window; });
    }
    const int queries_max = queries_per_item(queries * top_k(), ListedLanesMax(call_.dim));
    for (int index = 0; index < kGroupCountMax; ++index) {
      const ListedGroup& group = groups_[index];
      add(index, group.row_count, queries_max, [&](int row) { return group.rank(row); });
    }
    SortHeaviestFirst(items);
    return pool_.Run(PoolWork::kAttention, items.size(), cancelled(),
                     [&](int index, int thread) { RunItem(items[index], workspace_.scratch(thread)); });
  }

  // Query n of a group is its row n / heads, head n % heads of the KV head.
  void RunItem(const AttentionItem& item, float* scratch) const {
    const bool is_window = item.group < 0;
    const ListedGroup& group = groups_[std::max(item.group, 0)];
    const int32_t* positions = scratch_.key_positions() + group.first_key;
    PrefillBlock blocks[kPrefillBlocksMax];
    const int queries_per_block = call_.kernels.query_lanes;
    const KeyValues kv = call_.kv(item.sequence, item.kv_head);
    for (int n = 0; n < item.query_count; ++n) {
      PrefillBlock& block = blocks[n / queries_per_block];
      const int i = n % queries_per_block, query = item.first_query + n;
      const int head = item.kv_head * call_.queries_per_kv + query % call_.queries_per_kv;
      const int rank = is_window ? 0 : group.rank(query / call_.queries_per_kv);
      const int row = begin_row_ + (is_window ? query / call_.queries_per_kv : positions[rank] - position(begin_row_));
      MaskRow mask = call_.mask(row);
      int part = 0;
      if (is_window) {
        mask.seen.begin = std::max(mask.seen.begin, mask.window_begin);
      } else {
        mask.seen = {0, rank + 1};
        mask.token_groups &= Below(item.group);
        part = 1 + std::popcount(mask.token_groups);
      }
      block.lane_count = i + 1;
      block.queries[i] = call_.queries + (WideProduct(row, call_.heads) + head) * call_.dim;
      block.scales[i] = call_.scale(row, head);
      block.masks[i] = mask;
      block.pages[i] = kv.pages;
      block.outs[i] = Part(part, row, head);
      block.log_sum_exps[i] = nullptr;
    }
    const PrefillKind window_kind = kv.key_stride == 1 ? PrefillKind::kRowsDisjoint : PrefillKind::kDisjoint;
    const PrefillKind kind = is_window ? window_kind : PrefillKind::kListedDisjoint;
    call_.kernels.attend_prefill[static_cast<size_t>(kind)](
        {.kv = kv,
         .shared_keys = INT_MAX,
         .head_dim = call_.dim,
         .block_count = (item.query_count + queries_per_block - 1) / queries_per_block,
         .blocks = blocks,
         .soft_cap = call_.args.soft_cap,
         .is_part = true,
         .positions = positions,
         .position_groups = scratch_.key_groups() + group.first_key},
        scratch);
  }

  size_t part_stride() const { return WideProduct(workspace_.shape.row_count_max, call_.heads, call_.dim + 2); }
  float* Part(int part, int row, int head) const {
    return scratch_.part(part * part_stride() + (WideProduct(row, call_.heads) + head) * (call_.dim + 2));
  }

  bool Merge() {
    const int rows = end_row_ - begin_row_, first = has_window() ? 0 : 1;
    return pool_.Run(PoolWork::kAttention, (rows + kRowsPerMerge - 1) / kRowsPerMerge, cancelled(), [&](int item, int) {
      const int end = std::min(rows, (item + 1) * kRowsPerMerge);
      for (int row = begin_row_ + item * kRowsPerMerge; row < begin_row_ + end; ++row) {
        for (int head = 0; head < call_.heads; ++head) {
          MergeParts(call_, row, head, Part(first, row, head), part_stride(), top_k() + 1 - first, call_.dim);
        }
      }
    });
  }

  const std::atomic<bool>* cancelled() const { return workspace_.flat.batch.cancelled; }

  const AttentionCall& call_;
  ThreadPool& pool_;
  CpuWorkspace& workspace_;
  GatherScratch& scratch_;
  const int sequence_, begin_row_, end_row_, end_position_;
  std::array<ListedGroup, kGroupCountMax> groups_{};
};

}  // namespace

bool AttendByGroups(const AttentionCall& call, ThreadPool& pool, CpuWorkspace& workspace) {
  if (call.args.groups == nullptr) return true;
  const int sequences = workspace.flat.batch.sequences.size();
  for (int sequence = 0; sequence < sequences; ++sequence) {
    if (call.tested_rows(sequence) == workspace.flat.batch.sequences[sequence].row_count) continue;
    VF_CHECK(call.args.groups->top_k <= workspace.shape.gather_top_k_max, "the workspace was planned for these groups");
    if (!SequenceByGroups(call, pool, workspace, sequence).Run()) return false;
  }
  return true;
}

}  // namespace varifocal::kernels::cpu

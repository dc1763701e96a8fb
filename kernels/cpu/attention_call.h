// Shared state of the work items of one Attend, and helpers of their planners.
#pragma once

#include <algorithm>
#include <vector>

#include "base/wide_product.h"
#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/page_pool.h"

namespace varifocal::kernels::cpu {

struct AttentionCall {
  const KernelTable& kernels;
  const CpuWorkspace& workspace;
  const AttendArgs& args;
  const PagePool& pages;
  int dim, heads, queries_per_kv;
  const float* queries;
  const float* row_scales;
  const float* head_scales;
  const float* sinks;
  float* out;
  float* log_sum_exp;

  float scale(int row, int head) const {
    const float scale = row_scales != nullptr ? row_scales[row] : args.scale;
    return head_scales != nullptr ? scale * head_scales[head] : scale;
  }
  bool has_sinks() const { return sinks != nullptr || args.sink != kNoSink; }
  float sink(int head) const { return sinks != nullptr ? sinks[head] : args.sink; }
  RowInterval seen(int row) const { return workspace.flat.batch.masks[args.mask_index][row]; }
  std::span<const int32_t> page_table(int sequence) const {
    return workspace.flat.batch.sequences[sequence].page_tables[args.page_group];
  }
  // The groups of the keys of a page, [128].
  const uint32_t* page_groups(int page) const {
    return reinterpret_cast<const uint32_t*>(pages.annotations(args.layer, page) +
                                             WideProduct(args.groups->annotation_offset, kPageTokens));
  }
  TokenGroups token_groups(int row) const {
    const int position = workspace.flat.row_positions[row];
    return page_groups(page_table(workspace.flat.row_sequences[row])[position / kPageTokens])[position % kPageTokens];
  }
  MaskRow mask(int row) const {
    if (args.groups == nullptr) return {.seen = seen(row)};
    return {.seen = seen(row),
            .window_begin = workspace.flat.row_positions[row] - args.groups->window,
            .token_groups = token_groups(row)};
  }
  KeyValues kv(int sequence, int kv_head) const {
    KeyValues kv = pages.ForHead(args.layer, kv_head, page_table(sequence).data());
    if (args.groups != nullptr) {
      kv.group_base = page_groups(0);
      kv.group_stride = WideProduct(kPageTokens, pages.shape().annotation_bytes) / sizeof(uint32_t);
    }
    return kv;
  }
  // Leading rows of a sequence's prefill whose every pair is tested; later rows are computed by groups.
  int tested_rows(int sequence) const {
    const SequenceRows& rows = workspace.flat.batch.sequences[sequence];
    if (args.groups == nullptr) return rows.row_count;
    return std::clamp(args.groups->gather_from - rows.first_position, 0, rows.row_count);
  }
};

AttentionCall MakeAttentionCall(const KernelTable& kernels, const CpuWorkspace& workspace, const AttendArgs& args);

inline int64_t Width(RowInterval seen) { return std::max(0, seen.end - seen.begin); }

// Equal costs keep a fixed order, so that the list is deterministic; items that may read the same pages are adjacent.
void SortHeaviestFirst(std::vector<AttentionItem>& items);

// Queries of an item: several blocks, which share the keys read, but few enough for about `items` items.
int QueriesPerItem(int64_t query_count, int queries_per_block, int queries_max, int items);

// Merges `part_count` partial results of a row and head, `stride` floats apart; each has sums of p v, from `sums_at` on
// row_max and the sum of p.
inline void MergeParts(const AttentionCall& call, int row, int head, const float* parts, size_t stride, int part_count,
                       int sums_at) {
  const size_t at = WideProduct(row, call.heads) + head;
  call.kernels.merge_parts({.parts = parts,
                            .stride = stride,
                            .part_count = part_count,
                            .sums_at = sums_at,
                            .dim = call.dim,
                            .sink = call.sink(head) * kLog2E,
                            .out = call.out + at * call.dim,
                            .log_sum_exp = call.log_sum_exp == nullptr ? nullptr : call.log_sum_exp + at});
}

}  // namespace varifocal::kernels::cpu

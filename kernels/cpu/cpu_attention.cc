#include "kernels/cpu/cpu_attention.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/group_attention.h"

namespace varifocal::kernels::cpu {

void SortHeaviestFirst(std::vector<AttentionItem>& items) {
  std::sort(items.begin(), items.end(), [](const AttentionItem& a, const AttentionItem& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.split != b.split) return a.split < b.split;
    if (a.kv_head != b.kv_head) return a.kv_head < b.kv_head;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    return a.first_query < b.first_query;
  });
}

int QueriesPerItem(int64_t query_count, int queries_per_block, int queries_max, int items) {
  return static_cast<int>(
             std::clamp<int64_t>(query_count / queries_per_block / items, 1, queries_max / queries_per_block)) *
         queries_per_block;
}

AttentionCall MakeAttentionCall(const KernelTable& kernels, const CpuWorkspace& workspace, const AttendArgs& args) {
  const auto& pages = static_cast<const PagePool&>(*args.pool);
  const int dim = pages.shape().head_dim, heads = args.query_head_count, rows = workspace.flat.row_count();
  VF_CHECK(heads % pages.shape().kv_head_count == 0, "query heads are a multiple of KV heads");
  VF_CHECK(dim <= workspace.shape.head_dim && heads <= workspace.shape.query_head_count,
           "the workspace was planned for this model");
  const size_t values = WideProduct(rows, heads);
  return {kernels,
          workspace,
          args,
          pages,
          dim,
          heads,
          heads / pages.shape().kv_head_count,
          HostData<float>(args.queries, values * dim),
          OptionalHostData<float>(args.row_scales, rows),
          OptionalHostData<float>(args.head_scales, heads),
          OptionalHostData<float>(args.sinks, heads),
          HostData<float>(args.out, values * dim),
          OptionalHostData<float>(args.log_sum_exp, values)};
}

namespace {

using Call = AttentionCall;

// Sequences [first, last) with the same leading pages.
struct Sharing {
  int last = 0;
  int keys = 0;  // in the shared pages
};

// Consecutive sequences are processed together over shared leading pages while those are at least three quarters of each
// sequence's visible pages: after them a block's registers are used by the queries of one sequence only. A single sequence,
// or one whose last rows are computed by groups, shares all of its pages with itself.
Sharing FindSharing(const Call& call, int first) {
  const std::span<const SequenceRows> sequences = call.workspace.flat.batch.sequences;
  const auto keys_of = [&](int s) { return sequences[s].first_position + sequences[s].row_count; };
  Sharing sharing{first + 1, INT_MAX};
  if (call.tested_rows(first) < sequences[first].row_count) return sharing;
  const std::span<const int32_t> base = call.page_table(first);
  for (; sharing.last < std::ssize(sequences); ++sharing.last) {
    if (call.tested_rows(sharing.last) < sequences[sharing.last].row_count) break;
    const std::span<const int32_t> other = call.page_table(sharing.last);
    const size_t limit = std::min({base.size(), other.size(), static_cast<size_t>(sharing.keys / kPageTokens)});
    const size_t pages = std::mismatch(base.begin(), base.begin() + limit, other.begin()).first - base.begin();
    const int keys = static_cast<int>(pages) * kPageTokens;
    if (keys == 0 || keys / 3 * 4 < std::max(keys_of(first), keys_of(sharing.last))) break;
    sharing.keys = keys;
  }
  return sharing;
}

void PlanPrefill(const Call& call, int threads, std::vector<AttentionItem>& items) {
  const FlatBatch& flat = call.workspace.flat;
  constexpr int kItemsPerThread = 8;
  const int kv_heads = call.pages.shape().kv_head_count, queries_per_block = call.kernels.query_lanes;
  const int queries_per_item = QueriesPerItem(WideProduct(flat.row_count(), call.heads), queries_per_block,
                                              kPrefillLanesMax, kItemsPerThread * threads);
  items.clear();
  const int sequence_count = flat.batch.sequences.size();
  for (int s = 0; s < sequence_count;) {
    const Sharing sharing = FindSharing(call, s);
    const int rows = sharing.last == s + 1 ? call.tested_rows(s) : flat.first_rows[sharing.last] - flat.first_rows[s];
    const int queries = rows * call.queries_per_kv;
    for (int first = 0; first < queries; first += queries_per_item) {
      const int count = std::min(queries_per_item, queries - first);
      int64_t cost = 0;
      for (int query = first; query < first + count; query += call.queries_per_kv) {
        cost += Width(call.seen(flat.first_rows[s] + query / call.queries_per_kv));
      }
      for (int head = 0; head < kv_heads; ++head) {
        items.push_back({.sequence = s,
                         .shared_keys = sharing.keys,
                         .kv_head = head,
                         .first_query = first,
                         .query_count = count,
                         .cost = cost});
      }
    }
    s = sharing.last;
  }
  SortHeaviestFirst(items);
}

// Query n is row n / queries_per_kv counted from the first sequence's first row, head n % queries_per_kv. A block has one
// query per lane.
void RunPrefillItem(const Call& call, PrefillKind kind, const AttentionItem& item, float* scratch) {
  const FlatBatch& flat = call.workspace.flat;
  PrefillBlock blocks[kPrefillBlocksMax];
  const int queries_per_block = call.kernels.query_lanes;
  MaskRow mask;  // the same for all heads of a row
  for (int n = 0; n < item.query_count; ++n) {
    PrefillBlock& block = blocks[n / queries_per_block];
    const int i = n % queries_per_block, query = item.first_query + n;
    const int row = flat.first_rows[item.sequence] + query / call.queries_per_kv;
    const int head = item.kv_head * call.queries_per_kv + query % call.queries_per_kv;
    const size_t at = WideProduct(row, call.heads) + head;
    block.lane_count = i + 1;
    block.queries[i] = call.queries + at * call.dim;
    block.scales[i] = call.scale(row, head);
    if (n == 0 || query % call.queries_per_kv == 0) mask = call.mask(row);
    block.masks[i] = mask;
    block.pages[i] = call.page_table(flat.row_sequences[row]).data();
    block.outs[i] = call.out + at * call.dim;
    block.log_sum_exps[i] = call.log_sum_exp == nullptr ? nullptr : call.log_sum_exp + at;
    if (call.has_sinks()) block.sinks[i] = call.sink(head) * kLog2E;
  }
  call.kernels.attend_prefill[static_cast<size_t>(kind)](
      {.kv = call.kv(item.sequence, item.kv_head),
       .shared_keys = item.shared_keys,
       .head_dim = call.dim,
       .block_count = (item.query_count + queries_per_block - 1) / queries_per_block,
       .blocks = blocks,
       .soft_cap = call.args.soft_cap,
       .has_sinks = call.has_sinks()},
      scratch);
}

void PlanDecode(const Call& call, std::vector<AttentionItem>& items) {
  const FlatBatch& flat = call.workspace.flat;
  items.clear();
  for (int row = 0; row < flat.row_count(); ++row) {
    const RowInterval seen = call.seen(row);
    for (int split = seen.begin / kSplitTokens; split * kSplitTokens < seen.end; ++split) {
      const int64_t keys =
          Width({std::max(seen.begin, split * kSplitTokens), std::min(seen.end, (split + 1) * kSplitTokens)});
      for (int head = 0; head < call.pages.shape().kv_head_count; ++head) {
        items.push_back(
            {.sequence = flat.row_sequences[row], .kv_head = head, .first_query = row, .split = split, .cost = keys});
      }
    }
  }
  SortHeaviestFirst(items);
}

// partials[row][kv head][split][queries_per_kv][PaddedDim(D) + 2]
float* Partials(const Call& call, int row, int kv_head, int split) {
  const int kv_heads = call.pages.shape().kv_head_count;
  const size_t index = (WideProduct(row, kv_heads) + kv_head) * call.workspace.split_count() + split;
  return call.workspace.partials.get() + index * call.queries_per_kv * (PaddedDim(call.dim) + 2);
}

// The keys of a split for the query heads of a KV head; without room for partial results.
DecodeSplit SplitOf(const Call& call, int row, int kv_head, int split) {
  MaskRow mask = call.mask(row);
  mask.seen = {std::max(mask.seen.begin, split * kSplitTokens), std::min(mask.seen.end, (split + 1) * kSplitTokens)};
  return {.kv = call.kv(call.workspace.flat.row_sequences[row], kv_head),
          .head_dim = call.dim,
          .head_count = call.queries_per_kv,
          .queries = call.queries + (WideProduct(row, call.heads) + kv_head * call.queries_per_kv) * call.dim,
          .scale = call.row_scales != nullptr ? call.row_scales[row] : call.args.scale,
          .head_scales = call.head_scales != nullptr ? call.head_scales + kv_head * call.queries_per_kv : nullptr,
          .soft_cap = call.args.soft_cap,
          .mask = mask};
}

void RunDecodeItem(const Call& call, DecodeKind kind, const AttentionItem& item, float* scratch) {
  const int row = item.first_query;
  DecodeSplit split = SplitOf(call, row, item.kv_head, item.split);
  split.partials = Partials(call, row, item.kv_head, item.split);
  call.kernels.attend_decode[static_cast<size_t>(kind)](split, scratch);
}

DecodeKind DecodeKindOf(const Call& call) {
  const bool row_keys = call.pages.shape().row_keys;
  if (call.args.groups != nullptr) return row_keys ? DecodeKind::kRowsWindowOrGroup : DecodeKind::kWindowOrGroup;
  return row_keys ? DecodeKind::kRowsInterval : DecodeKind::kInterval;
}

void MergeSplits(const Call& call, int row) {
  const RowInterval seen = call.seen(row);
  const int first = seen.begin / kSplitTokens, last = seen.end > seen.begin ? (seen.end - 1) / kSplitTokens : first - 1;
  const int padded = PaddedDim(call.dim);
  const size_t stride = WideProduct(call.queries_per_kv, padded + 2);
  for (int head = 0; head < call.heads; ++head) {
    const float* partials =
        Partials(call, row, head / call.queries_per_kv, 0) + (head % call.queries_per_kv) * (padded + 2);
    MergeParts(call, row, head, partials + first * stride, stride, last - first + 1, padded);
  }
}

class StatisticsVisitor final : public ScoreVisitor {
 public:
  explicit StatisticsVisitor(std::span<AttentionStatistics> heads) : heads_(heads) {}
  void Visit(int head, const ScoredKeys& keys) override {
    heads_[head].Add(
        keys.to - keys.from, [&](int n) { return keys.scores[keys.from + n] / kLog2EDouble; },
        [&](int n) { return keys.positions != nullptr ? keys.positions[keys.from + n] : keys.first + keys.from + n; },
        [&](int n) { return keys.scores[keys.from + n] > kEmptyRowMax; });
  }

 private:
  std::span<AttentionStatistics> heads_;
};

}  // namespace

bool RunAttention(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const AttendArgs& args) {
  const FlatBatch& flat = workspace.flat;
  const Call call = MakeAttentionCall(kernels, workspace, args);
  std::vector<AttentionItem>& items = workspace.items;
  const std::atomic<bool>* cancelled = flat.batch.cancelled;
  const bool row_keys = call.pages.shape().row_keys;
  if (flat.batch.phase == Phase::kPrefill) {
    const PrefillKind kind = args.groups != nullptr
                                 ? (row_keys ? PrefillKind::kRowsWindowOrGroup : PrefillKind::kWindowOrGroup)
                                 : (row_keys ? PrefillKind::kRowsInterval : PrefillKind::kInterval);
    PlanPrefill(call, pool.thread_count(), items);
    return pool.Run(PoolWork::kAttention, items.size(), cancelled, [&](int index, int thread) {
      RunPrefillItem(call, kind, items[index], workspace.scratch(thread));
    }) && AttendByGroups(call, pool, workspace);
  }
  const DecodeKind kind = DecodeKindOf(call);
  PlanDecode(call, items);
  return pool.Run(PoolWork::kAttention, items.size(), cancelled, [&](int index, int thread) {
    RunDecodeItem(call, kind, items[index], workspace.scratch(thread));
  }) && pool.Run(PoolWork::kAttention, flat.row_count(), cancelled, [&](int row, int) { MergeSplits(call, row); });
}

bool RunInspection(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                   const InspectAttentionArgs& args) {
  const Call call = MakeAttentionCall(kernels, workspace, args.attend);
  const DecodeKind kind = DecodeKindOf(call);
  const RowInterval seen = call.seen(args.row);
  const size_t segments = args.boundaries.size() - 1;
  VF_CHECK(std::ssize(args.heads) == call.heads && args.masses.size() == call.heads * segments,
           "a result per head, a mass per head and segment");
  const int kv_heads = call.pages.shape().kv_head_count;
  return pool.Run(PoolWork::kAttention, kv_heads, workspace.flat.batch.cancelled, [&](int kv_head, int thread) {
    std::vector<AttentionStatistics> heads;
    const int first_head = kv_head * call.queries_per_kv;
    for (int head = first_head; head < first_head + call.queries_per_kv; ++head)
      heads.emplace_back(args.boundaries, args.masses.subspan(head * segments, segments));
    StatisticsVisitor visitor(heads);
    for (int split = seen.begin / kSplitTokens; split * kSplitTokens < seen.end; ++split) {
      kernels.visit_scores[static_cast<size_t>(kind)](SplitOf(call, args.row, kv_head, split), visitor,
                                                      workspace.scratch(thread));
    }
    for (int head = 0; head < call.queries_per_kv; ++head)
      args.heads[first_head + head] =
          heads[head].Finish(call.scale(args.row, first_head + head), call.sink(first_head + head));
  });
}

}  // namespace varifocal::kernels::cpu

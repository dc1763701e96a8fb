// Scratch of the CPU backend for steps up to a shape, allocated once.
#pragma once

#include "kernels/cpu/gather_scratch.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/mixture_scratch.h"
#include "kernels/cpu/recurrence_scratch.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

// Logit columns of one work item of the LM head, and its rows.
inline constexpr int kSliceColumns = 1024;
inline constexpr int kSliceRows = 24;

// The widest input of a product of the step.
inline int ProductInputsMax(const StepShape& shape) {
  return std::max({shape.model_dim, shape.ffn_dim, shape.query_head_count * shape.head_dim,
                   shape.recurrence.value_width(), shape.layer_input_width, shape.low_rank_dim, shape.query_latent_dim,
                   shape.latent_dim});
}

// Query heads of a KV head, at most.
inline int QueriesPerKvMax(const StepShape& shape) {
  int kv_heads = shape.kv_head_count;
  for (const HeadShape& heads : shape.mask_heads) {
    if (heads.kv_head_count > 0) kv_heads = std::min(kv_heads, heads.kv_head_count);
  }
  return shape.query_head_count / std::max(kv_heads, 1);
}

// Blocks of queries, or one decode row; `cost` in visible (row, key) pairs.
struct AttentionItem {
  int32_t sequence = 0;     // prefill: the first of those that share pages
  int32_t shared_keys = 0;  // prefill: keys in pages shared by all of them
  int32_t kv_head = 0;
  int32_t first_query = 0;  // prefill: of the sequence's, row * queries_per_kv + head; decode: the row
  int32_t query_count = 0;  // prefill
  int32_t split = 0;        // decode: index of the key range
  int32_t group = 0;        // attention by groups: whose keys; -1: of the window
  int64_t cost = 0;
};

class CpuWorkspace final : public Workspace {
 public:
  struct Sizes {
    size_t projected, scratch_per_thread, partials, row_values, head_rows, targets, words, slice_stats;
    GatherScratch::Sizes gather;
    MixtureScratch::Sizes mixture;
    RecurrenceScratch::Sizes recurrence;
    size_t total_bytes(int thread_count) const {
      return (projected + scratch_per_thread * thread_count + partials + row_values + head_rows + targets + words) *
                 sizeof(float) +
             slice_stats * sizeof(SliceStats) + gather.total_bytes() + mixture.total_bytes() + recurrence.total_bytes();
    }
  };
  static Sizes SizesFor(const StepShape& shape, const KernelTable& kernels);
  static Result<std::unique_ptr<Workspace>> Create(const StepShape& shape, const KernelTable& kernels,
                                                   int thread_count);

  size_t bytes() const override { return bytes_; }
  float* scratch(int thread) const { return scratch_.get() + thread * sizes_.scratch_per_thread; }
  int split_count() const { return (shape.context_length_max + kSplitTokens - 1) / kSplitTokens; }
  static int SliceCount(int64_t vocab) { return (vocab + kSliceColumns - 1) / kSliceColumns; }

  StepShape shape;
  FlatBatch flat;
  std::vector<AttentionItem> items;
  AlignedArray<float> projected;         // [T, (H + 2K) D]: q, k, v before norms and rotation; [T, M]: a product before
                                         // its norm, or the sums of a mixture
  AlignedArray<float> partials;          // [sequences, H, splits, PaddedDim(D) + 2]
  AlignedArray<float> row_values;        // [T] of learned tau, [T, kGroupCountMax] where groups are routed
  AlignedArray<float> head_rows;         // [head rows, M]
  AlignedArray<float> words;             // bf16 alone: [rows, K/2] inputs of a product, packed
  AlignedArray<float> target_logits;     // [head rows]
  AlignedArray<SliceStats> slice_stats;  // [head rows, slices]
  GatherScratch gather;
  MixtureScratch mixture;
  RecurrenceScratch recurrence;

 private:
  Sizes sizes_{};
  size_t bytes_ = 0;
  AlignedArray<float> scratch_;
};

}  // namespace varifocal::kernels::cpu

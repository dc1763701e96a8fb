#include "kernels/cpu/cpu_workspace.h"

#include <algorithm>

#include "base/wide_product.h"

namespace varifocal::kernels::cpu {

CpuWorkspace::Sizes CpuWorkspace::SizesFor(const StepShape& shape, const KernelTable& kernels) {
  const size_t rows = shape.row_count_max, dim = shape.head_dim;
  const size_t splits = (shape.context_length_max + kSplitTokens - 1) / kSplitTokens;
  Sizes sizes{};
  sizes.projected = rows * std::max<size_t>((shape.query_head_count + 2 * shape.kv_head_count) * dim, shape.model_dim);
  sizes.scratch_per_thread =
      std::max({PrefillScratchFloats(shape.head_dim), DecodeScratchFloats(shape.head_dim, QueriesPerKvMax(shape)),
                WideProduct(kSliceRows, kSliceColumns), shape.expert_count > 0 ? kExpertTileFloats : 0,
                WideProduct(shape.recurrence.key_dim, kDeltaColumns),
                WideProduct(shape.layer_input_count, shape.layer_input_width)});
  sizes.partials =
      WideProduct(shape.sequence_count_max, shape.query_head_count, splits) * (PaddedDim(shape.head_dim) + 2);
  sizes.row_values = shape.gather_top_k_max == 0 ? rows : rows * kGroupCountMax;
  sizes.gather = GatherScratch::SizesFor(shape);
  sizes.mixture = MixtureScratch::SizesFor(shape, kernels);
  sizes.recurrence = RecurrenceScratch::SizesFor(shape);
  sizes.head_rows = WideProduct(shape.head_row_count_max, shape.model_dim);
  sizes.targets = shape.head_row_count_max;
  const int inner = ProductInputsMax(shape);
  sizes.words =
      kernels.elements_per_word == 1 ? 0 : std::max<size_t>(rows, shape.head_row_count_max) * ((inner + 1) / 2);
  sizes.slice_stats = WideProduct(shape.head_row_count_max, SliceCount(shape.vocab_size));
  return sizes;
}

Result<std::unique_ptr<Workspace>> CpuWorkspace::Create(const StepShape& shape, const KernelTable& kernels,
                                                        int thread_count) {
  auto workspace = std::make_unique<CpuWorkspace>();
  workspace->shape = shape;
  workspace->sizes_ = SizesFor(shape, kernels);
  const Sizes& sizes = workspace->sizes_;
  workspace->bytes_ = sizes.total_bytes(thread_count);
  workspace->flat.Reserve(shape);
  workspace->projected = AllocateAligned<float>(sizes.projected);
  workspace->scratch_ = AllocateAligned<float>(sizes.scratch_per_thread * thread_count);
  workspace->partials = AllocateAligned<float>(sizes.partials);
  workspace->row_values = AllocateAligned<float>(sizes.row_values);
  workspace->head_rows = AllocateAligned<float>(sizes.head_rows);
  workspace->words = AllocateAligned<float>(sizes.words);
  workspace->target_logits = AllocateAligned<float>(sizes.targets);
  workspace->slice_stats = AllocateAligned<SliceStats>(sizes.slice_stats);
  if (!workspace->projected || !workspace->scratch_ || !workspace->partials || !workspace->row_values ||
      !workspace->head_rows || !workspace->words || !workspace->target_logits || !workspace->slice_stats ||
      !workspace->gather.Allocate(sizes.gather) || !workspace->mixture.Allocate(sizes.mixture) ||
      !workspace->recurrence.Allocate(sizes.recurrence)) {
    return OutOfHostMemory("the workspace", workspace->bytes_);
  }
  // Prefill blocks of at least 16 queries per KV head, a remainder per sequence; decode splits per sequence and KV head.
  const size_t queries = WideProduct(shape.row_count_max, shape.query_head_count);
  const size_t per_sequence = WideProduct(shape.kv_head_count, 1 + workspace->split_count());
  // Attention by groups: a remainder per KV head, for each group and for the window.
  const size_t of_groups = shape.gather_top_k_max == 0 ? 0
                                                       : (1 + shape.gather_top_k_max) * queries / kTile +
                                                             shape.kv_head_count * (kGroupCountMax + size_t{1});
  workspace->items.reserve(std::max(queries / kTile + shape.sequence_count_max * per_sequence, of_groups));
  return std::unique_ptr<Workspace>(std::move(workspace));
}

}  // namespace varifocal::kernels::cpu

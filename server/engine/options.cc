#include "server/engine/options.h"

#include <algorithm>

#include "base/status_macros.h"
#include "server/engine/memory_ledger.h"
#include "server/engine/page_groups.h"

namespace varifocal {
namespace {

using kernels::kPageTokens;

// Default capacity of the cache in full contexts: one running, one starting, two cached.
constexpr int64_t kContextsInCache = 4;

// Larger values are not faster, and buffers of a step grow with both.
constexpr int64_t kChunkTokensMax = 1 << 16;
constexpr int64_t kBatchSizeMax = 1 << 12;
constexpr int64_t kQueueLengthMax = 1 << 24;

}  // namespace

absl::Status CheckOptions(const EngineOptions& options) {
  auto in_range = [](absl::string_view name, int64_t value, int64_t high) {
    if (value >= 1 && value <= high) return absl::OkStatus();
    return InvalidArgument(name, " is ", value, "; it must lie in 1..", high);
  };
  RETURN_IF_ERROR(in_range("prefill_chunk_tokens", options.prefill_chunk_tokens, kChunkTokensMax));
  RETURN_IF_ERROR(in_range("batch_size_max", options.batch_size_max, kBatchSizeMax));
  RETURN_IF_ERROR(in_range("queue_length_max", options.queue_length_max, kQueueLengthMax));
  if (options.kv_cache_bytes < 0)
    return InvalidArgument("kv_cache_bytes is ", options.kv_cache_bytes, "; it must be at least 0");
  return absl::OkStatus();
}

int64_t StepRowsMax(const EngineOptions& options) {
  return std::max(options.prefill_chunk_tokens, options.batch_size_max);
}

absl::StatusOr<std::vector<int64_t>> ChoosePageCounts(const LoadedModel& model, const EngineOptions& options) {
  const std::vector<PageGroupShape> groups = PageGroupShapes(model.transformer());
  const DeviceMemoryLeft memory = MemoryLeftOn(model.transformer().backend());
  if (memory.total_bytes > 0 && options.kv_cache_bytes > memory.total_bytes) {
    return ResourceExhausted("kv_cache_bytes is ", options.kv_cache_bytes, "; the device has ", memory.total_bytes,
                             " bytes of memory");
  }
  const int64_t page_bytes = model.transformer().PageBytes();
  const bool is_default = options.kv_cache_bytes == 0;
  const PageBudget budget{.bytes = is_default ? std::max(memory.free_bytes / 4, page_bytes) : options.kv_cache_bytes,
                          .context_tokens_max = model.config().max_position,
                          .step_rows_max = options.prefill_chunk_tokens,
                          .contexts_max = is_default ? kContextsInCache : 0,
                          .sequences_max = options.batch_size_max};
  std::vector<int64_t> counts = SharePages(groups, budget);
  if (std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count < 1; })) {
    return InvalidArgument("kv_cache_bytes is ", budget.bytes, "; one page of ", kPageTokens, " tokens takes ",
                           page_bytes);
  }
  return counts;
}

}  // namespace varifocal

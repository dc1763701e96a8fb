// Options, description and status of an engine.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/latency_counts.h"
#include "server/engine/request.h"
#include "server/model/model.h"

namespace varifocal {

struct StepPlan;

struct EngineOptions {
  std::string name;                    // for messages about memory; empty: the model's directory
  int64_t prefill_chunk_tokens = 512;  // >= 1; affects memory and latency, never results
  int64_t batch_size_max = 16;         // sequences that decode together
  // 0: four full contexts, but at most a quarter of the memory that is free and not reserved.
  int64_t kv_cache_bytes = 0;
  int64_t queue_length_max = 4096;
  bool prefix_cache = true;
  // Fault injection in tests of the determinism guarantees; unset everywhere else. Called with each step's plan.
  std::function<void(StepPlan&)> test_only_alter_plan = nullptr;
};

// INVALID_ARGUMENT with the option, its value and its range.
absl::Status CheckOptions(const EngineOptions& options);

// Rows of the largest step.
int64_t StepRowsMax(const EngineOptions& options);

// Pages of every page group of the model that fit the options' budget; at least one each. RESOURCE_EXHAUSTED for a
// budget above the device's memory, INVALID_ARGUMENT for one below a page.
absl::StatusOr<std::vector<int64_t>> ChoosePageCounts(const LoadedModel& model, const EngineOptions& options);

struct EngineDescription {
  ModelProvenance model;
  int64_t prefill_chunk_tokens = 0;
  int64_t batch_size_max = 0;
  int64_t kv_cache_bytes = 0;       // limit, whole pages of every page group
  int64_t page_count = 0;           // over all page groups
  int64_t context_tokens_max = 0;   // of one sequence: limit of the model and the pages
  int64_t cache_tokens_max = 0;     // of one sequence under a rotation that extends the model's limit: the pages
  int64_t buffer_bytes = 0;         // of a step
  int64_t shared_weight_bytes = 0;  // of its weights, shared with other models
  int64_t memory_total_bytes = 0;   // of the device
  int64_t memory_free_bytes = 0;    // of it, free after all reservations of this process
  bool prefix_cache = false;
  // Of a remote engine: why it has no log-likelihoods, takes no prompts outside of a chat format, takes no run-time
  // attention settings, does not inspect attention, forces no thinking block to an end, and applies no top_k or min_p, in
  // words. Empty: it does.
  std::string why_no_scores;
  std::string why_no_plain_prompts;
  std::string why_no_attention_settings;
  std::string why_no_inspection;
  std::string why_no_forced_end;
  std::string why_no_top_k;
  std::string why_no_min_p;
  bool estimates_time = true;
};

struct EngineStatus {
  int64_t queued_count = 0;
  int64_t oldest_arrival_us = -1;  // of the request that is admitted next, by the monotonic clock; -1: none waits
  int64_t running_count = 0;
  int64_t pages_used = 0;                                            // by running sequences
  int64_t pages_cached = 0;                                          // held by the prefix cache alone
  int64_t cache_bytes_in_use = 0;                                    // of both
  int64_t cache_bytes_peak = 0;                                      // sum of the peaks of the page groups
  std::array<int64_t, kEngineLaneCount> lane_tokens = {};            // computed for each lane
  std::array<double, kEngineLaneCount> lane_prompt_operations = {};  // RowCost of the prompts' rows among these
  int64_t requests_done = 0;                                         // of any outcome
  int64_t requests_failed = 0;                                       // of these
  int64_t requests_cancelled = 0;                                    // of these
  int64_t prompt_tokens_done = 0;                                    // computed or cached
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  int64_t preemption_count = 0;
  int64_t step_count = 0;  // without those that timed an estimate
  int64_t step_us = 0;     // from their plans to the end of their results: the rest of the time the engine waits
  // Of requests that succeeded.
  LatencyCounts queue_latency;    // from arrival to the first step
  LatencyCounts prefill_latency;  // from there to the end of the prompt and of scoring
  LatencyCounts decode_latency;   // per generated token after the first, the mean of each request

  void Add(const EngineStatus& more) {
    if (oldest_arrival_us < 0 || (more.oldest_arrival_us >= 0 && more.oldest_arrival_us < oldest_arrival_us))
      oldest_arrival_us = more.oldest_arrival_us;
    queued_count += more.queued_count;
    running_count += more.running_count;
    pages_used += more.pages_used;
    pages_cached += more.pages_cached;
    cache_bytes_in_use += more.cache_bytes_in_use;
    cache_bytes_peak += more.cache_bytes_peak;
    for (size_t lane = 0; lane < kEngineLaneCount; ++lane) {
      lane_tokens[lane] += more.lane_tokens[lane];
      lane_prompt_operations[lane] += more.lane_prompt_operations[lane];
    }
    requests_done += more.requests_done;
    requests_failed += more.requests_failed;
    requests_cancelled += more.requests_cancelled;
    prompt_tokens_done += more.prompt_tokens_done;
    cached_tokens += more.cached_tokens;
    new_tokens += more.new_tokens;
    preemption_count += more.preemption_count;
    step_count += more.step_count;
    step_us += more.step_us;
    queue_latency.Add(more.queue_latency);
    prefill_latency.Add(more.prefill_latency);
    decode_latency.Add(more.decode_latency);
  }
};

// Estimated cost of one request on an idle engine.
struct EngineEstimate {
  int64_t cache_bytes = 0;
  int64_t cache_bytes_limit = 0;
  bool fits = true;
  double seconds = 0;  // from a short timed prefill on this machine, scaled by the operation count
};

}  // namespace varifocal

// What an engine is started with, and what it reports of itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/model/model.h"

namespace varifocal {

struct StepPlan;

struct EngineOptions {
  std::string name;                    // in what is said about memory; empty: the model's directory
  int64_t prefill_chunk_tokens = 512;  // >= 1; a memory and latency setting, never a result setting
  int64_t batch_size_max = 16;         // sequences that decode together
  // 0 takes what four full contexts need, but at most a quarter of the memory that is free and not promised to others.
  int64_t kv_cache_bytes = 0;
  int64_t queue_length_max = 4096;
  bool prefix_cache = true;
  // Fault injection in tests of the determinism guarantees; unset everywhere else. Called with each step's plan.
  std::function<void(StepPlan&)> test_only_alter_plan = nullptr;
};

struct EngineDescription {
  ModelProvenance model;
  int64_t prefill_chunk_tokens = 0;
  int64_t batch_size_max = 0;
  int64_t kv_cache_bytes = 0;       // limit, whole pages of every page group
  int64_t page_count = 0;           // over all page groups
  int64_t context_tokens_max = 0;   // of one sequence: what the model takes and the pages hold
  int64_t buffer_bytes = 0;         // of a step
  int64_t shared_weight_bytes = 0;  // of its weights, what other models hold too
  int64_t memory_total_bytes = 0;   // of the device
  int64_t memory_free_bytes = 0;    // of it, what is left when every engine of this process has all it was promised
  bool prefix_cache = false;
};

struct EngineStatus {
  int64_t queued_count = 0;
  int64_t running_count = 0;
  int64_t pages_used = 0;          // by running sequences
  int64_t pages_cached = 0;        // held by the prefix cache alone
  int64_t cache_bytes_in_use = 0;  // of both
  int64_t cache_bytes_peak = 0;    // the most of every page group so far
  int64_t requests_done = 0;
  int64_t prompt_tokens_done = 0;  // computed or cached
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  int64_t preemption_count = 0;
  int64_t step_count = 0;  // those that timed an estimate left out
};

// What one request would cost on this engine alone.
struct EngineEstimate {
  int64_t cache_bytes = 0;
  int64_t cache_bytes_limit = 0;
  bool fits = true;
  double seconds = 0;  // from a short timed prefill on this machine, scaled by the operation count
};

}  // namespace varifocal

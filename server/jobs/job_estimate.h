// Estimates the cost of a job from one context of every task and length and a timed short prefill. Of users' data the
// first thousand rows of a task and length are built with the first model's tokenizer, and those that will fail are noted.
//
// Errors: those of sample construction and of Engine::Estimate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "server/hosting/model_host.h"

namespace varifocal {

struct JobEstimate {
  int64_t cell_count = 0;
  int64_t sample_count = 0;
  int64_t prompt_token_count = 0;           // over all samples
  int64_t computed_prompt_token_count = 0;  // when the questions of a context share it
  int64_t new_token_count = 0;              // at most
  int64_t kv_cache_bytes = 0;               // of the longest sample
  int64_t weights_bytes = 0;                // of all models in use
  int64_t memory_bytes_max = 0;             // of their weights and caches, which keep contexts for reuse
  double duration_seconds = 0;
  int checked_sample_count = 0;
  std::vector<std::string> notes;  // one sentence each
};

// `models` in spec.variants order; the spec is validated and `grid` is its grid. `is_abandoned`, if set, is called
// before every prompt; CANCELLED once it returns true.
absl::StatusOr<JobEstimate> EstimateJob(const JobSpec& spec, const Grid& grid,
                                        const std::vector<std::shared_ptr<HostedModel>>& models,
                                        const std::function<bool()>& is_abandoned = {});

}  // namespace varifocal

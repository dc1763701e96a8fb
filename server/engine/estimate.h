// Estimates the time of a request on this machine from its operation count and the median rate of a few short requests.
//
// Cost of a row = 2 operations per weight + 4 per key position, head and width; the rate is measured. Accurate to a
// factor of about two: attention and matrix products do not run at the same rate.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/engine/options.h"
#include "server/engine/request.h"
#include "server/model/model_config.h"

namespace varifocal {

struct CostRates {
  double weight_operations = 0;   // per row
  double key_operations = 0;      // per row, visible key and layer
  std::vector<PageGroup> groups;  // windows of the layers
  double prefill_operations_per_s = 0;
  double decode_operations_per_s = 0;
};

// `run` executes a request alone: once to warm up, then up to seven times or until a second has been timed.
// `cache_tokens` is the capacity of the KV cache.
absl::StatusOr<CostRates> MeasureCostRates(const ModelConfig& config, int64_t parameter_count, int64_t cache_tokens,
                                           absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run);
// The first cached_token_count tokens of the prompt cost nothing.
double EstimateSeconds(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count,
                       int64_t cached_token_count);

}  // namespace varifocal

// Estimates the time of a request on this machine from its operation count and the median rates of a few timed requests.
//
// Cost of a row = 2 operations per weight + 4 per key position, head and width. Matrix products and attention do not run at
// the same rate: two prompts are timed, a short and a longer one, and both rates follow. Accuracy: docs/measuring.md.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/engine/options.h"
#include "server/engine/request.h"
#include "server/model/model_config.h"

namespace varifocal {

struct RowCost {
  static RowCost Of(const ModelConfig& config, int64_t parameter_count);
  // Of rows [begin, end) of a sequence.
  double Operations(int64_t begin, int64_t end) const;

  double weight_operations = 0;   // per row
  double key_operations = 0;      // per row, visible key and layer
  std::vector<PageGroup> groups;  // windows of the layers
};

struct CostRates : RowCost {
  double prefill_weight_operations_per_s = 0;
  double prefill_key_operations_per_s = 0;
  double decode_operations_per_s = 0;
};

// `run` executes a request alone: a short one once to warm up, then up to seven times or until a second has been timed;
// then a longer one, which takes about a second at most, up to three times.
// `cache_tokens` is the capacity of the KV cache.
absl::StatusOr<CostRates> MeasureCostRates(const ModelConfig& config, int64_t parameter_count, int64_t cache_tokens,
                                           absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run);
// The first cached_token_count tokens of the prompt cost nothing.
double EstimateSeconds(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count,
                       int64_t cached_token_count);

}  // namespace varifocal

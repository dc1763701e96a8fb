#include "server/engine/estimate.h"

#include <algorithm>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kPromptTokens = 512;
constexpr int64_t kNewTokens = 9;  // the first comes from the prompt's last row

double PrefillOperations(const CostRates& rates, int64_t token_count) {
  const double n = static_cast<double>(token_count);
  return n * rates.weight_operations + n * (n + 1) / 2 * rates.key_operations;
}

double DecodeOperations(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count) {
  const double rows = static_cast<double>(std::max<int64_t>(new_token_count - 1, 0));
  const double keys = static_cast<double>(prompt_token_count) + (rows + 1) / 2;
  return rows * (rates.weight_operations + keys * rates.key_operations);
}

}  // namespace

absl::StatusOr<CostRates> MeasureCostRates(const ModelConfig& config, int64_t parameter_count, int64_t cache_tokens,
                                           absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run) {
  CostRates rates;
  const int64_t embedding = config.vocabulary_size * config.width * (config.tied_embeddings ? 1 : 2);
  rates.weight_operations = 2.0 * static_cast<double>(std::max<int64_t>(parameter_count - embedding, 1));
  rates.key_operations = 4.0 * static_cast<double>(config.layer_count * config.head_count * config.head_width);
  const int64_t room = std::min(config.max_position, cache_tokens);
  const int64_t prompt = std::clamp<int64_t>(room - kNewTokens, 1, kPromptTokens);
  const int64_t fresh = std::clamp<int64_t>(room - prompt, 1, kNewTokens);
  EngineRequest request;
  request.id = "timing";
  request.token_ids.assign(static_cast<size_t>(prompt), 0);
  request.work = GenerateWork{.max_new_tokens = fresh, .ignore_eos = true};
  RETURN_IF_ERROR(run(request).status());  // the first run warms caches and threads
  ASSIGN_OR_RETURN(const EngineResult result, run(request));
  rates.prefill_operations_per_s =
      PrefillOperations(rates, prompt) / (1e-6 * static_cast<double>(std::max<int64_t>(result.prefill_us, 1)));
  rates.decode_operations_per_s = DecodeOperations(rates, prompt, std::max<int64_t>(fresh, 2)) /
                                  (1e-6 * static_cast<double>(std::max<int64_t>(result.decode_us, 1)));
  return rates;
}

double EstimateSeconds(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count) {
  return PrefillOperations(rates, prompt_token_count) / rates.prefill_operations_per_s +
         DecodeOperations(rates, prompt_token_count, new_token_count) / rates.decode_operations_per_s;
}

}  // namespace varifocal

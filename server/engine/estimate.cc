#include "server/engine/estimate.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kPromptTokens = 512;
constexpr int64_t kNewTokens = 9;  // the first comes from the prompt's last row
// The median of several runs is used: another program's burst on the machine slows one of them several times.
constexpr int kTimedRuns = 7;
constexpr int64_t kTimedUsMax = 1000000;  // no further run is started after this time

// Over all layers, the keys that rows 0 .. row_count - 1 see.
double VisibleKeys(const CostRates& rates, int64_t row_count) {
  double keys = 0;
  for (const PageGroup& group : rates.groups) {
    const double n = row_count;
    const double w = group.window == 0 ? n : std::min(n, static_cast<double>(group.window));
    keys += group.layer_count * (w * (w + 1) / 2 + (n - w) * w);
  }
  return keys;
}

// Rows [begin, end).
double Operations(const CostRates& rates, int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  return static_cast<double>(end - begin) * rates.weight_operations +
         (VisibleKeys(rates, end) - VisibleKeys(rates, begin)) * rates.key_operations;
}

double PrefillOperations(const CostRates& rates, int64_t cached_count, int64_t token_count) {
  return Operations(rates, cached_count, token_count);
}

// The first new token comes from the prompt's last row.
double DecodeOperations(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count) {
  return Operations(rates, prompt_token_count, prompt_token_count + std::max<int64_t>(new_token_count - 1, 0));
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

absl::StatusOr<CostRates> MeasureCostRates(const ModelConfig& config, int64_t parameter_count, int64_t cache_tokens,
                                           absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run) {
  CostRates rates;
  const int64_t embedding = config.vocabulary_size * config.width * (config.tied_embeddings ? 1 : 2);
  rates.weight_operations = 2.0 * std::max<int64_t>(parameter_count - embedding, 1);
  rates.key_operations = 4.0 * static_cast<double>(config.head_count * config.head_width);
  rates.groups = config.page_groups;
  const int64_t room = std::min(config.max_position, cache_tokens);
  const int64_t prompt = std::clamp<int64_t>(room - kNewTokens, 1, kPromptTokens);
  const int64_t fresh = std::clamp<int64_t>(room - prompt, 1, kNewTokens);
  EngineRequest request;
  request.id = "timing";
  request.token_ids.assign(prompt, 0);
  request.work = GenerateWork{.max_new_tokens = fresh, .ignore_eos = true};
  RETURN_IF_ERROR(run(request).status());  // the first run warms caches and threads
  const double prefill_operations = PrefillOperations(rates, 0, prompt);
  const double decode_operations = DecodeOperations(rates, prompt, std::max<int64_t>(fresh, 2));
  std::vector<double> prefill_rates, decode_rates;
  for (int64_t spent_us = 0; std::ssize(prefill_rates) < kTimedRuns && spent_us < kTimedUsMax;) {
    ASSIGN_OR_RETURN(const EngineResult result, run(request));
    const int64_t prefill_us = std::max<int64_t>(result.prefill_us, 1);
    const int64_t decode_us = std::max<int64_t>(result.decode_us, 1);
    prefill_rates.push_back(1e6 * prefill_operations / static_cast<double>(prefill_us));
    decode_rates.push_back(1e6 * decode_operations / static_cast<double>(decode_us));
    spent_us += prefill_us + decode_us;
  }
  rates.prefill_operations_per_s = Median(std::move(prefill_rates));
  rates.decode_operations_per_s = Median(std::move(decode_rates));
  return rates;
}

double EstimateSeconds(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count,
                       int64_t cached_token_count) {
  return PrefillOperations(rates, cached_token_count, prompt_token_count) / rates.prefill_operations_per_s +
         DecodeOperations(rates, prompt_token_count, new_token_count) / rates.decode_operations_per_s;
}

}  // namespace varifocal

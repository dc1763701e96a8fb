#include "server/engine/estimate.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int64_t kPromptTokens = 512;
constexpr int64_t kNewTokens = 9;  // the first comes from the prompt's last row
// The median of several runs is used: another program's burst on the machine slows one of them several times.
constexpr int kTimedRuns = 7;
constexpr int64_t kTimedUsMax = 1000000;  // no further run is started after this time
constexpr int64_t kLongPromptTokens[] = {8192, 4096, 2048};
constexpr int kLongRuns = 3;
constexpr double kLongSecondsMax = 1.2;  // of one run, expected

// Over all layers, the keys that rows 0 .. row_count - 1 see.
double VisibleKeys(const RowCost& cost, int64_t row_count) {
  double keys = 0;
  for (const PageGroup& group : cost.groups) {
    const double n = row_count;
    const double w = group.window == 0 ? n : std::min<double>(n, group.window);
    keys += group.layer_count * (w * (w + 1) / 2 + (n - w) * w);
  }
  return keys;
}

// Of rows [begin, end).
struct Operations {
  double weights = 0, keys = 0;
};

Operations OperationsOf(const RowCost& cost, int64_t begin, int64_t end) {
  if (end <= begin) return {};
  return {(end - begin) * cost.weight_operations,
          (VisibleKeys(cost, end) - VisibleKeys(cost, begin)) * cost.key_operations};
}

// The first new token comes from the prompt's last row.
double DecodeOperations(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count) {
  return rates.Operations(prompt_token_count, prompt_token_count + std::max<int64_t>(new_token_count - 1, 0));
}

double PrefillSeconds(const CostRates& rates, int64_t cached_count, int64_t token_count) {
  const Operations operations = OperationsOf(rates, cached_count, token_count);
  return operations.weights / rates.prefill_weight_operations_per_s +
         operations.keys / rates.prefill_key_operations_per_s;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Timing {
  double prefill_seconds = 0, decode_seconds = 0;  // medians
};

absl::StatusOr<Timing> TimeRuns(const EngineRequest& request, int run_count, int64_t us_max,
                                absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run) {
  std::vector<double> prefill, decode;
  for (int64_t spent_us = 0; std::ssize(prefill) < run_count && spent_us < us_max;) {
    ASSIGN_OR_RETURN(const EngineResult result, run(request));
    const int64_t prefill_us = std::max<int64_t>(result.prefill_us, 1);
    const int64_t decode_us = std::max<int64_t>(result.decode_us, 1);
    prefill.push_back(1e-6 * prefill_us);
    decode.push_back(1e-6 * decode_us);
    spent_us += prefill_us + decode_us;
  }
  return Timing{Median(std::move(prefill)), Median(std::move(decode))};
}

EngineRequest TimingRequest(int64_t prompt, int64_t fresh) {
  EngineRequest request;
  request.id = "timing";
  request.token_ids.assign(prompt, 0);
  request.work = GenerateWork{.max_new_tokens = fresh, .ignore_eos = true};
  return request;
}

// The rates at which `brief` takes brief_seconds and `longer` longer_seconds; one rate for both kinds of operations, that of
// `longer`, where no two rates do.
void SolvePrefillRates(const Operations& brief, double brief_seconds, const Operations& longer, double longer_seconds,
                       CostRates* rates) {
  const double determinant = brief.weights * longer.keys - longer.weights * brief.keys;
  double weight_seconds = (brief_seconds * longer.keys - longer_seconds * brief.keys) / determinant;
  double key_seconds = (brief.weights * longer_seconds - longer.weights * brief_seconds) / determinant;
  if (!(weight_seconds > 0) || !(key_seconds > 0))
    weight_seconds = key_seconds = longer_seconds / (longer.weights + longer.keys);
  rates->prefill_weight_operations_per_s = 1 / weight_seconds;
  rates->prefill_key_operations_per_s = 1 / key_seconds;
}

}  // namespace

RowCost RowCost::Of(const ModelConfig& config, int64_t parameter_count) {
  const int64_t embedding = config.vocabulary_size * config.width * (config.tied_embeddings ? 1 : 2);
  // A row reads one row of the table of layers' inputs.
  const int64_t inputs = config.layer_inputs.vocabulary * config.layer_inputs.width * config.layer_count;
  RowCost cost{.weight_operations = 2.0 * std::max<int64_t>(parameter_count - embedding - inputs, 1),
               .key_operations = 4.0 * (config.head_count * config.head_width),
               .groups = config.page_groups};
  // Layers that attend, also those without pages of their own, by their heads' width.
  const auto in_widths = [&](int64_t head_width) { return (head_width + config.head_width - 1) / config.head_width; };
  for (PageGroup& group : cost.groups) {
    if (group.head_width > 0) group.layer_count *= in_widths(group.head_width);
  }
  for (const LayerConfig& layer : config.layers) {
    if (layer.source_layer >= 0) cost.groups[layer.page_group].layer_count += in_widths(HeadWidth(config, layer));
  }
  return cost;
}

double RowCost::Operations(int64_t begin, int64_t end) const {
  const varifocal::Operations operations = OperationsOf(*this, begin, end);
  return operations.weights + operations.keys;
}

absl::StatusOr<CostRates> MeasureCostRates(const ModelConfig& config, int64_t parameter_count, int64_t cache_tokens,
                                           absl::FunctionRef<absl::StatusOr<EngineResult>(EngineRequest)> run) {
  CostRates rates{RowCost::Of(config, parameter_count)};
  const int64_t room = std::min(config.max_position, cache_tokens);
  const int64_t prompt = std::clamp<int64_t>(room - kNewTokens, 1, kPromptTokens);
  const int64_t fresh = std::clamp<int64_t>(room - prompt, 1, kNewTokens);
  const EngineRequest request = TimingRequest(prompt, fresh);
  RETURN_IF_ERROR(run(request).status());  // the first run warms caches and threads
  ASSIGN_OR_RETURN(const Timing timing, TimeRuns(request, kTimedRuns, kTimedUsMax, run));
  rates.decode_operations_per_s = DecodeOperations(rates, prompt, std::max<int64_t>(fresh, 2)) / timing.decode_seconds;
  const Operations brief = OperationsOf(rates, 0, prompt);
  rates.prefill_weight_operations_per_s = rates.prefill_key_operations_per_s =
      (brief.weights + brief.keys) / timing.prefill_seconds;
  for (const int64_t length : kLongPromptTokens) {
    if (length >= room || PrefillSeconds(rates, 0, length) > kLongSecondsMax) continue;
    ASSIGN_OR_RETURN(const Timing longer, TimeRuns(TimingRequest(length, 1), kLongRuns, 2 * kTimedUsMax, run));
    SolvePrefillRates(brief, timing.prefill_seconds, OperationsOf(rates, 0, length), longer.prefill_seconds, &rates);
    break;
  }
  return rates;
}

double EstimateSeconds(const CostRates& rates, int64_t prompt_token_count, int64_t new_token_count,
                       int64_t cached_token_count) {
  return PrefillSeconds(rates, cached_token_count, prompt_token_count) +
         DecodeOperations(rates, prompt_token_count, new_token_count) / rates.decode_operations_per_s;
}

}  // namespace varifocal

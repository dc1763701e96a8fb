// What 64K and 128K tokens cost on a GPU: a plan from measured rates, by the cost model of server/engine/estimate.h.
//
//   long_plan [--products=750] [--attention=325] [--copy=3.03] [--prefill-share=0.8] [--decode-share=0.6] [--memory-gb=80]
//
// Rates are TFLOP/s of matrix products and of causal attention, and TB/s of a copy: the defaults are an H100's
// (docs/gpu/README.md). Whole prompts and steps reach a share of them: of a 2.7B model, prompts of 8K and 16K tokens took 115
// and 297 ms where this model gives 89 and 246 at full rates, decode steps at 1K and 32K took 0.53 and 0.71 of a copy's rate.
//
// Prefill: operations of the weights and of the visible keys. Decode: bytes of weights and of the cache, read once a token.
// Keys and values: 2 K D bytes an element, token and layer; pages of 128 tokens are rounded up.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/engine/estimate.h"

namespace varifocal {
namespace {

constexpr int64_t kPageTokens = 128, kBytes = 2;  // of bf16
constexpr int64_t kQuestions = 4;                 // on one context, as in `standard_128k`
constexpr int64_t kAnswerTokens = 32, kSuffixTokens = 128;

struct Shape {
  const char* name;
  int64_t layers, width, feed_forward, heads, kv_heads, head_width, vocabulary;
  bool tied;

  int64_t BlockParameters() const {
    return layers * (2 * width * heads * head_width + 2 * width * kv_heads * head_width + 3 * width * feed_forward);
  }
  int64_t Parameters() const { return BlockParameters() + vocabulary * width * (tied ? 1 : 2); }
  int64_t KvBytes(int64_t tokens) const {
    return (tokens + kPageTokens - 1) / kPageTokens * kPageTokens * layers * 2 * kv_heads * head_width * kBytes;
  }
};

constexpr Shape kShapes[] = {{"8B (Llama 3.1)", 32, 4096, 14336, 32, 8, 128, 128256, false},
                             {"1.7B (SmolLM2)", 24, 2048, 8192, 32, 32, 64, 49152, true},
                             {"135M (SmolLM2)", 30, 576, 1536, 9, 3, 64, 49152, true}};

int Plan(const std::map<std::string, double>& options) {
  const auto get = [&](const char* name) { return options.at(name); };
  std::printf(
      "| Shape, bf16 | Context | Keys and values | Prefill, s | Decode, ms a token | Questions an hour: 4 a context | 1 a context | "
      "Contexts in %.0f GB |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      get("memory-gb"));
  for (const Shape& shape : kShapes) {
    CostRates rates;
    rates.weight_operations = 2.0 * static_cast<double>(shape.BlockParameters());
    rates.key_operations = 4.0 * static_cast<double>(shape.heads * shape.head_width);
    rates.groups = {PageGroup{.window = 0, .layer_count = static_cast<int>(shape.layers)}};
    rates.prefill_weight_operations_per_s = get("products") * 1e12 * get("prefill-share");
    rates.prefill_key_operations_per_s = get("attention") * 1e12 * get("prefill-share");
    rates.decode_operations_per_s = 1;  // decode is by bytes
    const double weights = static_cast<double>(shape.Parameters() * kBytes);
    for (const int64_t context : {32768, 65536, 131072}) {
      const auto kv = static_cast<double>(shape.KvBytes(context));
      const double prefill = EstimateSeconds(rates, context, 0, 0);
      const double suffix = EstimateSeconds(rates, context, 0, context - kSuffixTokens);
      const double step = (weights + kv) / (get("copy") * 1e12 * get("decode-share"));
      const double answers = kQuestions * kAnswerTokens * step;
      const double shared = prefill + (kQuestions - 1) * suffix + answers;
      const double alone = prefill + kAnswerTokens * step;
      absl::PrintF("| %s | %dK | %.2f GB | %.2f | %.1f | %.0f | %.0f | %d |\n", shape.name, context / 1024, kv / 1e9,
                   prefill, 1e3 * step, kQuestions * 3600 / shared, 3600 / alone,
                   static_cast<int64_t>((get("memory-gb") * 1e9 - weights) / kv));
    }
  }
  return 0;
}

int Main(int count, char** arguments) {
  std::map<std::string, double> options = {{"products", 750},      {"attention", 325},    {"copy", 3.03},
                                           {"prefill-share", 0.8}, {"decode-share", 0.6}, {"memory-gb", 80}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    bool is_known = false;
    for (auto& [name, value] : options) {
      const std::string flag = absl::StrCat("--", name, "=");
      if (!absl::StartsWith(argument, flag)) continue;
      is_known = absl::SimpleAtod(argument.substr(flag.size()), &value) && value > 0;
    }
    if (is_known) continue;
    std::fprintf(stderr, "long_plan: %s is no flag with a number above 0\n", argument.c_str());
    return 2;
  }
  return Plan(options);
}

}  // namespace
}  // namespace varifocal

int main(int count, char** arguments) { return varifocal::Main(count, arguments); }

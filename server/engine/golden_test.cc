// What the engine computes against golden files: log-probabilities and greedy text of tiny random checkpoints, one or
// more per row of the architecture table and per RoPE scaling, from transformers in float64, and every focal mode from
// a PyTorch implementation of the formulas (recipes/goldens, whose `mutation_test` shows which bugs these values detect).
//
// Tolerance in f32. The oracle is float64 on the same rounded weights, so the difference is f32 rounding in our pass.
// The golden file states how far the same formulas in f32 (PyTorch) lie from float64; our order of summation is another
// one, so the bound is 8 times that, and never below 2^-24 (unit roundoff) times 64 (width of the longest sums, added
// over two or three layers) times 8 (the largest logit, in round numbers).
//
// Tolerance in bf16. The golden file states how far the same formulas lie from float64 when everything that our bf16
// rounds is rounded (matrices and what they are multiplied with, queries, keys, values, attention weights; sums exact).
// It takes eight draws of those errors (the steps of the rounding lie elsewhere in each; attention weights are rounded
// before or after they are normalized) and keeps the largest error and the largest root mean square; ours is a ninth.
// A sharp row's errors have wide tails, so the largest may be three times the file's; the mean square over some 400
// values hardly varies, so the root may be 1.6 times the file's, which is what notices an error that bf16 could hide.
// Greedy text is compared while its gap exceeds four times the file's largest error: four steps at least in
// architectures/.
//
// VARIFOCAL_GOLDEN_CPU_ISA=avx2 runs the CPU cases on that instruction set.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal {
namespace {

constexpr char kRoot[] = "tests/testdata/goldens/";

constexpr const char* kCases[] = {
    "llama/tied-d16-f32",
    "llama/untied-d32-bf16",
    "llama/llama3-rope-d64-f32",
    "llama/sharded-d16-bf16",
    "llama/focal-constant",
    "llama/focal-per-layer",
    "llama/focal-learned-causal",
    "llama/focal-learned-token",
    "llama/focal-learned-sequence",
    "llama/focal-learned-no-bias",
    "attention/full-layers-only",
    "attention/log-n-constant",
    "attention/log-n-learned",
    "attention/sink-learned",
    "attention/sink-zero",
    "attention/score-cap",
    "attention/sink-capped",
    "focus/llama-calibrated",
    "focus/llama-paged",
    "focus/llama-prompt",
    "focus/llama-ties",
    "focus/llama-32-groups",
    "focus/llama-focal-constant",
    "focus/llama-focal-causal",
    "focus/llama-focal-sequence",
    "focus/mistral-window",
    "focus/qwen2-window",
    "focus/qwen3-layer-types",
    "focus/gemma3-newer",
    "focus/gemma3-older-layers",
    "focus/gemma3-paged",
    "focus/olmo2",
    "focus/gpt2",
    "focus/gpt2-bare-names",
    "focus/gpt2-prompt",
    "focus/gpt-neox-parallel",
    "focus/gpt-neox-sequential",
    "focus/gpt-neox-paged",
    "focus/phi3-window",
    "focus/granite",
    "architectures/llama-biases",
    "architectures/llama-linear",
    "architectures/llama-dynamic",
    "architectures/llama-yarn",
    "architectures/llama-yarn-attention-factor",
    "architectures/llama-yarn-mscale",
    "architectures/llama-longrope",
    "architectures/mistral-window",
    "architectures/mistral-full",
    "architectures/qwen2-older",
    "architectures/qwen2-window",
    "architectures/qwen3-wide-heads",
    "architectures/qwen3-layer-types",
    "architectures/gemma3-older",
    "architectures/gemma3-newer",
    "architectures/olmo2",
    "architectures/olmo2-llama3",
    "architectures/gpt2",
    "architectures/gpt2-bare-names",
    "architectures/gpt-neox-parallel",
    "architectures/gpt-neox-sequential",
    "architectures/phi3-older",
    "architectures/phi3-newer",
    "architectures/phi3-window",
    "architectures/granite",
    "architectures/granite-newer",
    "architectures/gemma3n",
    "architectures/gemma3n-shared",
    "architectures/gemma3n-wrapped",
    "architectures/gemma4",
    "architectures/gemma4-shared",
    "architectures/gemma4-experts",
    "architectures/gemma4-wrapped",
    "architectures/gemma2-older",
    "architectures/gemma2-newer",
    "architectures/olmo3-older",
    "architectures/olmo3-newer",
    "architectures/ministral-older",
    "architectures/ministral-newer",
    "architectures/smollm3-older",
    "architectures/smollm3-newer",
    "architectures/seed-oss",
    "architectures/seed-oss-biases",
    "architectures/arcee",
    "architectures/arcee-biases",
    "architectures/exaone4-hybrid",
    "architectures/exaone4-full",
    "architectures/starcoder2",
    "architectures/nemotron",
    "architectures/stablelm",
    "architectures/stablelm-parallel",
    "architectures/ernie4-5",
    "architectures/glm4",
    "architectures/cohere2",
    "architectures/ministral3",
    "architectures/gemma3-wrapped",
    "architectures/mistral3-wrapped",
    "architectures/ministral3-wrapped",
    "architectures/qwen3-moe",
    "architectures/qwen3-moe-fused",
    "architectures/olmoe",
    "architectures/olmoe-fused",
    "architectures/mixtral",
    "architectures/mixtral-window",
    "architectures/qwen2-moe",
    "architectures/qwen2-moe-window",
    "architectures/granitemoe",
    "architectures/granitemoe-newer",
    "architectures/granitemoehybrid",
    "architectures/granitemoehybrid-dense",
    "architectures/falcon-h1",
    "architectures/falcon-h1-normed",
    "architectures/bamba",
    "architectures/bamba-newer",
    "architectures/nemotron-h",
    "architectures/nemotron-h-older",
    "architectures/nemotron-h-experts",
    "architectures/nemotron-h-groups",
    "architectures/deepseek-v2",
    "architectures/deepseek-v2-lite",
    "architectures/deepseek-v3",
    "architectures/deepseek-v3-plain",
    "architectures/deepseek-v3-wide",
    "architectures/minicpm3",
    "architectures/minicpm3-newer",
    "architectures/lfm2",
    "architectures/lfm2-newer",
    "architectures/gpt-oss",
    "architectures/gpt-oss-mxfp4",
    "architectures/phi",
    "architectures/phi-grouped",
    "architectures/apertus",
    "architectures/apertus-newer",
    "architectures/hunyuan",
    "architectures/hunyuan-newer",
    "architectures/qwen3-next",
    "architectures/qwen3-5",
    "architectures/qwen3-5-wrapped",
    "architectures/qwen2-5-vl",
    "architectures/qwen3-vl",
    "packed/fp8-blocks",
    "packed/fp8-experts",
    "packed/gptq-order",
    "packed/awq",
    "packed/ct-int4-zeros",
    "packed/ct-fp8",
    "packed/bnb-nf4",
    "packed/lora",
    "packed/lora-nf4",
};

struct Setting {
  const char* golden;
  const char* device;
  const char* dtype;
  const char* cpu_isa;
};

class GoldenTest : public testing::TestWithParam<Setting> {};

std::vector<double> Temperatures(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_number()) return {value.get<double>()};
  return value.get<std::vector<double>>();
}

AttentionOverrides OverridesOf(const Json& run) {
  AttentionOverrides overrides = RunTimeTemperature(Temperatures(run["focal_temperature"]));
  for (const auto& [key, name] : {std::pair{"focus_top_k", "focus-top-k"}, {"focus_window", "focus-window"}}) {
    if (run.contains(key) && !run[key].is_null()) overrides.push_back({name, run[key]});
  }
  return overrides;
}

// In bf16 the rows that are routed differ from the oracle's by more than some tokens' ranking of groups, so that runs
// of Focus are compared where every pair is visible; these cases have some.
constexpr const char* kFocusInBf16[] = {"focus/llama-calibrated", "focus/llama-paged", "focus/llama-prompt"};

bool IsCompared(const Json& run, bool is_bf16) {
  if (!is_bf16 || !run.contains("pairs_visible")) return true;
  for (const Json& share : run["pairs_visible"]) {
    if (share < 1) return false;
  }
  return true;
}

TEST_P(GoldenTest, LogProbabilitiesAndGreedyText) {
  const std::string directory = std::string(kRoot) + GetParam().golden;
  const bool has_adapter = std::filesystem::is_directory(directory + "/adapter");
  ASSIGN_OR_FAIL(auto model, LoadModel(has_adapter ? directory + "/base" : directory,
                                       {.device = GetParam().device,
                                        .dtype = GetParam().dtype,
                                        .cpu_isa = GetParam().cpu_isa,
                                        .cache_directory = testing::TempDir(),
                                        .adapter_directory = has_adapter ? directory + "/adapter" : ""}));
  ASSIGN_OR_FAIL(auto engine, Engine::Create(model, {.prefill_chunk_tokens = 48}));
  ASSIGN_OR_FAIL(auto text, ReadFile(directory + "/golden.json", kDataFile));
  ASSIGN_OR_FAIL(auto golden, ParseJson(text));

  const bool is_bf16 = std::string(GetParam().dtype) == "bf16";
  double bf16_bound = 0;
  double bf16_rms_bound = 0;
  int compared_runs = 0;
  for (const Json& run : golden["runs"]) {
    if (!IsCompared(run, is_bf16)) continue;
    ++compared_runs;
    bf16_bound = std::max(bf16_bound, 3 * run["bfloat16_difference"].get<double>());
    bf16_rms_bound = std::max(bf16_rms_bound, 1.6 * run["bfloat16_rms"].get<double>());
  }
  ASSERT_GT(compared_runs, 0);
  for (const Json& run : golden["runs"]) {
    if (!IsCompared(run, is_bf16)) continue;
    const std::vector<int32_t> ids = run["token_ids"];
    const AttentionOverrides overrides = OverridesOf(run);
    const double f32_bound = std::max(8 * run["float32_difference"].get<double>(), std::ldexp(64 * 8, -24));
    const double bound = is_bf16 ? bf16_bound : f32_bound;
    const double rms_bound = is_bf16 ? bf16_rms_bound : f32_bound;

    ASSIGN_OR_FAIL(auto scored,
                   engine->Run({.token_ids = ids, .attention_overrides = overrides, .work = ScoreTextWork{}}));
    ASSERT_EQ(scored.token_log_probs.size(), ids.size());
    EXPECT_FALSE(scored.token_log_probs[0].has_value());
    std::vector<double> errors;
    for (size_t i = 1; i < ids.size(); ++i)
      errors.push_back(*scored.token_log_probs[i] - run["token_log_probs"][i].get<double>());

    // Every token as a continuation of one: the whole last row.
    const std::vector<double> last = run["last_log_probs"];
    ScoreContinuationsWork every;
    for (size_t id = 0; id < last.size(); ++id) every.continuations.push_back({static_cast<int32_t>(id)});
    ASSIGN_OR_FAIL(auto row, engine->Run({.token_ids = ids, .attention_overrides = overrides, .work = every}));
    for (size_t id = 0; id < last.size(); ++id) errors.push_back(row.continuations[id].log_likelihood - last[id]);
    double difference = 0;
    double squares = 0;
    for (const double error : errors) {
      difference = std::max(difference, std::abs(error));
      squares += error * error;
    }
    const double rms = std::sqrt(squares / errors.size());
    EXPECT_LE(difference, bound) << ids.size() << " tokens";
    EXPECT_LE(rms, rms_bound) << ids.size() << " tokens";

    const std::vector<int32_t> continuation = run["continuation"];
    const std::vector<double> gaps = run["continuation_gaps"];
    ASSIGN_OR_FAIL(auto generated,
                   engine->Run({.token_ids = ids,
                                .attention_overrides = overrides,
                                .work = GenerateWork{.max_new_tokens = std::ssize(continuation), .ignore_eos = true}}));
    ASSERT_EQ(generated.new_token_ids.size(), continuation.size());
    EXPECT_EQ(generated.finish_reason, EngineFinishReason::kLength);
    const double gap_bound = is_bf16 ? bf16_bound * 4 / 3 : 2 * bound;
    size_t compared = 0;
    while (compared < gaps.size() && gaps[compared] >= gap_bound) {
      ASSERT_EQ(generated.new_token_ids[compared], continuation[compared]) << "step " << compared;
      ++compared;
    }
    if (!is_bf16) {
      EXPECT_EQ(compared, gaps.size());
    }

    if (run.contains("tau_count") && !is_bf16) {
      ASSERT_TRUE(scored.tau_at_min_share.has_value());
      const double count = run["tau_count"];
      // A mean that lies on a bound to within rounding may fall on either side.
      EXPECT_NEAR(*scored.tau_at_min_share, run["tau_at_min_count"].get<double>() / count, 1.5 / count);
      EXPECT_NEAR(*scored.tau_at_max_share, run["tau_at_max_count"].get<double>() / count, 1.5 / count);
    }
    std::printf(
        "%-41s %-19s %-4s %4zu tokens: largest difference %.1e (bound %.1e), rms %.1e (bound %.1e), greedy steps "
        "compared %zu of %zu\n",
        GetParam().golden, model->provenance().kernels.c_str(), GetParam().dtype, ids.size(), difference, bound, rms,
        rms_bound, compared, gaps.size());
  }
}

std::vector<Setting> Settings() {
  const char* asked = std::getenv("VARIFOCAL_GOLDEN_CPU_ISA");
  const char* isa = asked == nullptr ? "" : asked;
  std::vector<Setting> settings;
  for (const char* golden : kCases) {
    settings.push_back({golden, "reference", "f32", ""});
    settings.push_back({golden, "cpu", "f32", "portable"});
    if (std::string(isa) != "portable") settings.push_back({golden, "cpu", "f32", isa});
    const bool is_focus = std::string(golden).starts_with("focus/");
    const bool in_bf16 = std::any_of(std::begin(kFocusInBf16), std::end(kFocusInBf16),
                                     [&](const char* name) { return std::string(name) == golden; });
    if (!is_focus || in_bf16) settings.push_back({golden, "cpu", "bf16", isa});
  }
  return settings;
}

TEST(GoldenFilesTest, EveryCheckpointIsInTheTable) {
  for (const char* folder : {"llama", "attention", "focus", "architectures", "packed"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(kRoot) + folder)) {
      if (!std::filesystem::exists(entry.path() / "golden.json")) continue;
      const std::string name = std::string(folder) + "/" + entry.path().filename().string();
      EXPECT_NE(std::find(std::begin(kCases), std::end(kCases), name), std::end(kCases)) << name;
    }
  }
}

std::string NameOf(const Setting& setting) {
  const std::string device = std::string(setting.cpu_isa) == "portable" ? "portable" : setting.device;
  std::string name = std::string(setting.golden) + "_" + device + "_" + setting.dtype;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Settings()),
                         [](const testing::TestParamInfo<Setting>& info) { return NameOf(info.param); });

}  // namespace
}  // namespace varifocal

// What the engine computes against golden files: log-probabilities and greedy text of tiny random llamas, baseline and
// every focal mode, from transformers and a PyTorch implementation of the formulas in float64 (recipes/goldens).
//
// Tolerance in f32. The oracle is float64 on the same rounded weights, so the difference is f32 rounding in our pass.
// The golden file states how far the same formulas in f32 (PyTorch) lie from float64; our order of summation is another
// one, so the bound is 8 times that, and never below 2^-24 (unit roundoff) times 64 (width of the longest sums, added
// over two or three layers) times 8 (the largest logit, in round numbers).
//
// Tolerance in bf16. What feeds matrix products, keys and values are rounded to 2^-9 of themselves: the input of each
// of the four products of a layer, q, k and v, and the input of the head. A rounding moves a logit by at most about
// 2^-9 of its size (8, in round numbers) when nothing cancels; 8 roundings a layer over three layers add up to 0.4 in
// the worst order and to a fifth of that in random order. Sharp attention (t = 0.4) multiplies the scores' share by
// 2.5, which the room between the two orders covers. The bound is 0.4; greedy text is compared while its gap exceeds
// twice the bound.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/json.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/model/mapped_file.h"

namespace varifocal {
namespace {

constexpr char kRoot[] = "tests/testdata/goldens/llama/";

struct GoldenCase {
  const char* name;
  bool learned;
};

constexpr GoldenCase kCases[] = {
    {"tied-d16-f32", false},         {"untied-d32-bf16", false},    {"llama3-rope-d64-f32", false},
    {"sharded-d16-bf16", false},     {"focal-constant", false},     {"focal-per-layer", false},
    {"focal-learned-causal", true},  {"focal-learned-token", true}, {"focal-learned-sequence", true},
    {"focal-learned-no-bias", true},
};

struct Setting {
  GoldenCase golden;
  const char* device;
  const char* dtype;
};

constexpr double kBF16Bound = 0.4;

class GoldenTest : public testing::TestWithParam<Setting> {};

std::vector<double> Temperatures(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_number()) return {value.get<double>()};
  return value.get<std::vector<double>>();
}

TEST_P(GoldenTest, LogProbabilitiesAndGreedyText) {
  const std::string directory = std::string(kRoot) + GetParam().golden.name;
  auto model = LoadModel(
      directory, {.device = GetParam().device, .dtype = GetParam().dtype, .cache_directory = testing::TempDir()});
  ASSERT_TRUE(model.ok()) << model.status();
  auto engine = Engine::Create(*model, {.prefill_chunk_tokens = 48});
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto text = ReadSmallFile(directory + "/golden.json", 1 << 28);
  ASSERT_TRUE(text.ok()) << text.status();
  auto golden = ParseJson(*text);
  ASSERT_TRUE(golden.ok()) << golden.status();

  const bool is_bf16 = std::string(GetParam().dtype) == "bf16";
  for (const Json& run : (*golden)["runs"]) {
    const std::vector<int32_t> ids = run["token_ids"];
    const std::vector<double> temperatures = Temperatures(run["focal_temperature"]);
    const double f32_bound = std::max(8 * run["float32_difference"].get<double>(), std::ldexp(64 * 8, -24));
    const double bound = is_bf16 ? kBF16Bound : f32_bound;

    auto scored = (*engine)->Run({.token_ids = ids, .focal_temperature = temperatures, .work = ScoreTextWork{}});
    ASSERT_TRUE(scored.ok()) << scored.status();
    ASSERT_EQ(scored->token_log_probs.size(), ids.size());
    EXPECT_FALSE(scored->token_log_probs[0].has_value());
    double difference = 0;
    for (size_t i = 1; i < ids.size(); ++i) {
      difference =
          std::max(difference, std::abs(*scored->token_log_probs[i] - run["token_log_probs"][i].get<double>()));
    }

    // Every token as a continuation of one: the whole last row.
    const std::vector<double> last = run["last_log_probs"];
    ScoreContinuationsWork every;
    for (size_t id = 0; id < last.size(); ++id) every.continuations.push_back({static_cast<int32_t>(id)});
    auto row = (*engine)->Run({.token_ids = ids, .focal_temperature = temperatures, .work = every});
    ASSERT_TRUE(row.ok()) << row.status();
    for (size_t id = 0; id < last.size(); ++id)
      difference = std::max(difference, std::abs(row->continuations[id].log_likelihood - last[id]));
    EXPECT_LE(difference, bound) << ids.size() << " tokens";

    const std::vector<int32_t> continuation = run["continuation"];
    const std::vector<double> gaps = run["continuation_gaps"];
    auto generated = (*engine)->Run(
        {.token_ids = ids,
         .focal_temperature = temperatures,
         .work = GenerateWork{.max_new_tokens = static_cast<int64_t>(continuation.size()), .ignore_eos = true}});
    ASSERT_TRUE(generated.ok()) << generated.status();
    ASSERT_EQ(generated->new_token_ids.size(), continuation.size());
    EXPECT_EQ(generated->finish_reason, EngineFinishReason::kLength);
    size_t compared = 0;
    while (compared < gaps.size() && gaps[compared] >= 2 * bound) {
      ASSERT_EQ(generated->new_token_ids[compared], continuation[compared]) << "step " << compared;
      ++compared;
    }
    if (!is_bf16) {
      EXPECT_GT(compared, 0u);
    }

    if (GetParam().golden.learned && !is_bf16) {
      ASSERT_TRUE(scored->tau_at_min_share.has_value());
      const double count = run["tau_count"];
      // A mean that lies on a bound to within rounding may fall on either side.
      EXPECT_NEAR(*scored->tau_at_min_share, run["tau_at_min_count"].get<double>() / count, 1.5 / count);
      EXPECT_NEAR(*scored->tau_at_max_share, run["tau_at_max_count"].get<double>() / count, 1.5 / count);
    }
    std::printf("%-24s %-9s %-4s %4zu tokens: largest difference %.1e (bound %.1e), greedy steps compared %zu of %zu\n",
                GetParam().golden.name, GetParam().device, GetParam().dtype, ids.size(), difference, bound, compared,
                gaps.size());
  }
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const GoldenCase& golden : kCases) {
    settings.push_back({golden, "reference", "f32"});
    settings.push_back({golden, "auto", "f32"});
    settings.push_back({golden, "auto", "bf16"});
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Settings()),
                         [](const testing::TestParamInfo<Setting>& info) {
                           std::string name =
                               std::string(info.param.golden.name) + "_" + info.param.device + "_" + info.param.dtype;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace varifocal

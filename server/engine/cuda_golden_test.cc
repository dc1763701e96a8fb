// The engine on an emulated CUDA device against golden files (recipes/goldens): see golden_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/json.h"
#include "server/engine/cuda_testing.h"

namespace varifocal {
namespace {

// Golden values in float64, with the bounds of golden_test.cc, whose lines this prints too (deploy/closeness.py).
void CompareOnDevice(const std::string& golden, const std::string& name, Engine& engine) {
  const Json run = (*ParseJson(*ReadFile(golden + "/golden.json", kConfigFile)))["runs"][0];
  const auto scored = engine.Run({.token_ids = run["token_ids"].get<std::vector<int32_t>>(), .work = ScoreTextWork{}});
  ASSERT_TRUE(scored.ok()) << name << ": " << scored.status();
  double largest = 0, squares = 0;
  const size_t count = scored->token_log_probs.size();
  ASSERT_EQ(count, run["token_log_probs"].size());
  for (size_t i = 1; i < count; ++i) {
    const double difference = *scored->token_log_probs[i] - run["token_log_probs"][i].get<double>();
    largest = std::max(largest, std::abs(difference));
    squares += difference * difference;
  }
  const double bound = 3 * run["bfloat16_difference"].get<double>(), rms = std::sqrt(squares / (count - 1)),
               rms_bound = 1.6 * run["bfloat16_rms"].get<double>();
  EXPECT_LT(largest, bound) << name;
  EXPECT_LT(rms, rms_bound) << name;
  std::printf("%-41s %-19s bf16 %4zu tokens: largest difference %.1e (bound %.1e), rms %.1e (bound %.1e)\n",
              name.c_str(), engine.model().provenance().backend.c_str(), count, largest, bound, rms, rms_bound);
}

// Every architecture that the device has kernels for; sinks, alone and under caps.
TEST(CudaGoldenTest, ArchitecturesAreAsCloseAsTheirRoundingErrors) {
  const EmulatedDevice device;
  std::vector<std::string> names = {"attention/sink-learned", "attention/sink-capped"};
  for (const auto& entry : std::filesystem::directory_iterator("tests/testdata/goldens/architectures")) {
    if (entry.is_directory()) names.push_back(absl::StrCat("architectures/", entry.path().filename().string()));
  }
  std::sort(names.begin(), names.end());
  int compared = 0;
  for (const std::string& name : names) {
    const std::string golden = absl::StrCat("tests/testdata/goldens/", name);
    auto model = LoadModel(golden, device.options);
    if (absl::IsUnimplemented(model.status())) continue;  // a head width without a kernel, such as 8
    ASSERT_TRUE(model.ok()) << name << ": " << model.status();
    ++compared;
    CompareOnDevice(golden, name, *StartEngine(*std::move(model), {.kv_cache_bytes = 4 << 20}));
  }
  EXPECT_GE(compared, 42);
}

}  // namespace
}  // namespace varifocal

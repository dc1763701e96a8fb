// Decode steps of few rows on an emulated device: how many kernels they take, and the same bits as by separate kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulator/fibers.h"
#include "server/engine/cuda_testing.h"

namespace varifocal {
namespace {

constexpr char kTiedLlama[] = "tied-d16-f32";

// An engine's kernels run before its first request. A decode step of separate kernels has ten launches a layer: four products, q, k
// and v into the pages, attention and its merge, the gate, and two residuals that include the next norm. Embedding, the first norm,
// and the head's norm, product, statistics and their fold are six. Fused ones are five, without the first norm.
TEST(CudaDecodeTest, LaunchesOfADecodeStep) {
  constexpr int64_t kLayers = 2;
  for (const auto& [kernels, expected] :
       {std::pair{"separate", 10 * kLayers + 6}, {"fused", 5 * kLayers + 5}, {"auto", 10 * kLayers + 6}}) {
    EmulatedDevice device(false, 500e12, {.decode_kernels = kernels});
    const int64_t before = kernels::cuda::emulator::LaunchCount();
    const auto engine = device.Start(kTiedLlama);
    EXPECT_GE(kernels::cuda::emulator::LaunchCount() - before, 10 * kLayers + 6 + expected - 2);
    const auto launches = [&](int64_t tokens, double temperature) {
      const int64_t start = kernels::cuda::emulator::LaunchCount();
      engine->DropPrefixCache();
      EngineRequest request = Generate("launches", 20, temperature);
      std::get<GenerateWork>(request.work).max_new_tokens = tokens;
      EXPECT_TRUE(engine->Run(request).ok());
      return kernels::cuda::emulator::LaunchCount() - start;
    };
    for (const double temperature : {0.0, 1.0}) {
      const int64_t steps = launches(9, temperature) - launches(1, temperature);
      EXPECT_EQ(steps, 8 * (expected + (temperature > 0 ? 1 : 0))) << kernels;
    }
  }
}

// Every architecture that the device has kernels for, one sequence and three at once, one by one and as graphs.
TEST(CudaDecodeTest, FusedKernelsHaveTheBitsOfSeparateOnes) {
  const EmulatedDevice separate(false, 500e12, {.decode_kernels = "separate:prefetch=off"}),
      fused(false, 500e12, {.decode_kernels = "fused"}), as_graphs(true, 500e12, {.decode_kernels = "fused"});
  std::vector<std::string> names = {kTiedLlama, "focal-learned-sequence", "attention/sink-learned",
                                    "attention/sink-capped", "attention/log-n-constant"};
  for (const auto& entry : std::filesystem::directory_iterator("tests/testdata/goldens/architectures")) {
    if (entry.is_directory()) names.push_back(absl::StrCat("architectures/", entry.path().filename().string()));
  }
  std::sort(names.begin(), names.end());
  int compared = 0, fewer = 0;
  for (const std::string& name : names) {
    const std::string golden = GoldenDirectory(name);
    if (absl::IsUnimplemented(LoadModel(golden, separate.options).status())) continue;  // a head width without a kernel
    ++compared;
    const EngineOptions options{.prefill_chunk_tokens = 64, .batch_size_max = 4, .kv_cache_bytes = 4 << 20};
    const auto expected = separate.Start(name, options);
    std::vector<EngineRequest> requests;
    std::vector<std::string> answers;
    for (int i = 0; i < 3; ++i) {
      requests.push_back(Generate(absl::StrCat("fused", i), 20 + 7 * i, i == 2 ? 0.8 : 0, i));
      const int64_t start = kernels::cuda::emulator::LaunchCount();
      answers.push_back(AnswerBits(expected->Run(requests[i])));
      if (i == 0) fewer -= kernels::cuda::emulator::LaunchCount() - start;
    }
    for (const EmulatedDevice* device : {&fused, &as_graphs}) {
      const auto engine = device->Start(name, options);
      EXPECT_EQ(BitsOf(AskAll(*engine, requests)), answers) << name;
      engine->DropPrefixCache();
      const int64_t start = kernels::cuda::emulator::LaunchCount();
      EXPECT_EQ(AnswerBits(engine->Run(requests[0])), answers[0]) << name;
      if (device == &fused) fewer += kernels::cuda::emulator::LaunchCount() - start;
    }
  }
  EXPECT_GE(compared, 42);
  EXPECT_LT(fewer, 0) << "fused steps have fewer kernels";
}

}  // namespace
}  // namespace varifocal

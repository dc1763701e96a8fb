// The engine on an emulated CUDA device of compute capability 9.0 with the product kernel sm90: epilogues in the kernel give the bits of
// kernels of their own, and how many kernels a layer of a prompt takes.
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

constexpr char kSmallLlama[] = "tied-d16-f32";

struct Scored {
  std::string bits;
  int64_t launches = 0;
};
Scored Score(Engine& engine, size_t length) {
  engine.DropPrefixCache();
  const int64_t before = kernels::cuda::emulator::LaunchCount();
  const auto result = engine.Run({.token_ids = RandomIds("products", length), .work = ScoreTextWork{}});
  return {AnswerBits(result), kernels::cuda::emulator::LaunchCount() - before};
}
EmulatedDevice DeviceOf(const char* products) { return EmulatedDevice(false, 500e12, {.product_kernel = products}); }

// Of a layer: two norms, q, k and v into the pages, attention, gate and up, and two products that are added to the residual. Apart, the
// two with epilogues are two kernels each; the two residuals as well, but then with the norm that follows. The first layer's norm
// follows no residual. Embedding and the head's kernels are the same.
TEST(CudaProductsTest, LaunchesOfAPrompt) {
  constexpr int64_t kLayers = 2;
  const auto launches = [](const char* products) {
    const EmulatedDevice device = DeviceOf(products);
    return Score(*device.Start(kSmallLlama), 60).launches;
  };
  const int64_t fused = launches("sm90"), apart = launches("sm90:epilogues=apart"), others = fused - 7 * kLayers;
  EXPECT_EQ(apart - others, 9 * kLayers + 1);
  // Embedding; the head's norm, product, statistics and their fold.
  EXPECT_EQ(others, 5);
}

// Every architecture that the device has kernels for, in chunks.
TEST(CudaProductsTest, EpiloguesHaveTheBitsOfKernelsOfTheirOwn) {
  const EmulatedDevice fused = DeviceOf("sm90"), apart = DeviceOf("sm90:epilogues=apart");
  std::vector<std::string> names = {kSmallLlama, "focal-learned-sequence", "attention/sink-learned"};
  for (const auto& entry : std::filesystem::directory_iterator("tests/testdata/goldens/architectures")) {
    if (entry.is_directory()) names.push_back(absl::StrCat("architectures/", entry.path().filename().string()));
  }
  std::sort(names.begin(), names.end());
  int compared = 0, fewer = 0;
  for (const std::string& name : names) {
    if (absl::IsUnimplemented(LoadModel(GoldenDirectory(name), fused.options).status())) continue;  // a head width
    ++compared;
    const EngineOptions options{.prefill_chunk_tokens = 64, .batch_size_max = 4, .kv_cache_bytes = 4 << 20};
    const auto expected = apart.Start(name, options), engine = fused.Start(name, options);
    const Scored want = Score(*expected, 70), got = Score(*engine, 70);
    EXPECT_EQ(got.bits, want.bits) << name;
    EXPECT_LE(got.launches, want.launches) << name;
    fewer += got.launches < want.launches;
  }
  EXPECT_GE(compared, 42);
  EXPECT_GE(fewer, 30);
}

}  // namespace
}  // namespace varifocal

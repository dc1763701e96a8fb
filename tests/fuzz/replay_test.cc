// Every fuzz target over its seeds and fixed mutations of them: bytes flipped, removed, duplicated, truncated, and
// extreme numbers. A target aborts on failure, after the target and the mutation were printed.
#include <fstream>
#include <iterator>
#include <string>

#include "base/random.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutate_bytes.h"
#include "tests/fuzz/targets.h"

namespace varifocal {
namespace {

constexpr size_t kSeedBytesMax = 150'000;  // a large seed is mutated only at its start, which has the structure
constexpr int kMutationsPerSeed = 60;

std::string ReadSeed(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {}).substr(0, kSeedBytesMax);
}

class ReplayTest : public testing::TestWithParam<FuzzTarget> {};

TEST_P(ReplayTest, DoesNotAbort) {
  Random random("fuzz replay");
  for (const std::string& seed : GetParam().seeds) {
    const std::string bytes = ReadSeed(seed);
    GetParam().run(bytes);
    for (int i = 0; i < kMutationsPerSeed; ++i) {
      SCOPED_TRACE(testing::Message() << seed << ", mutation " << i);
      GetParam().run(MutateBytes(bytes, random));
    }
  }
  GetParam().run("");
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, testing::ValuesIn(VARIFOCAL_FUZZ_TARGETS()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace varifocal

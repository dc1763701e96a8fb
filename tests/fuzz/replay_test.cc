// Every fuzz target over its seeds and fixed mutations of them: bytes flipped, removed, duplicated, truncated, and
// extreme numbers. A target aborts on failure, after the target and the mutation were printed.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/random.h"
#include "gtest/gtest.h"
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

std::string Mutate(std::string bytes, Random& random) {
  static constexpr const char* kExtremes[] = {"-1", "0", "1e999", "18446744073709551616", "null", "[]", "{}", "\"\""};
  const int count = 1 + static_cast<int>(random.Below(4));
  for (int i = 0; i < count && !bytes.empty(); ++i) {
    const size_t head = std::min<size_t>(bytes.size(), 4096);
    const size_t at = random.Below(2) == 0 ? random.Below(head) : random.Below(bytes.size());
    switch (random.Below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random.Below(256));
        break;
      case 1:
        bytes.erase(at, 1 + random.Below(16));
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, 1 + random.Below(64)));
        break;
      case 3:
        bytes.resize(at);
        break;
      default: {
        const size_t digit = bytes.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const size_t end = std::min(bytes.find_first_not_of("0123456789.eE+-", digit), bytes.size());
        bytes.replace(digit, end - digit, kExtremes[random.Below(std::size(kExtremes))]);
      }
    }
  }
  return bytes;
}

class ReplayTest : public testing::TestWithParam<FuzzTarget> {};

TEST_P(ReplayTest, DoesNotAbort) {
  Random random("fuzz replay");
  for (const std::string& seed : GetParam().seeds) {
    const std::string bytes = ReadSeed(seed);
    GetParam().run(bytes);
    for (int i = 0; i < kMutationsPerSeed; ++i) {
      SCOPED_TRACE(testing::Message() << seed << ", mutation " << i);
      GetParam().run(Mutate(bytes, random));
    }
  }
  GetParam().run("");
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, testing::ValuesIn(FuzzTargets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace varifocal

// MXFP4 against values worked by hand from the format.
#include "server/model/packed_weights/mxfp4.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/tensor.h"

namespace varifocal {
namespace {

std::vector<float> Unpacked(const std::string& blocks, const std::string& scales) {
  std::vector<uint16_t> bits(blocks.size() * 2);
  EXPECT_TRUE(UnpackMxfp4(blocks, scales, bits.data()).ok());
  std::vector<float> values;
  for (const uint16_t b : bits) values.push_back(kernels::WidenBF16(b));
  return values;
}

TEST(Mxfp4Test, LowHalvesFirstAndAPowerOfTwoEachGroup) {
  std::string blocks(32, '\0');
  blocks[0] = '\xA3';                                                               // 1.5 and -1
  blocks[15] = '\x7F';                                                              // -6 and 6
  blocks[16] = '\x21';                                                              // 0.5 and 1, of the second group
  const std::vector<float> values = Unpacked(blocks, std::string{'\x80', '\x7D'});  // 2 and 1/4
  ASSERT_EQ(values.size(), 64u);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[30], -12);
  EXPECT_EQ(values[31], 12);
  EXPECT_EQ(values[32], 0.125f);
  EXPECT_EQ(values[33], 0.25f);
  EXPECT_EQ(values[2], 0);
}

TEST(Mxfp4Test, EveryValueOfEveryScaleIsExact) {
  constexpr float kSizes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::string blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(static_cast<char>(i << 4 | i));
  for (int scale = 0; scale <= 252; ++scale) {
    const std::vector<float> values = Unpacked(blocks, std::string(1, static_cast<char>(scale)));
    for (int i = 0; i < 32; ++i) {
      const double expected = std::ldexp(kSizes[i / 2 % 8], scale - 127) * (i >= 16 ? -1 : 1);
      ASSERT_EQ(values[i], expected) << scale << " " << i;
    }
  }
}

TEST(Mxfp4Test, ScalesOfNoFiniteNumberAreRefused) {
  std::vector<uint16_t> bits(64);
  const absl::Status status = UnpackMxfp4(std::string(32, '\0'), std::string{'\x7F', '\xFF'}, bits.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "scale 1 is 255; the largest of finite values is 252");
}

}  // namespace
}  // namespace varifocal

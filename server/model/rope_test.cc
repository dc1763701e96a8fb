// Rotations: every scaling on a head of four or eight dimensions, against numbers that can be checked by hand; the rope
// length. The scalings as a whole are compared with transformers by the engine's golden test.
#include "server/model/rope.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace varifocal {
namespace {

void ExpectNear(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12 * expected[i]) << i;
}

// D = 4, theta = 100: frequencies 1 and 1/10.
TEST(RopeTest, DefaultLinearAndLlama3) {
  RopeConfig rope{.theta = 100};
  ExpectNear(RopeFrequencies(rope, 4, 0), {1, 0.1});
  rope.kind = RopeKind::kLinear;
  rope.factor = 2;
  ExpectNear(RopeFrequencies(rope, 4, 0), {0.5, 0.05});
  // Wavelengths of 2 pi = 6.28 and 62.8 positions; those shorter than 16 are kept, those longer than 32 scaled.
  rope.kind = RopeKind::kLlama3;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 2;
  rope.original_max_position = 32;
  ExpectNear(RopeFrequencies(rope, 4, 0), {1, 0.05});
}

// A rotary span of 4 of 16 dimensions equals a head of 4; one of 5 has three pairs, as transformers rounds up.
TEST(RopeTest, PartOfAHead) {
  RopeConfig rope{.theta = 100, .rotary_span = 4};
  ExpectNear(RopeFrequencies(rope, 16, 0), {1, 0.1});
  EXPECT_EQ(rope.RotaryWidth(16), 4);
  rope.rotary_span = 5;
  EXPECT_EQ(rope.RotaryWidth(16), 6);
  ExpectNear(RopeFrequencies(rope, 16, 0), {1, std::pow(100, -0.4), std::pow(100, -0.8)});
  EXPECT_EQ(RopeConfig{}.RotaryWidth(16), 16);
}

// theta' = theta (factor n / original - (factor - 1))^(D / (D - 2)); for D = 4, n twice the original and factor 2 that
// is 9 theta.
TEST(RopeTest, Dynamic) {
  const RopeConfig rope{.kind = RopeKind::kDynamic, .theta = 100, .factor = 2, .original_max_position = 50};
  ExpectNear(RopeFrequencies(rope, 4, 0), {1, 0.1});
  ExpectNear(RopeFrequencies(rope, 4, 50), {1, 0.1});
  ExpectNear(RopeFrequencies(rope, 4, 100), {1, 1.0 / 30});
  EXPECT_EQ(rope.RopeLength(50), 0);
  EXPECT_EQ(rope.RopeLength(51), 51);
  EXPECT_EQ(rope.RopeLength(100), 100);
}

// D = 8, theta = 10^4: frequencies 1, 1/10, 1/100, 1/1000. Over 2000 pi positions the dimension with `r` rotations is
// 8 log(1000 / r) / (2 log 10^4) = 3 - log10 r: 2 for r = 10, 3 for r = 1. So pairs up to 2 are kept, pair 3 is divided
// by the factor; with r = 1000 and 1 the ramp is from 0 to 3.
TEST(RopeTest, Yarn) {
  RopeConfig rope{.kind = RopeKind::kYarn,
                  .theta = 1e4,
                  .factor = 4,
                  .original_max_position = 2000 * M_PI,
                  .beta_fast = 10,
                  .beta_slow = 1,
                  .truncate = false};
  ExpectNear(RopeFrequencies(rope, 8, 0), {1, 0.1, 0.01, 0.00025});
  rope.beta_fast = 1000;
  // One third scaled: (2 + 1/4) / 3; two thirds: (1 + 2/4) / 3.
  ExpectNear(RopeFrequencies(rope, 8, 0), {1, 0.075, 0.005, 0.00025});
  // Truncated ends, by hand: 3 - log10 500 = 0.30 becomes 0, 3 - log10 2 = 2.70 becomes 3.
  rope.beta_fast = 500;
  rope.beta_slow = 2;
  rope.truncate = true;
  ExpectNear(RopeFrequencies(rope, 8, 0), {1, 0.075, 0.005, 0.00025});
  rope.truncate = false;
  EXPECT_GT(RopeFrequencies(rope, 8, 0)[1], 0.075);
  EXPECT_EQ(rope.RopeLength(1 << 20), 0);
}

TEST(RopeTest, LongRope) {
  const RopeConfig rope{.kind = RopeKind::kLongRope,
                        .theta = 100,
                        .original_max_position = 50,
                        .attention_factor = 2,
                        .short_factors = {1, 2},
                        .long_factors = {4, 5}};
  ExpectNear(RopeFrequencies(rope, 4, 0), {1, 0.05});
  ExpectNear(RopeFrequencies(rope, 4, 51), {0.25, 0.02});
  EXPECT_EQ(rope.RopeLength(50), 0);
  EXPECT_EQ(rope.RopeLength(51), 51);
  EXPECT_EQ(rope.RopeLength(9999), 51);  // all longer ones are equal
  const RopeTable table = MakeRopeTable(rope, 4, 3, 9999);
  EXPECT_FLOAT_EQ(table.cos[2 * 2 + 0], static_cast<float>(2 * std::cos(0.5)));
  EXPECT_FLOAT_EQ(table.sin[2 * 1 + 1], static_cast<float>(2 * std::sin(0.02)));
}

TEST(RopeTest, Table) {
  const RopeTable table = MakeRopeTable({.theta = 100}, 4, 11, 0);
  EXPECT_EQ(table.half_width, 2);
  EXPECT_FLOAT_EQ(table.cos[2 * 10 + 1], 0.540302306f);  // cos(1)
  EXPECT_FLOAT_EQ(table.sin[2 * 1 + 0], 0.841470985f);   // sin(1)
}

// Two scalings in one model: the rope length determines both.
TEST(RopeTest, RopeLengthOfSeveral) {
  ModelConfig config;
  EXPECT_EQ(RopeLength(config.ropes, 1000), 0);
  config.ropes = {{.kind = RopeKind::kLongRope, .original_max_position = 50}, {.kind = RopeKind::kDefault}};
  EXPECT_EQ(RopeLength(config.ropes, 40), 0);
  EXPECT_EQ(RopeLength(config.ropes, 1000), 51);
  config.ropes[1] = {.kind = RopeKind::kDynamic, .factor = 2, .original_max_position = 100};
  EXPECT_EQ(RopeLength(config.ropes, 70), 51);
  EXPECT_EQ(RopeLength(config.ropes, 150), 150);
}

// The text that is part of the prefix cache's key differs for parameters that differ in the last bit.
TEST(RopeTest, TextIsUnique) {
  const RopeConfig plain{.theta = 1e6};
  RopeConfig other = plain;
  other.theta = std::nextafter(1e6, 2e6);
  EXPECT_EQ(plain.ToString(), "default theta=1000000");
  EXPECT_NE(plain.ToString(), other.ToString());
  RopeConfig longrope{.kind = RopeKind::kLongRope, .short_factors = {1, 2}, .long_factors = {3, 4}};
  const std::string text = longrope.ToString();
  longrope.long_factors[1] = std::nextafter(4, 5);
  EXPECT_NE(longrope.ToString(), text);
  longrope = {.kind = RopeKind::kLongRope, .short_factors = {1}, .long_factors = {2, 3, 4}};
  EXPECT_NE(longrope.ToString(), text);
}

}  // namespace
}  // namespace varifocal

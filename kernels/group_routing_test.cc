#include "kernels/group_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/conformance/test_harness.h"

namespace varifocal::kernels {
namespace {

// Groups in descending order of score / temperature + bias, the lower group first among equals.
TEST(TopGroupsTest, TakesTheLargestAndTheLowerGroupOfATie) {
  constexpr float kTemperature = 0.1f;
  for (const int count : {1, 3, 8, 32}) {
    for (int trial = 0; trial < 200; ++trial) {
      // Whole numbers from -2 to 2, many of them equal, and zeros of both signs.
      std::vector<float> scores = UniformVector(trial, count, 2.5f), bias = UniformVector(1000 + trial, count, 1.5f);
      for (float& x : scores) x = std::trunc(x);
      for (float& x : bias) x = trial % 2 == 0 ? std::trunc(x) : -0.0f;
      std::vector<int> order(count);
      for (int g = 0; g < count; ++g) order[g] = g;
      const auto rank = [&](int g) { return static_cast<double>(scores[g]) / kTemperature + bias[g]; };
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) > rank(b); });
      uint32_t expected = 0;
      for (int top_k = 1; top_k <= count; ++top_k) {
        expected |= 1u << order[top_k - 1];
        EXPECT_EQ(TopGroups(scores, kTemperature, bias, top_k), expected) << count << " groups, trial " << trial;
      }
    }
  }
}

}  // namespace
}  // namespace varifocal::kernels

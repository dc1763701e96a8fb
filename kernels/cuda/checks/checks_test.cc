// Runs the table of checks.h, one test each; see the files named there for what is tested and how.

#include "kernels/cuda/checks/checks.h"

#include <gtest/gtest.h>

#include <cctype>

namespace varifocal::kernels::cuda {
namespace {

const std::vector<NamedCheck>& Checks() {
  static const std::vector<NamedCheck> checks = AllChecks();
  return checks;
}

std::vector<size_t> ChecksWhere(bool is_slow) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < Checks().size(); ++i) {
    if (Checks()[i].is_slow == is_slow) indices.push_back(i);
  }
  return indices;
}

class Cuda : public testing::TestWithParam<size_t> {};

TEST_P(Cuda, Holds) {
  const std::string verdict = Checks()[GetParam()].run();
  if (verdict.rfind(kSkipped, 0) == 0) GTEST_SKIP() << verdict;
  EXPECT_EQ(verdict, "");
}

std::string Name(const testing::TestParamInfo<size_t>& info) {
  std::string name = Checks()[info.param].name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Cuda, testing::ValuesIn(ChecksWhere(false)), Name);
INSTANTIATE_TEST_SUITE_P(Full, Cuda, testing::ValuesIn(ChecksWhere(true)), Name);

}  // namespace
}  // namespace varifocal::kernels::cuda

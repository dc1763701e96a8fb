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

class Cuda : public testing::TestWithParam<size_t> {};

TEST_P(Cuda, Holds) {
  const std::string verdict = Checks()[GetParam()].run();
  if (verdict.rfind(kSkipped, 0) == 0) GTEST_SKIP() << verdict;
  EXPECT_EQ(verdict, "");
}

INSTANTIATE_TEST_SUITE_P(All, Cuda, testing::Range<size_t>(0, Checks().size()), [](const auto& info) {
  std::string name = Checks()[info.param].name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace varifocal::kernels::cuda

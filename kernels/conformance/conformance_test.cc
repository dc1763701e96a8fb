// Every backend configuration of this machine against the float64 reference, for every row of the conformance table.
//
// Suite `All` is a covering design: every case in every number format and by every instruction set, and of cases that are a
// product every pair of levels. Suite `Full`, with the label `slow`, is what is left of all cases on all backends.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

// Created once: every test runs in a separate process, which lists all of them.
const std::vector<ConformanceCase>& Cases() {
  static const std::vector<ConformanceCase> cases = AllCases();
  return cases;
}
const std::vector<TestedBackend>& Backends() {
  static const std::vector<TestedBackend> backends = TestedBackends();
  return backends;
}
const std::vector<size_t>& Design() {
  static const std::vector<size_t> design = CoveringDesign(LevelsOnBackends(Cases(), Backends()));
  return design;
}
std::vector<size_t> OutsideDesign() {
  std::vector<size_t> others;
  for (size_t i = 0; i < Backends().size() * Cases().size(); ++i) {
    if (!std::binary_search(Design().begin(), Design().end(), i)) others.push_back(i);
  }
  return others;
}

const TestedBackend& BackendOf(size_t index) { return Backends()[index / Cases().size()]; }
const ConformanceCase& CaseOf(size_t index) { return Cases()[index % Cases().size()]; }

class Conformance : public testing::TestWithParam<size_t> {};

TEST_P(Conformance, Holds) {
  const BackendOptions& options = BackendOf(GetParam()).options;
  const ConformanceCase& c = CaseOf(GetParam());
  auto tested = CreateBackend(options);
  ASSERT_TRUE(tested.ok()) << tested.error().message;
  auto oracle = MakeOracle(options.dtype);
  if (!IsSupportedBy(c, **tested)) GTEST_SKIP() << "the backend has no kernel for this head dim";
  EXPECT_EQ(c.check(**tested, *oracle), "");
}

std::string Name(const testing::TestParamInfo<size_t>& info) {
  std::string name = BackendOf(info.param).name + "_" + CaseOf(info.param).name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(Design()), Name);
INSTANTIATE_TEST_SUITE_P(Full, Conformance, testing::ValuesIn(OutsideDesign()), Name);

}  // namespace
}  // namespace varifocal::kernels

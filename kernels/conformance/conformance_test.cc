// Every backend configuration of this machine against the float64 reference, for every row of the conformance table.

#include <gtest/gtest.h>

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

class Conformance : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(Conformance, Holds) {
  const BackendOptions& options = Backends()[std::get<0>(GetParam())].options;
  const ConformanceCase& c = Cases()[std::get<1>(GetParam())];
  auto tested = CreateBackend(options);
  ASSERT_TRUE(tested.ok()) << tested.error().message;
  auto oracle = MakeOracle(options.dtype);
  if (!IsSupportedBy(c, **tested)) GTEST_SKIP() << "the backend has no kernel for this head dim";
  EXPECT_EQ(c.check(**tested, *oracle), "");
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::Range<size_t>(0, Backends().size()),
                                          testing::Range<size_t>(0, Cases().size())),
                         [](const auto& info) {
                           std::string name =
                               Backends()[std::get<0>(info.param)].name + "_" + Cases()[std::get<1>(info.param)].name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace varifocal::kernels

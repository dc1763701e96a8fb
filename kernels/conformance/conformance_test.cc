// Every backend this machine can run, through every row of the conformance table, against the float64 reference.

#include <gtest/gtest.h>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

class Conformance : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(Conformance, Holds) {
  static const std::vector<ConformanceCase> cases = AllCases();
  static const std::vector<TestedBackend> backends = TestedBackends();
  const auto& [backend_index, case_index] = GetParam();
  auto tested = CreateBackend(backends[backend_index].options);
  ASSERT_TRUE(tested.ok()) << tested.error().message;
  auto oracle = MakeOracle(backends[backend_index].options.dtype);
  if (!CanBeAsked(cases[case_index], **tested)) GTEST_SKIP() << "the backend has no kernel for this head dim";
  EXPECT_EQ(cases[case_index].check(**tested, *oracle), "");
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::Range<size_t>(0, TestedBackends().size()),
                                          testing::Range<size_t>(0, AllCases().size())),
                         [](const auto& info) {
                           std::string name = TestedBackends()[std::get<0>(info.param)].name + "_" +
                                              AllCases()[std::get<1>(info.param)].name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace varifocal::kernels

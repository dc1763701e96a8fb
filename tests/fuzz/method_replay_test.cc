// Mutated requests of every method: fields changed by reflection, and in a third of the calls bytes of the message too.
#include <string>

#include "gtest/gtest.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/fuzz/method_target.h"
#include "tests/fuzz/mutate_bytes.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

class MethodTest : public testing::TestWithParam<ServiceMethod> {};

TEST_P(MethodTest, MutatedRequestsGetAStatusOfTheApi) {
  const ServiceMethod& method = GetParam();
  const std::string accepted = method.request->SerializeAsString();
  const int code = CallMethod(method, accepted);
  // OK, a cancelled watch, no such job, or a job that has already ended.
  EXPECT_TRUE(code == 0 || code == 1 || code == 5 || code == 9) << code;
  int64_t ok_count = 0;
  for (Trials trials("calls", {.quick = 150, .full = 20'000}); trials.Next();) {
    Random random = trials.MakeRandom();
    const std::unique_ptr<google::protobuf::Message> request(method.request->New());
    request->CopyFrom(*method.request);
    for (uint64_t i = 0; i < 1 + random.Below(6); ++i) MutateMessage(*request, random);
    std::string bytes = request->SerializePartialAsString();
    if (random.Below(3) == 0) bytes = MutateBytes(std::move(bytes), random);
    ok_count += CallMethod(method, bytes) == 0;
    if (trials.index() % 50 == 49) CheckServing();
  }
  CheckServing();
  PrintMeasured(method.name + ": " + std::to_string(ok_count) + " accepted");
}

INSTANTIATE_TEST_SUITE_P(Every, MethodTest, testing::ValuesIn(ServiceMethods()),
                         [](const auto& info) { return info.param.name.substr(info.param.name.rfind('/') + 1); });

}  // namespace
}  // namespace varifocal

// Layers with a recurrent state, and layers that differ in heads, on an emulated device: the same bits in chunks, in a batch,
// on a cached prefix and from copies of pages. One golden checkpoint of every form.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/cuda_testing.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

class CudaStatesTest : public testing::TestWithParam<const char*> {};

TEST_P(CudaStatesTest, SameBitsInChunksInCompanyAndOnACachedPrefix) {
  EmulatedDevice device;
  const EngineOptions whole{.prefill_chunk_tokens = 512, .batch_size_max = 1, .kv_cache_bytes = 1 << 20};
  const auto in_chunks = device.Start(GetParam()), in_one_step = device.Start(GetParam(), whole);
  const EngineRequest requests[] = {Generate("a", 200), Generate("b", 140), Generate("c", 3)};
  std::vector<std::future<std::string>> together;
  for (const EngineRequest& request : requests) {
    auto done = std::make_shared<std::promise<std::string>>();
    together.push_back(done->get_future());
    const EngineCallbacks callbacks{.on_done = [done](auto result) { done->set_value(AnswerBits(result)); }};
    ASSERT_TRUE(in_chunks->Start(request, callbacks).ok());
  }
  for (size_t i = 0; i < together.size(); ++i) {
    const std::string alone = AnswerBits(in_one_step->Run(requests[i]));
    EXPECT_EQ(together[i].get(), alone) << i;
    const auto again = in_chunks->Run(requests[i]);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->cached_token_count, i < 2 ? 128 : 0) << i;
    EXPECT_EQ(AnswerBits(again), alone) << i;
  }
}

TEST_P(CudaStatesTest, ContinuationsBeginFromCopies) {
  EmulatedDevice device;
  const auto engine = device.Start(GetParam());
  EngineRequest both{.token_ids = RandomIds("context", 150), .work = ScoreContinuationsWork{}};
  auto& continuations = std::get<ScoreContinuationsWork>(both.work).continuations;
  for (int i = 0; i < 2; ++i) continuations.push_back(RandomIds(absl::StrCat("c", i), 5 + i));
  const int copies = device.machine->calls["CopyOnDevice"];
  ASSIGN_OR_FAIL(const auto all, engine->Run(both));
  EXPECT_GT(device.machine->calls["CopyOnDevice"], copies);
  for (size_t i = 0; i < continuations.size(); ++i) {
    EngineRequest one = both;
    std::get<ScoreContinuationsWork>(one.work).continuations = {continuations[i]};
    engine->DropPrefixCache();
    ASSIGN_OR_FAIL(const auto single, engine->Run(one));
    EXPECT_EQ(single.continuations[0].token_log_probs, all.continuations[i].token_log_probs) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaStatesTest,
                         testing::Values("architectures/lfm2-newer", "architectures/qwen3-next",
                                         "architectures/granitemoehybrid-dense", "architectures/falcon-h1-normed",
                                         "architectures/gemma4-shared", "architectures/gemma4-experts",
                                         "architectures/gemma3n-shared"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                           return name;
                         });

TEST(CudaStatesTest, KeysWithoutRegistersAreRefused) {
  EmulatedDevice device;
  const auto refused = [&](int key_dim) {
    const kernels::KvShape shape{.layer_count = 1,
                                 .recurrence = {.kind = kernels::RecurrenceKind::kDeltaRule,
                                                .conv_width = 4,
                                                .key_head_count = 1,
                                                .value_head_count = 1,
                                                .key_dim = key_dim,
                                                .value_dim = 8}};
    return device.options.backend->CreateKvPool(shape, 1).error();
  };
  EXPECT_EQ(refused(257).code, kernels::ErrorCode::kUnsupported);
  EXPECT_THAT(refused(257).message, Message("257", "256"));
  EXPECT_TRUE(
      device.options.backend
          ->CheckShape({.layer_count = 1, .recurrence = {.kind = kernels::RecurrenceKind::kStateSpace, .key_dim = 256}})
          .ok());
}

}  // namespace
}  // namespace varifocal

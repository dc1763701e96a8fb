// Turns of several engines on an emulated CUDA device: the same bits, the number and the order of events, and the rows of a
// prompt's steps. Method: tiny golden checkpoints, as in cuda_engine_test.cc; the device counts calls of its runtime.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "server/engine/cuda_testing.h"
#include "server/engine/step_plan.h"

namespace varifocal {
namespace {

constexpr char kSmallModel[] = "tied-d16-f32";

// Two engines of one device take turns, with and without graphs, and their answers have the bits that each has alone. Here
// prompts of some engines meet tokens of others.
TEST(CudaTurnsTest, TurnsChangeNoBits) {
  for (const bool graphs : {false, true}) {
    EmulatedDevice device(graphs);
    const auto prompts = device.Start(kSmallModel), tokens = device.Start("llama3-rope-d64-f32"),
               other_prompts = device.Start("architectures/qwen3-next");
    EngineRequest long_prompt = Generate("long", 300), generating = Generate("short", 20);
    std::get<GenerateWork>(generating.work).max_new_tokens = 24;
    const std::string of_prompt = AnswerBits(prompts->Run(long_prompt)),
                      of_tokens = AnswerBits(tokens->Run(generating)),
                      of_other = AnswerBits(other_prompts->Run(long_prompt));
    std::atomic<bool> is_done{false};
    std::thread generation([&] {
      while (!is_done) EXPECT_EQ(AnswerBits(tokens->Run(generating)), of_tokens);
    });
    std::thread other([&] {
      other_prompts->DropPrefixCache();
      EXPECT_EQ(AnswerBits(other_prompts->Run(long_prompt)), of_other);
    });
    for (int i = 0; i < 3; ++i) {
      prompts->DropPrefixCache();
      EXPECT_EQ(AnswerBits(prompts->Run(long_prompt)), of_prompt);
    }
    other.join();
    is_done = true;
    generation.join();
    EXPECT_GT(device.machine->calls["FollowMark"], 10);
    EXPECT_EQ(device.machine->calls["UseStream"], device.machine->calls["UseOwnStream"]);
  }
}

// Beside an engine that has generated: a prompt's step has two pieces a layer and what comes after the last, each with an event;
// a decode step has one, before the host waits for its token.
TEST(CudaTurnsTest, EventsOfTurns) {
  constexpr int kLayers = 2, kSteps = 3;
  for (const bool graphs : {false, true}) {
    EmulatedDevice device(graphs);
    const auto prompts = device.Start(kSmallModel), tokens = device.Start("llama3-rope-d64-f32");
    ASSERT_TRUE(tokens->Run(Generate("tokens", 20)).ok());
    std::map<std::string, int>& calls = device.machine->calls;
    const auto events = [&] { return calls["Mark"] - calls["CopyToDevice"]; };  // without those of uploads
    std::vector<int> when_waiting;
    const int before = events(), streams = calls["UseStream"];
    device.machine->before = [&](const std::string& call) {
      if (call == "Synchronize") when_waiting.push_back(events() - before);
    };
    ASSERT_TRUE(prompts->Run(Generate("prompt", 40)).ok());
    device.machine->before = nullptr;
    const int pieces = 2 * kLayers + 1;
    EXPECT_THAT(when_waiting, testing::ElementsAre(pieces, pieces + 1, pieces + 2, pieces + kSteps));
    EXPECT_EQ(calls["UseStream"] - streams, kSteps);
  }
}

// One engine alone has no events but those of its uploads, and none of its calls waits for another engine.
TEST(CudaTurnsTest, AnEngineAloneTakesNoTurns) {
  EmulatedDevice device;
  const auto engine = device.Start(kSmallModel);
  for (const size_t length : {300, 20}) ASSERT_TRUE(engine->Run(Generate("alone", length)).ok());
  std::map<std::string, int>& calls = device.machine->calls;
  EXPECT_EQ(calls["FollowMark"] + calls["UseStream"] + calls["UseOwnStream"], 0);
  EXPECT_EQ(calls["Mark"], calls["CopyToDevice"]);
  EXPECT_EQ(calls["WaitMark"], calls["CopyToDevice"]);
  // A prompt of five chunks and one of one, and three tokens each: a wait where a token is read.
  const int synchronized = calls["Synchronize"];
  engine->DropPrefixCache();
  ASSERT_TRUE(engine->Run(Generate("alone", 300)).ok());
  EXPECT_EQ(calls["Synchronize"] - synchronized, 4);
}

// While another engine generates, a prompt's steps have fewer rows on a device that would take long for them; the same bits.
TEST(CudaTurnsTest, ChunksShrinkBesideAnEngineThatGenerates) {
  EmulatedDevice slow(false, 1e9);
  EngineOptions options{.prefill_chunk_tokens = 512, .batch_size_max = 4, .kv_cache_bytes = 4 << 20};
  std::vector<int64_t> rows;
  options.test_only_alter_plan = [&](StepPlan& plan) {
    if (plan.phase == kernels::Phase::kPrefill) rows.push_back(std::ssize(plan.tokens));
  };
  const auto prompts = slow.Start(kSmallModel, options);
  const EngineRequest request = Generate("chunks", 300);
  const std::string alone = AnswerBits(prompts->Run(request));
  EXPECT_THAT(rows, testing::ElementsAre(300));
  const auto tokens = slow.Start(kSmallModel);
  ASSERT_TRUE(tokens->Run(Generate("tokens", 20)).ok());
  rows.clear();
  prompts->DropPrefixCache();
  EXPECT_EQ(AnswerBits(prompts->Run(request)), alone);
  EXPECT_THAT(rows, testing::ElementsAre(128, 128, 44));
}

}  // namespace
}  // namespace varifocal

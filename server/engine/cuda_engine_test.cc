// The engine on an emulated CUDA device: results close to those of the CPU, the same bits batched and alone, weights
// that are resident once, and all failures of a device. Method: tiny golden checkpoints on the real backend over
// kernels/cuda/emulator, with fault injection.
#include <gmock/gmock.h>

#include <cmath>
#include <future>

#include "base/files.h"
#include "base/json.h"
#include "base/reason.h"
#include "kernels/cuda/emulator/fibers.h"
#include "server/engine/cuda_testing.h"
#include "server/engine/memory_ledger.h"
#include "server/model/transformer.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kGolden[] = "tied-d16-f32";
constexpr int kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaIllegalAddress = 700;

TEST(CudaEngineTest, ResultsAreCloseToTheCpu) {
  EmulatedDevice device;
  const auto on_device = device.Start(kGolden);
  const auto on_host = StartEngine(LoadForTest(GoldenDirectory(kGolden), {.device = "cpu", .dtype = "bf16"}));
  EXPECT_EQ(on_device->model().provenance().backend, "cuda");
  const EngineRequest text{.token_ids = RandomIds("text", 150), .work = ScoreTextWork{}};
  const auto here = on_host->Run(text), there = on_device->Run(text);
  ASSERT_TRUE(there.ok()) << there.status();
  // Both round to 2^-8 at each of some twenty products of two layers, at different points; logits are up to 5 in size, so
  // errors of independent roundings add up to 5 sqrt(2 * 20) 2^-8 = 0.12. Another text differs by 7 on average.
  for (size_t i = 1; i < 150; ++i) EXPECT_NEAR(*there->token_log_probs[i], *here->token_log_probs[i], 0.12) << i;
  // A draw is the same unless a boundary is between two roundings.
  int same = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EngineRequest drawn = Generate("drawn", 10, 1.0, seed);
    std::get<GenerateWork>(drawn.work).max_new_tokens = 1;
    const auto a = on_host->Run(drawn), b = on_device->Run(drawn);
    ASSERT_TRUE(b.ok()) << b.status();
    same += a->new_token_ids[0] == b->new_token_ids[0];
  }
  EXPECT_GE(same, 17) << "of 20 draws";
}

// Draws and continuations give the same bits batched and alone;
// branches from a partial page use a copy.
class BatchedOnCudaTest : public testing::TestWithParam<const char*> {};

TEST_P(BatchedOnCudaTest, SameBits) {
  EmulatedDevice device;
  const auto engine = device.Start(GetParam());
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Generate(absl::StrCat("p", i), 40 + 50 * i, 0.8, i));
  requests.push_back({.token_ids = RandomIds("context", 100), .work = ScoreContinuationsWork{}});
  auto& work = std::get<ScoreContinuationsWork>(requests.back().work);
  for (int i = 0; i < 3; ++i) work.continuations.push_back(RandomIds(absl::StrCat("c", i), 5 + i));
  std::vector<std::string> alone;
  for (const EngineRequest& request : requests) alone.push_back(AnswerBits(engine->Run(request)));
  EXPECT_GE(device.machine->calls["CopyOnDevice"], 2) << "continuations were batched";
  for (size_t i = 0; i < work.continuations.size(); ++i) {
    EngineRequest one = requests.back();
    std::get<ScoreContinuationsWork>(one.work).continuations = {work.continuations[i]};
    const auto single = engine->Run(one), all = engine->Run(requests.back());
    ASSERT_TRUE(single.ok() && all.ok());
    EXPECT_EQ(single->continuations[0].token_log_probs, all->continuations[i].token_log_probs);
  }
  std::vector<std::future<absl::StatusOr<EngineResult>>> together;
  for (const EngineRequest& request : requests) {
    auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
    together.push_back(done->get_future());
    ASSERT_TRUE(engine->Start(request, {.on_done = [done](auto result) { done->set_value(std::move(result)); }}).ok());
  }
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(AnswerBits(together[i].get()), alone[i]) << i;
}

constexpr const char* kBatchedNames[] = {"llama", "experts", "shared_pages", "experts_beside_mlp", "streams"};
INSTANTIATE_TEST_SUITE_P(CudaEngineTest, BatchedOnCudaTest,
                         testing::Values(kGolden, "architectures/qwen3-moe", "architectures/gemma4-shared",
                                         "architectures/gemma4-experts", "architectures/gemma3n-shared"),
                         [](const auto& info) { return kBatchedNames[info.index]; });

// A golden checkpoint of head dim 8 as one of 16, which the backend has: the same tensors, half as many heads.
class WideHeads : public TemporaryCheckpoint {
 public:
  explicit WideHeads(const std::string& golden, const std::string& name) : TemporaryCheckpoint(golden, name) {
    EditConfig("num_attention_heads", 2);
    EditConfig("num_key_value_heads", 1);
  }
};

// Learned groups whose every pair is visible give the bits of dense attention.
TEST(CudaEngineTest, FocusOverEveryPairIsDenseAttentionBitForBit) {
  for (const auto& [golden, group_count] : {std::pair{"focus/llama-calibrated", 8}, {"focus/llama-paged", 4}}) {
    const WideHeads with_groups(golden, "cuda_focus"), without(golden, "cuda_dense");
    RemoveFocus(without);
    EmulatedDevice device;
    const auto dense = device.Start(without.directory()), focus = device.Start(with_groups.directory());
    EngineRequest request = Generate("dense", 150);
    const std::string answer = ComputedBits(dense->Run(request));
    for (const auto& [top_k, window] : {std::pair{group_count, 3}, {group_count / 2 + 1, 0}, {1, 400}}) {
      request.attention_overrides = {{"focus-top-k", top_k}, {"focus-window", window}};
      EXPECT_EQ(ComputedBits(focus->Run(request)), answer) << golden << ", k = " << top_k;
    }
    // The control.
    request.attention_overrides = {{"focus-top-k", 1}, {"focus-window", 0}};
    EXPECT_NE(ComputedBits(focus->Run(request)), answer) << golden;
  }
}

// Log-probabilities of most tokens are near the host's; where a token's ranking of groups is close, rounding may give it
// others. The control: those of dense attention are elsewhere.
TEST(CudaEngineTest, FocusIsNearTheHost) {
  for (const char* golden :
       {"focus/llama-calibrated", "focus/llama-paged", "focus/llama-prompt", "focus/llama-focal-causal"}) {
    const WideHeads checkpoint(golden, "cuda_focus_near"), without(golden, "cuda_dense_near");
    RemoveFocus(without);
    EmulatedDevice device;
    const EngineRequest text{.token_ids = RandomIds("text", 200), .work = ScoreTextWork{}};
    const ModelOptions on_host{.device = "cpu", .dtype = "bf16"};
    const auto here = StartEngine(LoadForTest(checkpoint.directory(), on_host))->Run(text),
               dense = StartEngine(LoadForTest(without.directory(), on_host))->Run(text),
               there = device.Start(checkpoint.directory())->Run(text);
    ASSERT_TRUE(here.ok() && dense.ok() && there.ok()) << there.status();
    const auto near_count = [&](const EngineResult& host) {
      int count = 0;
      for (size_t i = 1; i < 200; ++i) count += std::abs(*there->token_log_probs[i] - *host.token_log_probs[i]) < 0.12;
      return count;
    };
    EXPECT_GE(near_count(*here), 160) << golden;
    EXPECT_LE(near_count(*dense), 120) << golden;
  }
}

TEST(CudaEngineTest, FocusHasTheSameBitsInChunksInCompanyAndOnACachedPrefix) {
  for (const char* golden :
       {"focus/llama-calibrated", "focus/llama-paged", "focus/llama-prompt", "focus/llama-focal-causal"}) {
    const WideHeads checkpoint(golden, "cuda_focus_bits");
    EmulatedDevice device;
    const auto in_chunks = device.Start(checkpoint.directory());
    const auto in_one_step =
        device.Start(checkpoint.directory(), {.prefill_chunk_tokens = 512, .kv_cache_bytes = 1 << 20});
    const EngineRequest requests[] = {Generate("a", 200), Generate("b", 140)};
    std::vector<std::future<absl::StatusOr<EngineResult>>> together;
    for (const EngineRequest& request : requests) {
      auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
      together.push_back(done->get_future());
      const EngineCallbacks callbacks{.on_done = [done](auto result) { done->set_value(std::move(result)); }};
      ASSERT_TRUE(in_chunks->Start(request, callbacks).ok());
    }
    for (size_t i = 0; i < together.size(); ++i) {
      const std::string alone = AnswerBits(in_one_step->Run(requests[i]));
      EXPECT_EQ(AnswerBits(together[i].get()), alone) << golden;
      const auto again = in_chunks->Run(requests[i]);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->cached_token_count, std::string(golden) == "focus/llama-prompt" ? 0 : 128) << golden;
      EXPECT_EQ(AnswerBits(again), alone) << golden;
      // Counted from the pages, those of the prefix too.
      ASSERT_TRUE(again->pairs_visible_share.has_value()) << golden;
      EXPECT_GT(*again->pairs_visible_share, 0.1) << golden;
      EXPECT_LT(*again->pairs_visible_share, 1) << golden;
      EXPECT_GE(*again->largest_group_share, 0.25) << golden;
    }
    // A continuation from a partial page uses a copy, with its groups.
    EngineRequest both{.token_ids = RandomIds("context", 150), .work = ScoreContinuationsWork{}};
    auto& continuations = std::get<ScoreContinuationsWork>(both.work).continuations;
    for (int i = 0; i < 2; ++i) continuations.push_back(RandomIds(absl::StrCat("c", i), 5 + i));
    ASSIGN_OR_FAIL(const auto all, in_chunks->Run(both));
    for (size_t i = 0; i < continuations.size(); ++i) {
      EngineRequest one = both;
      std::get<ScoreContinuationsWork>(one.work).continuations = {continuations[i]};
      ASSIGN_OR_FAIL(const auto single, in_one_step->Run(one));
      EXPECT_EQ(single.continuations[0].token_log_probs, all.continuations[i].token_log_probs) << golden;
    }
  }
}

// Rows that read lists of keys: from a position that the backend chooses, and with bits of their own.
TEST(CudaEngineTest, FocusWithGatheredKeysHasTheSameBitsInChunksInCompanyAndOnACachedPrefix) {
  const WideHeads checkpoint("focus/llama-calibrated", "cuda_focus_gathered");
  EmulatedDevice masked, gathered(false, 500e12, {.attention_kernel = "mma:focus=gathered"});
  const kernels::GatherCosts costs = gathered.options.backend->info().gather_costs;
  constexpr int kTopK = 1, kWindow = 3, kTokens = 1100;
  const int from = kernels::GatherFrom(8, kTopK, kWindow, costs);
  ASSERT_LT(from, kTokens - 64);
  const EngineOptions whole{.prefill_chunk_tokens = 1152, .kv_cache_bytes = 4 << 20};
  const EngineOptions small{.prefill_chunk_tokens = 300, .batch_size_max = 4, .kv_cache_bytes = 4 << 20};
  EngineRequest request = Generate("long", kTokens), other = Generate("short", 70);
  request.attention_overrides = other.attention_overrides = {{"focus-top-k", kTopK}, {"focus-window", kWindow}};
  const std::string alone = ComputedBits(gathered.Start(checkpoint.directory(), whole)->Run(request));
  const auto in_chunks = gathered.Start(checkpoint.directory(), small);
  auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
  ASSERT_TRUE(in_chunks->Start(other, {.on_done = [done](auto result) { done->set_value(std::move(result)); }}).ok());
  EXPECT_EQ(ComputedBits(in_chunks->Run(request)), alone);
  ASSERT_TRUE(done->get_future().get().ok());
  const auto again = in_chunks->Run(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(again->cached_token_count, from);
  EXPECT_EQ(ComputedBits(again), alone);
  // The control.
  EXPECT_NE(ComputedBits(masked.Start(checkpoint.directory(), whole)->Run(request)), alone);
}

// A checkpoint with the same matrices and another temperature shares their memory; freed with the last model.
TEST(CudaEngineTest, EqualWeightsAreResidentOnce) {
  EmulatedDevice device;
  const size_t empty = device.machine->used_bytes;
  TemporaryCheckpoint focal(kGolden, "cuda_focal"), tuned(kGolden, "cuda_tuned");
  focal.EditConfig("focal_attention", Json{{"mode", "constant"}, {"temperature", 0.7}});
  tuned.Fill("model.layers.0.mlp.down_proj.weight", 0.01f);
  {
    auto baseline = device.Start(kGolden);
    const int64_t weights = baseline->model().provenance().weight_bytes;
    EXPECT_EQ(baseline->Describe().shared_weight_bytes, 0);
    // Its first request creates the rotary tables.
    const std::string alone = AnswerBits(baseline->Run(Generate("a", 50)));
    const size_t one = device.machine->used_bytes - empty;
    auto second = device.Start(focal.directory());
    EXPECT_NE(AnswerBits(second->Run(Generate("a", 50))), alone) << "the other temperature is another model";
    const size_t two = device.machine->used_bytes - empty;
    EXPECT_EQ(two - one, one - static_cast<size_t>(weights)) << "all but the matrices once more";
    EXPECT_EQ(second->Describe().shared_weight_bytes, weights);
    EXPECT_EQ(baseline->Describe().shared_weight_bytes, weights);
    EXPECT_THAT(MemoryLedger::Get().ToString(), HasSubstr(absl::StrCat("(", weights, " shared)")));

    auto third = device.Start(tuned.directory());
    const int64_t shared = third->Describe().shared_weight_bytes;
    EXPECT_GT(shared, 0);
    EXPECT_LT(shared, weights) << "one matrix is its own";
    third.reset();

    const std::string focal_answer = AnswerBits(second->Run(Generate("b", 70)));
    baseline.reset();
    EXPECT_EQ(device.machine->used_bytes - empty, one);
    EXPECT_EQ(second->Describe().shared_weight_bytes, 0);
    second->DropPrefixCache();
    EXPECT_EQ(AnswerBits(second->Run(Generate("b", 70))), focal_answer);
  }
  EXPECT_EQ(device.machine->used_bytes, empty);
}

// The n-th call of a kind fails permanently, for every n until the request succeeds without a fault: active requests end
// UNAVAILABLE with the cause, no request starts any more or hangs; a model on another device continues.
TEST(CudaEngineTest, ALostDeviceEndsOnlyItsRequests) {
  const auto elsewhere = StartEngine(LoadForTest(GoldenDirectory(kGolden), {.device = "cpu"}));
  const std::string answer = AnswerBits(elsewhere->Run(Generate("b", 30)));
  for (const char* call : {"Synchronize", "CopyToDevice", "CopyToHost"}) {
    int faults = 0;
    for (bool untouched = false; !untouched; ++faults) {
      ASSERT_LT(faults, 500) << call;
      EmulatedDevice device;
      const auto engine = device.Start(kGolden);
      device.machine->failures[call] = {kCudaIllegalAddress, faults, 1};
      std::vector<std::future<absl::StatusOr<EngineResult>>> results;
      for (int i = 0; i < 2; ++i) {
        auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
        results.push_back(done->get_future());
        EngineRequest request = Generate(absl::StrCat("p", i), 70, 0.5 * i);
        std::get<GenerateWork>(request.work).max_new_tokens = 2;
        const auto started =
            engine->Start(request, {.on_done = [done](auto result) { done->set_value(std::move(result)); }});
        if (!started.ok()) done->set_value(started.status());  // the first request failed before
      }
      std::vector<absl::Status> ends;
      for (auto& result : results) ends.push_back(result.get().status());
      untouched = ends[0].ok() && ends[1].ok();
      if (untouched) continue;
      const absl::Status fault = engine->Fault();
      EXPECT_TRUE(absl::IsUnavailable(fault));
      EXPECT_THAT(fault, RefusedFor("DEVICE_FAULTED", Message("CUDA", "700")));
      EXPECT_THAT(std::string(fault.message()), Not(HasSubstr("\n")));
      for (const absl::Status& end : ends)
        EXPECT_TRUE(end.ok() || end == fault) << call << " " << faults << ": " << end;
      EXPECT_EQ(engine->Run(Generate("later", 10)).status(), fault);
      EXPECT_EQ(engine->Status().running_count, 0);
    }
    EXPECT_GT(faults, 3) << call;
    EXPECT_EQ(AnswerBits(elsewhere->Run(Generate("b", 30))), answer);
    EXPECT_TRUE(elsewhere->Fault().ok());
  }
}

// Out of device memory at load, at creation of a cache and during a run: each error states the memory, allocations are
// released, and the resident model continues to serve.
TEST(CudaEngineTest, OutOfMemoryLeavesOtherModelsServing) {
  EmulatedDevice device;
  const auto first = device.Start(kGolden);
  const std::string answer = AnswerBits(first->Run(Generate("a", 50)));
  const size_t used = device.machine->used_bytes;
  const auto serves = [&] {
    first->DropPrefixCache();
    return device.machine->used_bytes == used && AnswerBits(first->Run(Generate("a", 50))) == answer;
  };

  device.machine->total_bytes = used + 10000;
  const auto model = LoadModel(GoldenDirectory("llama3-rope-d64-f32"), device.options);
  EXPECT_TRUE(absl::IsResourceExhausted(model.status())) << model.status();
  EXPECT_THAT(model.status().message(), Message());
  EXPECT_TRUE(serves());

  auto again = LoadModel(GoldenDirectory(kGolden), device.options);
  ASSERT_TRUE(again.ok()) << again.status() << ": it shares its weights";
  const auto engine = Engine::Create(*std::move(again), EmulatedDevice::Small());
  EXPECT_TRUE(absl::IsResourceExhausted(engine.status())) << engine.status();
  EXPECT_THAT(engine.status().message(), Message());
  again = absl::CancelledError();
  EXPECT_TRUE(serves());

  device.machine->total_bytes = size_t{8} << 30;
  auto whole = device.Start("focal-learned-sequence", {.prefill_chunk_tokens = 32, .kv_cache_bytes = 1 << 20});
  const EngineRequest long_prompt = Generate("whole", 100);
  device.machine->failures["Allocate"] = {kCudaOutOfMemory, 0};
  const auto refused = whole->Run(long_prompt);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  device.machine->failures.clear();
  EXPECT_TRUE(whole->Fault().ok());
  EXPECT_TRUE(whole->Run(long_prompt).ok());
  whole.reset();
  EXPECT_TRUE(serves());
}

// A step as one graph has the bits of its launches one by one, while sequences start pages and splits of keys, batched and
// alone. A graph is made once for the kernels and the number of rows, and queued unchanged in most steps.
TEST(CudaEngineTest, StepsAsGraphsHaveTheSameBits) {
  struct Row {
    const char* golden;
    size_t length;
    AttentionOverrides overrides = {};
  };
  // Ministral 3 and the row below write other scales of rows for each layer: of temperatures, and of windows.
  for (const Row& row : {Row{kGolden, 1020},
                         {"focal-learned-sequence", 124},
                         {"focus/llama-paged", 122},
                         {"architectures/ministral3", 124, {{"t", {0.5, 2.0}}}},
                         {"attention/log-n-constant", 124},
                         {"architectures/lfm2-newer", 124},
                         {"architectures/gemma4-wrapped", 124},
                         {"architectures/gemma4-experts", 124},
                         {"architectures/gemma3n-wrapped", 124},
                         {"architectures/qwen3-next", 124}}) {
    EmulatedDevice one_by_one, as_graphs(true);
    const WideHeads checkpoint(row.golden, "cuda_graphs");
    const bool is_focus = std::string(row.golden).starts_with("focus");
    const std::string directory = is_focus ? checkpoint.directory() : row.golden;
    const EngineOptions options{.prefill_chunk_tokens = 256, .batch_size_max = 4, .kv_cache_bytes = 4 << 20};
    const auto expected = one_by_one.Start(directory, options), engine = as_graphs.Start(directory, options);
    std::vector<EngineRequest> requests;
    for (int i = 0; i < 3; ++i) {
      requests.push_back(Generate(absl::StrCat("graph", i), i == 0 ? row.length : 123 + i, i == 2 ? 0.8 : 0, i));
      std::get<GenerateWork>(requests.back().work).max_new_tokens = 8;
      requests.back().attention_overrides = row.overrides;
    }
    std::map<std::string, int>& calls = as_graphs.machine->calls;
    for (const EngineRequest& request : requests)
      EXPECT_EQ(AnswerBits(engine->Run(request)), AnswerBits(expected->Run(request))) << row.golden;
    EXPECT_GE(calls["QueueGraph"], 3 * 7) << row.golden;
    EXPECT_LE(calls["MakeGraph"], 2) << row.golden << ": one, and one where a page begins with a bias of its own";
    EXPECT_EQ(BitsOf(AskAll(*engine, requests)), BitsOf(AskAll(*expected, requests))) << row.golden;
    EXPECT_EQ(one_by_one.machine->calls["QueueGraph"], 0);
  }
}

TEST(CudaEngineTest, LaunchesOfAGraph) {
  EmulatedDevice device(true);
  const auto engine = device.Start(kGolden);
  std::map<std::string, int>& calls = device.machine->calls;
  EngineRequest request = Generate("one page", 20);
  std::get<GenerateWork>(request.work).max_new_tokens = 9;
  const int queued = calls["QueueGraph"];
  ASSERT_TRUE(engine->Run(request).ok());
  EXPECT_EQ(calls["QueueGraph"] - queued, 8);
  EXPECT_EQ(calls["MakeGraph"], 1);
  // The first step has another page than the warm-up's; then nothing changes.
  const int replaced = calls["ReplaceLaunch"];
  ASSERT_TRUE(engine->Run(request).ok());
  EXPECT_LE(calls["ReplaceLaunch"] - replaced, 4 * 2) << "of two layers, at the first step with these pages";
}

// A graph that the runtime refuses fails its step; the next step makes a new one.
TEST(CudaEngineTest, FailuresOfGraphs) {
  EmulatedDevice device(true);
  const auto engine = device.Start(kGolden);
  const std::string answer = AnswerBits(engine->Run(Generate("a", 126)));
  // A page begins within the answer, so launches are replaced. After a failure there is no graph to queue.
  for (const char* call : {"ReplaceLaunch", "QueueGraph"}) {
    for (const char* failing : {call, "MakeGraph"}) {
      engine->DropPrefixCache();
      device.machine->failures[failing] = {.code = kCudaInvalidValue};
      EXPECT_FALSE(engine->Run(Generate("a", 126)).ok()) << failing;
      device.machine->failures.clear();
      EXPECT_TRUE(engine->Fault().ok());
    }
    engine->DropPrefixCache();
    EXPECT_EQ(AnswerBits(engine->Run(Generate("a", 126))), answer) << call;
  }
  // Without memory for a graph its launches are queued one by one.
  for (const char* call : {"QueueGraph", "MakeGraph"}) {
    engine->DropPrefixCache();
    device.machine->failures[call] = {.code = kCudaOutOfMemory};
    EXPECT_EQ(AnswerBits(engine->Run(Generate("a", 126))), answer) << call;
    device.machine->failures.clear();
  }
}

// Unsupported head dims are rejected by name before packing.
TEST(CudaEngineTest, HeadDimsWithoutAKernelAreRejected) {
  EmulatedDevice device;
  TemporaryCheckpoint odd(kGolden, "cuda_odd");
  const size_t empty = device.machine->used_bytes;
  odd.EditConfig("head_dim", 8);
  odd.EditConfig("num_attention_heads", 8);
  odd.EditConfig("num_key_value_heads", 4);
  const auto model = LoadModel(odd.directory(), device.options);
  EXPECT_TRUE(absl::IsUnimplemented(model.status())) << model.status();
  EXPECT_THAT(model.status().message(), Message("8", "16", "32"));
  EXPECT_EQ(device.machine->used_bytes, empty);
}

}  // namespace
}  // namespace varifocal

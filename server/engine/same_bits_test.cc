// A result depends on its own request only. Every request runs once alone (fresh engine, whole-prompt chunks, no
// cache); then all of them under settings that change batch composition, arrival order, chunks, threads, cache and
// restarts. Every bit must agree. Two controls violate the guarantee by fault injection and must differ.
//
// VARIFOCAL_SAME_BITS_PROMPTS=1000 sets the number of prompts of the first case, for a long manual run;
// VARIFOCAL_SAME_BITS_ISA=avx2 selects the CPU's instruction set.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/engine/engine_testing.h"
#include "server/engine/step_plan.h"

namespace varifocal {
namespace {

// Lengths on both sides of page boundaries; half of the prompts share their first tokens with others.
// Some generations score continuations beside them. With groups some prompts are long enough to be computed by groups,
// and some requests override the number of groups.
std::vector<EngineRequest> MakeRequests(size_t prompt_count, bool temperature_may_change, bool has_groups = false) {
  constexpr size_t kLengths[] = {1, 2, 31, 127, 128, 129, 200, 255, 256, 257, 300, 384, 385, 420};
  std::vector<EngineRequest> requests;
  Random random("requests");
  for (size_t i = 0; i < prompt_count; ++i) {
    EngineRequest request;
    request.id = absl::StrCat("r", i);
    const size_t more = has_groups && i % 3 == 0 ? 600 : 0;
    std::vector<int32_t> ids = RandomIds(absl::StrCat("prompt ", i), kLengths[i % std::size(kLengths)] + more);
    if (i % 2 == 0) {
      const std::vector<int32_t> shared = RandomIds(absl::StrCat("shared ", i % 3), 300);
      std::copy_n(shared.begin(), std::min(shared.size(), ids.size() - ids.size() / 4), ids.begin());
    }
    request.token_ids = ids;
    switch (i % 4) {
      case 0:
        request.work = GenerateWork{.max_new_tokens = 9, .ignore_eos = true};
        if (i % 8 == 0) std::get<GenerateWork>(request.work).scored = {RandomIds("scored", 1 + i % 9), {5}};
        break;
      case 1:
        request.work = GenerateWork{
            .max_new_tokens = 12,
            .ignore_eos = true,
            .sampling = {.temperature = 0.9, .top_p = 0.95, .top_k = i % 8 == 1 ? 20 : 0, .min_p = i % 3 * 0.02},
            .seed = i};
        break;
      case 2: {
        ScoreContinuationsWork work;
        for (size_t c = 0; c < 4; ++c)
          work.continuations.push_back(RandomIds(absl::StrCat("continuation ", i, " ", c), 1 + random.Below(6)));
        request.work = work;
        break;
      }
      default:
        request.work = ScoreTextWork{};
    }
    if (temperature_may_change && i % 5 == 0) request.attention_overrides = RunTimeTemperature({0.7});
    if (has_groups && i % 2 == 0) request.attention_overrides.push_back({"focus-top-k", 1});
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<std::string> AnswerTogether(Engine& engine, const std::vector<EngineRequest>& requests, bool reversed,
                                        bool with_cancelled_others) {
  struct {
    Mutex mutex;
    CondVar done;
    std::vector<std::string> answers VF_GUARDED_BY(mutex);
    size_t left VF_GUARDED_BY(mutex) = 0;
  } run;
  {
    MutexLock lock(run.mutex);
    run.answers.resize(requests.size());
    run.left = requests.size();
  }
  std::vector<Engine::Handle> others;
  for (size_t n = 0; n < requests.size(); ++n) {
    const size_t i = reversed ? requests.size() - 1 - n : n;
    if (with_cancelled_others && n % 3 == 0) {
      {
        MutexLock lock(run.mutex);
        ++run.left;
      }
      others.push_back(*engine.Start({.token_ids = RandomIds(absl::StrCat("other ", n), 350),
                                      .work = GenerateWork{.max_new_tokens = 50, .ignore_eos = true}},
                                     {.on_done = [&](auto) {
                                       MutexLock lock(run.mutex);
                                       --run.left;
                                       run.done.NotifyAll();
                                     }}));
    }
    auto handle = engine.Start(requests[i], {.on_done = [&, i](const absl::StatusOr<EngineResult>& result) {
                                 MutexLock lock(run.mutex);
                                 run.answers[i] = AnswerBits(result);
                                 --run.left;
                                 run.done.NotifyAll();
                               }});
    EXPECT_TRUE(handle.ok()) << handle.status();
    if (!handle.ok()) {
      MutexLock lock(run.mutex);
      --run.left;
    }
  }
  for (const Engine::Handle other : others) engine.Cancel(other);
  MutexLock lock(run.mutex);
  run.done.Wait(run.mutex, [&]() VF_REQUIRES(run.mutex) { return run.left == 0; });
  return run.answers;
}

struct BitsSetting {
  const char* name;
  EngineOptions options;
  int threads = 0;
  bool one_by_one = false;
  bool reversed = false;
  bool twice = false;  // compares the second pass: the cache is warm
  bool cancelled_others = false;
};

int64_t CacheBytes(const LoadedModel& model, int64_t pages) { return model.provenance().page_bytes * pages; }

std::vector<BitsSetting> BitsSettings(const LoadedModel& model, int64_t few_pages) {
  return {
      {.name = "restart", .options = {}, .one_by_one = true},
      {.name = "batch of 16, cache on", .options = {.batch_size_max = 16}},
      {.name = "batch of 16, cache off", .options = {.batch_size_max = 16, .prefix_cache = false}},
      {.name = "batch of 64", .options = {.batch_size_max = 64}},
      {.name = "batch of 3, reversed", .options = {.batch_size_max = 3}, .reversed = true},
      {.name = "chunks of 1", .options = {.prefill_chunk_tokens = 1, .batch_size_max = 4}},
      {.name = "chunks of 37", .options = {.prefill_chunk_tokens = 37}},
      {.name = "chunks of 128, warm cache",
       .options = {.prefill_chunk_tokens = 128, .kv_cache_bytes = CacheBytes(model, 300)},
       .twice = true},
      {.name = "chunks of 1000, warm cache, one by one",
       .options = {.prefill_chunk_tokens = 1000, .kv_cache_bytes = CacheBytes(model, 300)},
       .one_by_one = true,
       .twice = true},
      {.name = "one thread", .options = {.prefill_chunk_tokens = 200}, .threads = 1},
      {.name = "two threads", .options = {.prefill_chunk_tokens = 200}, .threads = 2},
      {.name = "cancelled requests in the batch", .options = {.prefill_chunk_tokens = 64}, .cancelled_others = true},
      {.name = "few pages", .options = {.prefill_chunk_tokens = 64, .kv_cache_bytes = CacheBytes(model, few_pages)}},
  };
}

size_t Differences(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

constexpr size_t kFirstCasePrompts = 84;

struct Case {
  const char* golden;
  const char* device;
  const char* dtype;
  size_t prompt_count;
};

class SameBitsTest : public testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<const LoadedModel> Load(int threads = 0) {
    return LoadForTest(GoldenDirectory(GetParam().golden),
                       {.device = GetParam().device, .dtype = GetParam().dtype, .cpu_isa = Isa(), .threads = threads});
  }
  std::vector<std::string> Alone(const std::vector<EngineRequest>& requests) {
    std::vector<std::string> answers;
    auto engine = StartEngine(Load(), {.prefill_chunk_tokens = 4096, .batch_size_max = 1, .prefix_cache = false});
    for (const EngineRequest& request : requests) answers.push_back(AnswerBits(engine->Run(request)));
    return answers;
  }
  static std::string Isa() {
    const char* asked = std::getenv("VARIFOCAL_SAME_BITS_ISA");
    return asked != nullptr && std::string(GetParam().device) != "reference" ? asked : "";
  }
  std::string golden() const { return GetParam().golden; }
  bool whole_prompt() const { return golden() == "focal-learned-sequence" || golden() == "focus/llama-prompt"; }
  bool learned() const {
    return golden().find("learned") != std::string::npos || golden() == "focus/llama-focal-causal";
  }
  bool has_groups() const { return golden().starts_with("focus/"); }
};

TEST_P(SameBitsTest, ForAllSettings) {
  size_t prompt_count = GetParam().prompt_count;
  const char* asked = std::getenv("VARIFOCAL_SAME_BITS_PROMPTS");
  if (asked != nullptr && prompt_count == kFirstCasePrompts) prompt_count = std::atoll(asked);
  const std::vector<EngineRequest> requests = MakeRequests(prompt_count, !learned(), has_groups());
  const std::vector<std::string> alone = Alone(requests);
  size_t compared = 0, differences = 0;
  for (const BitsSetting& setting : BitsSettings(*Load(), has_groups() ? 12 : 6)) {
    // A whole prompt in one step needs more memory than a few pages.
    if (whole_prompt() && std::string(setting.name) == "few pages") continue;
    auto engine = StartEngine(Load(setting.threads), setting.options);
    for (int pass = 0; pass < (setting.twice ? 2 : 1); ++pass) {
      std::vector<std::string> answers;
      if (setting.one_by_one) {
        for (const EngineRequest& request : requests) answers.push_back(AnswerBits(engine->Run(request)));
      } else {
        answers = AnswerTogether(*engine, requests, setting.reversed, setting.cancelled_others);
      }
      const size_t found = Differences(alone, answers);
      EXPECT_EQ(found, 0u) << setting.name << ", pass " << pass;
      differences += found;
      compared += answers.size();
    }
    const EngineStatus status = engine->Status();
    EXPECT_EQ(status.pages_used, 0) << setting.name;
    if (setting.twice && !whole_prompt()) {
      EXPECT_GT(status.cached_tokens, 0) << setting.name;
    }
  }
  std::printf("same bits: %s on %s %s: %zu prompts, %zu answers compared, %zu differences\n", GetParam().golden,
              GetParam().device, GetParam().dtype, requests.size(), compared, differences);
}

// Scored continuations change no bit of the generation, and have the bits of being scored alone.
TEST_P(SameBitsTest, ScoredBesideGeneration) {
  auto model = Load();
  auto engine = StartEngine(model);
  auto small_chunks = StartEngine(model, {.prefill_chunk_tokens = 3, .batch_size_max = 2});
  for (const size_t length : {1, 127, 128, 250}) {
    for (const double temperature : {0.0, 0.8}) {
      EngineRequest request{.token_ids = RandomIds(absl::StrCat("beside ", length), length)};
      GenerateWork work{.max_new_tokens = 12, .ignore_eos = true, .sampling = {.temperature = temperature}};
      request.work = work;
      const auto plain = engine->Run(request);
      work.scored = {RandomIds("gold", 7), {3}, RandomIds("other", 12)};
      request.work = ScoreContinuationsWork{work.scored};
      const auto alone = engine->Run(request);
      request.work = work;
      for (Engine* each : {engine.get(), small_chunks.get()}) {
        auto both = each->Run(request);
        ASSERT_TRUE(plain.ok() && alone.ok() && both.ok()) << both.status();
        ASSERT_EQ(both->continuations.size(), 3u);
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(both->continuations[i].token_log_probs, alone->continuations[i].token_log_probs) << length;
          EXPECT_EQ(both->continuations[i].is_greedy, alone->continuations[i].is_greedy);
        }
        // Shares are of the rows that were computed.
        if (both->cached_token_count == plain->cached_token_count) {
          EXPECT_EQ(both->tau_at_min_share, plain->tau_at_min_share);
        }
        EXPECT_EQ(both->extrapolated, plain->extrapolated);
        both->continuations.clear();
        both->log_likelihood = 0;
        EXPECT_EQ(AnswerBits(both), AnswerBits(plain)) << length;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SameBitsTest,
    testing::Values(
        Case{"tied-d16-f32", "auto", "f32", kFirstCasePrompts}, Case{"focal-per-layer", "auto", "f32", 42},
        Case{"focal-learned-causal", "auto", "f32", 42}, Case{"focal-learned-token", "auto", "f32", 28},
        Case{"focal-learned-sequence", "auto", "f32", 28}, Case{"tied-d16-f32", "reference", "f32", 14},
        Case{"sharded-d16-bf16", "auto", "bf16", 42}, Case{"focal-learned-causal", "auto", "bf16", 28},
        Case{"architectures/gemma3-newer", "auto", "f32", 42}, Case{"architectures/gemma3-newer", "auto", "bf16", 28},
        Case{"architectures/mistral-window", "auto", "f32", 42},
        Case{"architectures/qwen3-layer-types", "auto", "f32", 28}, Case{"attention/log-n-constant", "auto", "f32", 28},
        Case{"attention/log-n-learned", "auto", "bf16", 28}, Case{"attention/sink-learned", "auto", "f32", 28},
        Case{"attention/sink-capped", "auto", "bf16", 28}, Case{"architectures/llama-dynamic", "auto", "f32", 28},
        Case{"architectures/ministral3", "auto", "f32", 28}, Case{"architectures/ministral3", "auto", "bf16", 28},
        Case{"architectures/exaone4-hybrid", "auto", "f32", 28}, Case{"architectures/olmo3-older", "auto", "f32", 28},
        Case{"architectures/cohere2", "auto", "f32", 28}, Case{"architectures/smollm3-newer", "auto", "f32", 28},
        Case{"architectures/qwen3-moe", "auto", "f32", 42}, Case{"architectures/qwen3-moe", "auto", "bf16", 28},
        Case{"architectures/olmoe", "auto", "f32", 28}, Case{"architectures/mixtral", "auto", "f32", 28},
        Case{"architectures/qwen2-moe", "auto", "f32", 28}, Case{"architectures/qwen2-moe", "auto", "bf16", 28},
        Case{"architectures/qwen3-next", "auto", "f32", 42}, Case{"architectures/qwen3-next", "auto", "bf16", 28},
        Case{"architectures/qwen3-next", "reference", "f32", 14}, Case{"architectures/qwen3-5", "auto", "f32", 42},
        Case{"architectures/qwen3-5", "auto", "bf16", 28}, Case{"architectures/granitemoe", "auto", "f32", 28},
        Case{"architectures/granitemoehybrid", "auto", "f32", 42},
        Case{"architectures/granitemoehybrid", "auto", "bf16", 28},
        Case{"architectures/granitemoehybrid", "reference", "f32", 14},
        Case{"architectures/falcon-h1", "auto", "f32", 28}, Case{"architectures/bamba", "auto", "f32", 28},
        Case{"architectures/nemotron-h", "auto", "f32", 28}, Case{"architectures/nemotron-h-older", "auto", "bf16", 28},
        Case{"architectures/gemma3n", "auto", "f32", 28}, Case{"architectures/gemma3n-shared", "auto", "f32", 42},
        Case{"architectures/gemma3n-shared", "auto", "bf16", 28},
        Case{"architectures/gemma3n-shared", "reference", "f32", 14}, Case{"architectures/gemma4", "auto", "f32", 28},
        Case{"architectures/gemma4-shared", "auto", "f32", 42}, Case{"architectures/gemma4-shared", "auto", "bf16", 28},
        Case{"architectures/gemma4-shared", "reference", "f32", 14},
        Case{"architectures/gemma4-experts", "auto", "f32", 28},
        Case{"architectures/gemma4-experts", "auto", "bf16", 28},
        Case{"architectures/nemotron-h-groups", "auto", "f32", 28},
        Case{"architectures/deepseek-v3", "auto", "f32", 42}, Case{"architectures/deepseek-v3", "auto", "bf16", 28},
        Case{"architectures/deepseek-v2", "auto", "f32", 28}, Case{"architectures/minicpm3", "auto", "f32", 28},
        Case{"architectures/lfm2", "auto", "f32", 28}, Case{"architectures/lfm2-newer", "auto", "bf16", 28},
        Case{"architectures/gpt-oss", "auto", "f32", 42}, Case{"architectures/gpt-oss-mxfp4", "auto", "bf16", 28},
        Case{"architectures/apertus", "auto", "f32", 28}, Case{"architectures/hunyuan", "auto", "bf16", 28},
        Case{"architectures/llama-longrope", "auto", "f32", 28}, Case{"focus/llama-calibrated", "auto", "f32", 42},
        Case{"focus/llama-paged", "auto", "f32", 28}, Case{"focus/llama-prompt", "auto", "f32", 28},
        Case{"focus/llama-calibrated", "auto", "bf16", 28}, Case{"focus/llama-focal-causal", "auto", "f32", 28},
        Case{"focus/gemma3-older-layers", "auto", "f32", 28}, Case{"focus/mistral-window", "auto", "f32", 28}),
    [](const testing::TestParamInfo<Case>& info) {
      std::string name = absl::StrCat(info.param.golden, "_", info.param.device, "_", info.param.dtype);
      for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
      return name;
    });

// Long generations in a cache too small for all of them: sequences are preempted and replay. The second control,
// replaying through prefill, must differ here.
// Scored continuations reserve window pages, so that fewer sequences run at once.
std::vector<EngineRequest> LongGenerations(int64_t new_tokens, bool has_windows) {
  std::vector<EngineRequest> requests;
  for (size_t i = 0; i < 4; ++i) {
    requests.push_back(
        {.token_ids = RandomIds(absl::StrCat("long ", i), 100),
         .work = GenerateWork{
             .max_new_tokens = new_tokens, .ignore_eos = true, .sampling = {.temperature = 1}, .seed = i}});
    if (i % 2 == 0 && !has_windows) std::get<GenerateWork>(requests[i].work).scored = {RandomIds("scored", 60)};
  }
  return requests;
}

using PlanFault = std::function<void(StepPlan&)>;

// A single row takes the decode kernels even when it is prompt, several rows the prefill kernels.
void PhaseByRowCount(StepPlan& plan) {
  if (plan.whole_prompt) return;
  const bool single =
      std::all_of(plan.entries.begin(), plan.entries.end(), [](const StepEntry& e) { return e.row_count == 1; });
  plan.phase = single && plan.entries.size() == 1 ? kernels::Phase::kDecode : kernels::Phase::kPrefill;
}

// A step in which a preempted sequence recomputes generated tokens takes the prefill kernels.
void ReplayThroughPrefill(StepPlan& plan) {
  const bool replays = std::any_of(plan.entries.begin(), plan.entries.end(), [](const StepEntry& e) {
    const int64_t generated = e.sequence->result.new_token_ids.size();
    return e.sequence->prompt_finished && e.sequence->fed_count() + 1 < generated;
  });
  if (replays) plan.phase = kernels::Phase::kPrefill;
}

size_t DifferencesWhenPreempted(const PlanFault& fault, int64_t* preemption_count, const char* golden = "tied-d16-f32",
                                int64_t new_tokens = 200, int64_t pages = 7) {
  auto model = LoadForTest(GoldenDirectory(golden));
  const std::vector<EngineRequest> requests = LongGenerations(new_tokens, model->config().page_groups.size() > 1);
  std::vector<std::string> alone;
  auto roomy = StartEngine(model, {.batch_size_max = 1});
  for (const EngineRequest& request : requests) alone.push_back(AnswerBits(roomy->Run(request)));
  auto engine = StartEngine(
      model, {.batch_size_max = 4, .kv_cache_bytes = CacheBytes(*model, pages), .test_only_alter_plan = fault});
  const std::vector<std::string> answers = AnswerTogether(*engine, requests, false, false);
  *preemption_count = engine->Status().preemption_count;
  return Differences(alone, answers);
}

TEST(PreemptionTest, ReplayGivesTheSameBits) {
  int64_t preemption_count = 0;
  EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count), 0u);
  EXPECT_GT(preemption_count, 0);
}

TEST(PreemptionTest, ReplayGivesTheSameBitsWithWindows) {
  int64_t preemption_count = 0;
  // 22 pages for full layers and 12 for windows: four sequences of seven pages, at most three of them in a window.
  EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count, "architectures/gemma3-newer", 700, 17), 0u);
  EXPECT_GT(preemption_count, 0);
}

TEST(PreemptionTest, ReplayGivesTheSameBitsWithGroups) {
  int64_t preemption_count = 0;
  EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count, "focus/llama-paged", 500, 14), 0u);
  EXPECT_GT(preemption_count, 0);
}

TEST(PreemptionTest, ReplayGivesTheSameBitsWithExperts) {
  int64_t preemption_count = 0;
  EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count, "architectures/qwen3-moe"), 0u);
  EXPECT_GT(preemption_count, 0);
}

// Experts, sinks and windows.
TEST(PreemptionTest, ReplayGivesTheSameBitsOfGptOss) {
  int64_t preemption_count = 0;
  EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count, "architectures/gpt-oss", 700, 17), 0u);
  EXPECT_GT(preemption_count, 0);
}

TEST(PreemptionTest, ReplayGivesTheSameBitsWithStates) {
  for (const char* golden :
       {"architectures/qwen3-5", "architectures/granitemoehybrid", "architectures/lfm2", "architectures/nemotron-h"}) {
    int64_t preemption_count = 0;
    EXPECT_EQ(DifferencesWhenPreempted(nullptr, &preemption_count, golden, 700, 14), 0u) << golden;
    EXPECT_GT(preemption_count, 0) << golden;
  }
}

// Two sequences of one length continue from each other's states.
void SwapStates(StepPlan& plan) {
  if (plan.forward_sequences.size() != 2) return;
  ForwardSequence &a = plan.forward_sequences[0], &b = plan.forward_sequences[1];
  if (a.first_position == 0 || a.first_position != b.first_position) return;
  std::swap(a.pages.back(), b.pages.back());
}

class StateControlTest : public testing::TestWithParam<const char*> {};

TEST_P(StateControlTest, StatesOfOtherSequencesAreDetected) {
  auto model = LoadForTest(GoldenDirectory(GetParam()));
  const auto answers = [&](const PlanFault& fault) {
    auto engine = StartEngine(model, {.test_only_alter_plan = fault});
    // The engine waits within a request until both are there, so that they run in the same steps.
    std::promise<void> engine_waits, both_are_there;
    const std::shared_future<void> arrived = both_are_there.get_future().share();
    const auto wait = [&engine_waits, arrived](const auto&) {
      engine_waits.set_value();
      arrived.wait();
    };
    EXPECT_TRUE(engine
                    ->Start({.token_ids = {2}, .work = GenerateWork{.max_new_tokens = 1}},
                            {.on_progress = wait, .on_done = [](auto) {}})
                    .ok());
    engine_waits.get_future().wait();
    std::vector<std::future<std::string>> results;
    for (const char* name : {"first", "second"}) {
      auto done = std::make_shared<std::promise<std::string>>();
      results.push_back(done->get_future());
      EXPECT_TRUE(engine
                      ->Start({.token_ids = RandomIds(name, 40),
                               .work = GenerateWork{.max_new_tokens = 20, .ignore_eos = true}},
                              {.on_done = [done](auto result) { done->set_value(AnswerBits(result)); }})
                      .ok());
    }
    both_are_there.set_value();
    return std::vector<std::string>{results[0].get(), results[1].get()};
  };
  const std::vector<std::string> right = answers(nullptr);
  EXPECT_EQ(Differences(right, answers(nullptr)), 0u);
  EXPECT_EQ(Differences(right, answers(SwapStates)), 2u);
}

INSTANTIATE_TEST_SUITE_P(All, StateControlTest,
                         testing::Values("architectures/qwen3-5", "architectures/granitemoehybrid",
                                         "architectures/lfm2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                           return name;
                         });

TEST(ControlTest, ReplayThroughPrefillIsDetected) {
  int64_t preemption_count = 0;
  const size_t found = DifferencesWhenPreempted(ReplayThroughPrefill, &preemption_count);
  std::printf("control, replay through prefill: %zu of 4 answers differ after %d preemptions\n", found,
              static_cast<int>(preemption_count));
  EXPECT_GT(found, 0u);
}

// Rows of scored continuations hold other tokens than were asked for.
void ScoreOtherTokens(StepPlan& plan) {
  size_t row = 0;
  for (const StepEntry& entry : plan.entries) {
    const bool is_scored = !entry.sequence->prompt_finished && entry.sequence->rows_done == 250;
    for (int64_t i = 0; i < entry.row_count; ++i, ++row) plan.tokens[row] = is_scored ? 2 : plan.tokens[row];
  }
}

TEST(ControlTest, OtherScoredTokensAreDetectedAndLeaveTheGenerationAlone) {
  auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  auto engine = StartEngine(model);
  auto broken = StartEngine(model, {.test_only_alter_plan = ScoreOtherTokens});
  const EngineRequest request{
      .token_ids = RandomIds("beside", 250),
      .work = GenerateWork{.max_new_tokens = 12, .ignore_eos = true, .scored = {RandomIds("gold", 7)}}};
  const auto right = engine->Run(request), wrong = broken->Run(request);
  ASSERT_TRUE(right.ok() && wrong.ok());
  EXPECT_NE(right->continuations[0].token_log_probs, wrong->continuations[0].token_log_probs);
  EXPECT_EQ(right->new_token_ids, wrong->new_token_ids);
  EXPECT_EQ(right->new_token_log_probs, wrong->new_token_log_probs);
}

TEST(ControlTest, PhaseChosenByRowCountIsDetected) {
  auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  const std::vector<EngineRequest> requests = MakeRequests(28, false);
  auto whole = StartEngine(model, {.prefill_chunk_tokens = 4096, .batch_size_max = 1, .prefix_cache = false});
  auto broken = StartEngine(
      model,
      {.prefill_chunk_tokens = 1, .batch_size_max = 1, .prefix_cache = false, .test_only_alter_plan = PhaseByRowCount});
  size_t found = 0;
  for (const EngineRequest& request : requests)
    found += AnswerBits(whole->Run(request)) != AnswerBits(broken->Run(request));
  std::printf("control, kernel chosen by row count: %zu of %zu answers differ\n", found, requests.size());
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace varifocal

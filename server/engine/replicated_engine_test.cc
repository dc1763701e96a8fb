// ReplicatedEngine: where requests go, what happens to those of a lost copy, and that answers have the same bits on one, two and
// three copies. Method: copies that record their requests and end when the test ends them, and real engines on the CPU.
#include "server/engine/replicated_engine.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "server/engine/engine_testing.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kGolden[] = "tied-d16-f32";

absl::Status Lost() {
  return WithReason(absl::UnavailableError("the device failed: CUDA error 700"), ErrorReason::kDeviceFaulted);
}

// Records requests; the test ends them.
class RecordingCopy final : public Engine {
 public:
  struct Asked {
    EngineRequest request;
    EngineCallbacks callbacks;
  };

  ~RecordingCopy() override {
    if (gone != nullptr) *gone = true;
  }
  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    if (!fault.ok()) return fault;
    if (!refusal.ok()) return refusal;
    asked.push_back({std::move(request), std::move(callbacks)});
    const Handle handle = asked.size() - 1;
    if (on_start) on_start();
    return handle;
  }
  void Cancel(Handle handle) override { cancelled.push_back(handle); }
  // Answers with the length of the prompt.
  void Answer(Handle handle) {
    EngineResult result;
    result.prompt_token_count = asked[handle].request.token_ids.size();
    asked[handle].callbacks.on_done(std::move(result));
  }
  void Lose() {
    fault = Lost();
    for (const Asked& one : std::vector<Asked>(asked)) one.callbacks.on_done(fault);
  }
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const Asked& one : asked) ids.push_back(one.request.id);
    return ids;
  }

  const LoadedModel& model() const override { std::abort(); }
  EngineDescription Describe() const override { return description; }
  EngineStatus Status() const override { return status; }
  absl::StatusOr<EngineEstimate> Estimate(int64_t, int64_t, int64_t) override {
    if (!fault.ok()) return fault;
    return EngineEstimate{.seconds = 3};
  }
  void DropPrefixCache() override { ++drop_count; }
  absl::Status Fault() const override { return fault; }

  std::vector<Asked> asked;
  std::vector<Handle> cancelled;
  absl::Status fault, refusal;
  EngineDescription description;
  EngineStatus status;
  std::function<void()> on_start;
  int drop_count = 0;
  std::shared_ptr<std::atomic<bool>> gone;  // set by the destructor
};

class ReplicatedEngineTest : public testing::Test {
 protected:
  // What has become of a request.
  struct Outcome {
    std::optional<absl::StatusOr<EngineResult>> result;
    int done_count = 0;
    std::vector<int32_t> tokens;
  };

  void Make(int count) {
    std::vector<ReplicatedEngine::Copy> made;
    for (int i = 0; i < count; ++i) {
      auto copy = std::make_unique<RecordingCopy>();
      copies_.push_back(copy.get());
      copy->description.model = {.kernels = "cuda-sm90-bf16", .device = "a card", .weights_sha256 = "ab"};
      made.push_back({absl::StrCat("cuda:", i), std::move(copy)});
    }
    ASSIGN_OR_FAIL(engine_, ReplicatedEngine::Create("m", std::move(made)));
  }

  static EngineRequest Named(const std::string& id, const std::string& context, int64_t token_count = 10) {
    return {.id = id, .context = context, .token_ids = std::vector<int32_t>(token_count, 5), .work = ScoreTextWork{}};
  }
  absl::StatusOr<Engine::Handle> Start(EngineRequest request) {
    Outcome& outcome = outcomes_[request.id];
    return engine_->Start(std::move(request), {.on_token = [&](int32_t id, double) { outcome.tokens.push_back(id); },
                                               .on_done =
                                                   [&](absl::StatusOr<EngineResult> result) {
                                                     outcome.result = std::move(result);
                                                     ++outcome.done_count;
                                                   }});
  }

  std::map<std::string, Outcome> outcomes_;  // by id
  std::vector<RecordingCopy*> copies_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ReplicatedEngineTest, AContextHasItsCopyAndNewOnesGoWhereTheFewestTokensAre) {
  Make(3);
  ASSERT_TRUE(Start(Named("long", "book", 500)).ok());
  ASSERT_TRUE(Start(Named("short", "letter", 100)).ok());
  ASSERT_TRUE(Start(Named("mid", "paper", 200)).ok());
  ASSERT_TRUE(Start(Named("loose", "")).ok());                // 500, 100, 200: beside the short one
  ASSERT_TRUE(Start(Named("book again", "book", 500)).ok());  // whatever waits there
  ASSERT_TRUE(Start(Named("paper again", "paper", 900)).ok());
  EXPECT_THAT(copies_[0]->Ids(), ElementsAre("long", "book again"));
  EXPECT_THAT(copies_[1]->Ids(), ElementsAre("short", "loose"));
  EXPECT_THAT(copies_[2]->Ids(), ElementsAre("mid", "paper again"));
  // What has ended is no load: 1000 tokens, 10, 1100.
  copies_[1]->Answer(0);
  ASSERT_TRUE(Start(Named("next", "", 600)).ok());
  EXPECT_THAT(copies_[1]->Ids(), ElementsAre("short", "loose", "next"));
  copies_[0]->Answer(0);
  copies_[0]->Answer(1);
  ASSERT_TRUE(Start(Named("last", "")).ok());
  EXPECT_THAT(copies_[0]->Ids(), ElementsAre("long", "book again", "last"));
  EXPECT_EQ(outcomes_["book again"].result->value().prompt_token_count, 500);
  EXPECT_EQ(outcomes_["book again"].result->value().attempt_count, 1);
}

// Generated tokens are load too.
TEST_F(ReplicatedEngineTest, LoadCountsTheTokensToGenerate) {
  Make(2);
  EngineRequest generate = Named("generate", "", 10);
  generate.work = Tokens(100);
  ASSERT_TRUE(Start(generate).ok());
  ASSERT_TRUE(Start(Named("a", "", 60)).ok());
  ASSERT_TRUE(Start(Named("b", "", 60)).ok());
  EXPECT_THAT(copies_[1]->Ids(), ElementsAre("a", "b"));
}

// Of callers that name no context: prompts that begin alike go to one copy, unless they are short.
TEST_F(ReplicatedEngineTest, LongPromptsThatBeginAlikeShareACopy) {
  Make(2);
  const auto ask = [&](const std::string& id, int64_t same_tokens, int32_t last) {
    EngineRequest request = Named(id, "", same_tokens);
    request.token_ids.push_back(last);
    ASSERT_TRUE(Start(request).ok());
  };
  ask("a", ReplicatedEngine::kContextTokens, 7);
  ask("b", ReplicatedEngine::kContextTokens, 8);
  EXPECT_THAT(copies_[0]->Ids(), ElementsAre("a", "b"));
  ask("short", ReplicatedEngine::kContextTokens - 2, 7);
  ask("short too", ReplicatedEngine::kContextTokens - 2, 8);
  ask("a third", ReplicatedEngine::kContextTokens - 2, 9);
  ask("a fourth", ReplicatedEngine::kContextTokens - 2, 10);
  EXPECT_THAT(copies_[1]->Ids(), ElementsAre("short", "short too", "a third")) << "by load";
  EXPECT_THAT(copies_[0]->Ids(), ElementsAre("a", "b", "a fourth"));
  EngineRequest other = Named("other", "", ReplicatedEngine::kContextTokens);
  other.token_ids[3] = 6;
  ASSERT_TRUE(Start(other).ok());
  EXPECT_EQ(copies_[0]->asked.size(), 3u) << "3074 and 3069 tokens";
}

TEST_F(ReplicatedEngineTest, RequestsOfALostCopyRunOnTheOthersOnce) {
  Make(3);
  ASSERT_TRUE(Start(Named("a", "book", 100)).ok());
  ASSERT_TRUE(Start(Named("b", "letter", 300)).ok());
  ASSERT_TRUE(Start(Named("c", "paper", 200)).ok());
  ASSERT_TRUE(Start(Named("a2", "book", 50)).ok());
  copies_[0]->Answer(0);
  ASSERT_THAT(copies_[0]->Ids(), ElementsAre("a", "a2"));
  copies_[0]->fault = Lost();
  copies_[0]->asked[1].callbacks.on_done(Lost());
  EXPECT_THAT(copies_[2]->Ids(), ElementsAre("c", "a2")) << "300 and 200 tokens";
  EXPECT_EQ(outcomes_["a2"].done_count, 0);
  ASSERT_TRUE(Start(Named("a3", "book", 400)).ok());
  EXPECT_THAT(copies_[2]->Ids(), ElementsAre("c", "a2", "a3")) << "the context moved with it";
  ASSERT_TRUE(Start(Named("d", "")).ok());
  EXPECT_EQ(copies_[1]->asked.size(), 2u);
  copies_[2]->Answer(1);
  EXPECT_EQ(outcomes_["a2"].done_count, 1);
  EXPECT_EQ(outcomes_["a2"].result->value().attempt_count, 2);
  EXPECT_EQ(outcomes_["a"].done_count, 1);
  EXPECT_TRUE(engine_->Fault().ok());
  EXPECT_EQ(engine_->ServingCopyCount(), 2);
  EXPECT_EQ(engine_->Estimate(10, 1)->seconds, 3) << "of a copy that is left";
}

TEST_F(ReplicatedEngineTest, TokensThatACallerHasAreNotGivenAgain) {
  Make(2);
  EngineRequest request = Named("a", "");
  request.work = Tokens(4);
  ASSERT_TRUE(Start(request).ok());
  for (const int32_t token : {11, 12}) copies_[0]->asked[0].callbacks.on_token(token, -1);
  copies_[0]->Lose();
  ASSERT_EQ(copies_[1]->asked.size(), 1u);
  for (const int32_t token : {11, 12, 13, 14}) copies_[1]->asked[0].callbacks.on_token(token, -1);
  EXPECT_THAT(outcomes_["a"].tokens, ElementsAre(11, 12, 13, 14));
}

TEST_F(ReplicatedEngineTest, WithoutACopyEveryRequestEndsWithAllCauses) {
  Make(2);
  ASSERT_TRUE(Start(Named("a", "")).ok());
  copies_[0]->Lose();
  EXPECT_TRUE(engine_->Fault().ok());
  copies_[1]->Lose();
  const absl::Status fault = engine_->Fault();
  EXPECT_TRUE(absl::IsUnavailable(fault));
  EXPECT_THAT(fault, RefusedFor("DEVICE_FAULTED", Message("cuda:0", "cuda:1", "CUDA error 700")));
  EXPECT_EQ(outcomes_["a"].done_count, 1);
  EXPECT_EQ(outcomes_["a"].result->status(), fault);
  EXPECT_EQ(Start(Named("b", "")).status(), fault);
  EXPECT_EQ(engine_->Estimate(10, 1).status(), fault);
}

TEST_F(ReplicatedEngineTest, ACancelledRequestIsCancelledWhereItRunsAndNotMoved) {
  Make(2);
  const auto first = Start(Named("a", "")), second = Start(Named("b", ""));
  ASSERT_TRUE(first.ok() && second.ok());
  engine_->Cancel(*second);
  EXPECT_THAT(copies_[0]->cancelled, IsEmpty());
  EXPECT_THAT(copies_[1]->cancelled, ElementsAre(0));
  copies_[1]->Lose();
  EXPECT_EQ(copies_[0]->asked.size(), 1u);
  EXPECT_EQ(outcomes_["b"].done_count, 1);
  EXPECT_TRUE(absl::IsCancelled(outcomes_["b"].result->status()));
  engine_->Cancel(*second);  // it is done
  engine_->Cancel(77);
  EXPECT_THAT(copies_[1]->cancelled, ElementsAre(0));
  // One that is cancelled before its handle on the copy is known.
  copies_[0]->on_start = [&] { engine_->Cancel(*second + 1); };
  ASSERT_TRUE(Start(Named("c", "")).ok());
  EXPECT_THAT(copies_[0]->cancelled, ElementsAre(1));
}

// A copy is not destroyed while a request of a lost one is started on it. Too short a sleep hides an error, and causes none.
TEST_F(ReplicatedEngineTest, TheEndWaitsForRequestsThatMove) {
  Make(2);
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  copies_[1]->gone = gone;
  std::thread end;
  bool was_there = false;
  copies_[1]->on_start = [&] {
    end = std::thread([&] { engine_.reset(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    was_there = !*gone;
  };
  ASSERT_TRUE(Start(Named("a", "")).ok());
  copies_[0]->Lose();
  end.join();
  EXPECT_TRUE(was_there);
  EXPECT_TRUE(*gone);
}

TEST_F(ReplicatedEngineTest, ACopyWithoutRoomPassesARequestOn) {
  Make(2);
  const absl::Status full =
      WithReason(absl::ResourceExhaustedError("4096 requests are waiting"), ErrorReason::kQueueFull);
  copies_[0]->refusal = full;
  ASSERT_TRUE(Start(Named("a", "book")).ok());
  EXPECT_THAT(copies_[1]->Ids(), ElementsAre("a"));
  copies_[1]->refusal = full;
  EXPECT_EQ(Start(Named("b", "")).status(), full);
  copies_[0]->refusal = absl::InvalidArgumentError("top_p is 2");
  EXPECT_TRUE(absl::IsInvalidArgument(Start(Named("c", "")).status())) << "no other copy takes it";
  EXPECT_EQ(copies_[1]->asked.size(), 1u);
  for (const char* id : {"b", "c"}) EXPECT_EQ(outcomes_[id].done_count, 0) << id;
}

TEST_F(ReplicatedEngineTest, DescribesAllOfThem) {
  Make(2);
  copies_[0]->description.kv_cache_bytes = 100;
  copies_[1]->description.kv_cache_bytes = 70;
  copies_[0]->description.context_tokens_max = 4096;
  copies_[1]->description.context_tokens_max = 2048;
  copies_[0]->status = {.queued_count = 1, .oldest_arrival_us = 9, .step_count = 4};
  copies_[1]->status = {.queued_count = 2, .oldest_arrival_us = 5, .step_count = 3};
  const EngineDescription description = engine_->Describe();
  EXPECT_EQ(description.kv_cache_bytes, 170);
  EXPECT_EQ(description.context_tokens_max, 2048) << "what every copy can hold";
  EXPECT_EQ(description.model.device, "2 x a card (cuda:0, cuda:1)");
  EXPECT_EQ(engine_->Status().queued_count, 3);
  EXPECT_EQ(engine_->Status().oldest_arrival_us, 5);
  copies_[1]->status.oldest_arrival_us = -1;
  EXPECT_EQ(engine_->Status().oldest_arrival_us, 9);
  EXPECT_EQ(engine_->Status().step_count, 7);
  engine_->DropPrefixCache();
  for (const RecordingCopy* copy : copies_) EXPECT_EQ(copy->drop_count, 1);
  ASSERT_EQ(engine_->Copies().size(), 2u);
  EXPECT_EQ(engine_->Copies()[1].device, "cuda:1");
}

TEST_F(ReplicatedEngineTest, CopiesThatMayDifferInBitsAreRefused) {
  const auto with = [](const std::string& kernels, const std::string& device, const std::string& weights) {
    std::vector<ReplicatedEngine::Copy> made;
    for (int i = 0; i < 2; ++i) {
      auto copy = std::make_unique<RecordingCopy>();
      copy->description.model = {.kernels = "k", .device = "card A", .weights_sha256 = "ab"};
      if (i == 1) copy->description.model = {.kernels = kernels, .device = device, .weights_sha256 = weights};
      made.push_back({absl::StrCat("cuda:", i), std::move(copy)});
    }
    return ReplicatedEngine::Create("m", std::move(made)).status();
  };
  EXPECT_TRUE(with("k", "card A", "ab").ok());
  for (const absl::Status& status : {with("l", "card A", "ab"), with("k", "card B", "ab"), with("k", "card A", "cd")}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status, RefusedFor("DEVICES_DIFFER", Message("\"m\"", "cuda:0", "cuda:1")));
  }
}

// A real engine whose device fails after some results.
class FailingCopy final : public Engine {
 public:
  FailingCopy(std::unique_ptr<Engine> engine, int result_count) : left_(result_count), engine_(std::move(engine)) {}

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    if (is_lost_) return Lost();
    callbacks.on_done = [this, on_done = std::move(callbacks.on_done)](absl::StatusOr<EngineResult> result) {
      if (result.ok() && --left_ < 0) is_lost_ = true;
      on_done(is_lost_ ? absl::StatusOr<EngineResult>(Lost()) : std::move(result));
    };
    return engine_->Start(std::move(request), std::move(callbacks));
  }
  void Cancel(Handle handle) override { engine_->Cancel(handle); }
  const LoadedModel& model() const override { return engine_->model(); }
  EngineDescription Describe() const override { return engine_->Describe(); }
  EngineStatus Status() const override { return engine_->Status(); }
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt, int64_t more, int64_t cached) override {
    return engine_->Estimate(prompt, more, cached);
  }
  void DropPrefixCache() override { engine_->DropPrefixCache(); }
  absl::Status Fault() const override { return is_lost_ ? Lost() : absl::OkStatus(); }

 private:
  std::atomic<int> left_;
  std::atomic<bool> is_lost_{false};
  std::unique_ptr<Engine> engine_;  // first to be destroyed: its callbacks use the others
};

// Requests of several threads while two of three copies fail at some result and others are cancelled; then an engine that ends
// with unfinished ones. Every request ends once, and an answer has the bits of one engine.
TEST(ReplicatedCpuTest, EveryRequestEndsOnceWhateverFails) {
  constexpr int kThreads = 3, kRequests = 20;
  const auto request_of = [](int i) {
    return EngineRequest{.context = absl::StrCat("c", i % 7),
                         .token_ids = RandomIds(absl::StrCat("c", i % 7), 20),
                         .work = GenerateWork{.max_new_tokens = 4, .ignore_eos = true, .seed = uint64_t(i)}};
  };
  const auto start_engine = [] {
    return StartEngine(LoadForTest(GoldenDirectory(kGolden), {.device = "cpu", .threads = 1}),
                       {.batch_size_max = 2, .kv_cache_bytes = 1 << 20});
  };
  std::vector<std::string> expected;
  {
    const auto alone = start_engine();
    for (int i = 0; i < kRequests; ++i) expected.push_back(AnswerBits(alone->Run(request_of(i))));
  }
  for (const bool waits : {true, false}) {
    for (int first_lost : {0, 3, 9}) {
      std::vector<ReplicatedEngine::Copy> copies;
      for (int i = 0; i < 3; ++i) {
        copies.push_back({absl::StrCat("cuda:", i),
                          std::make_unique<FailingCopy>(start_engine(), i == 2 ? 1'000'000 : first_lost + 4 * i)});
      }
      auto engine = *ReplicatedEngine::Create("m", std::move(copies));
      std::atomic<int> ended{0}, answered{0}, wrong{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < kRequests; ++i) {
            const auto on_done = [&, i](const absl::StatusOr<EngineResult>& result) {
              const bool is_answer = result.ok() && result->finish_reason != EngineFinishReason::kCancelled;
              answered += is_answer;
              wrong += is_answer && AnswerBits(result) != expected[i];
              ++ended;
            };
            const auto handle = engine->Start(request_of(i), {.on_done = on_done});
            if (!handle.ok()) {
              ADD_FAILURE() << handle.status();
              continue;
            }
            if ((i + t) % 5 == 0) engine->Cancel(*handle);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      while (waits && ended < kThreads * kRequests) std::this_thread::yield();
      engine.reset();
      EXPECT_EQ(ended, kThreads * kRequests);
      EXPECT_EQ(wrong, 0);
      if (waits) {
        EXPECT_GE(answered, kThreads * kRequests * 4 / 5);
      }
    }
  }
}

// Real engines, each with a backend of its own: answers of one copy, of two and of three.
TEST(ReplicatedCpuTest, SameBitsOnAnyNumberOfCopies) {
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 9; ++i) {
    EngineRequest request{.context = absl::StrCat("c", i / 2), .token_ids = RandomIds(absl::StrCat("c", i / 2), 200)};
    request.token_ids.push_back(2 + i);
    if (i % 3 == 0) request.work = ScoreTextWork{};
    if (i % 3 == 1) request.work = ScoreContinuationsWork{{RandomIds("x", 3), RandomIds("y", 5)}};
    if (i % 3 == 2) {
      request.work =
          GenerateWork{.max_new_tokens = 6, .ignore_eos = true, .sampling = {.temperature = 0.8}, .seed = uint64_t(i)};
    }
    requests.push_back(std::move(request));
  }
  std::vector<std::string> first;
  for (const int count : {1, 2, 3}) {
    std::vector<ReplicatedEngine::Copy> copies;
    for (int i = 0; i < count; ++i) {
      const auto model = LoadForTest(GoldenDirectory(kGolden), {.device = "cpu", .threads = 1 + i});
      copies.push_back(
          {absl::StrCat("cuda:", i), StartEngine(model, {.batch_size_max = 2, .kv_cache_bytes = 1 << 20})});
    }
    std::vector<const Engine*> engines;
    for (const auto& copy : copies) engines.push_back(copy.engine.get());
    ASSIGN_OR_FAIL(auto engine, ReplicatedEngine::Create("m", std::move(copies)));
    std::vector<std::future<absl::StatusOr<EngineResult>>> results;
    for (const EngineRequest& request : requests) {
      auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
      results.push_back(done->get_future());
      const auto on_done = [done](absl::StatusOr<EngineResult> result) { done->set_value(std::move(result)); };
      ASSERT_TRUE(engine->Start(request, {.on_done = on_done}).ok());
    }
    std::vector<std::string> bits;
    for (auto& result : results) {
      const absl::StatusOr<EngineResult> one = result.get();
      ASSERT_TRUE(one.ok()) << one.status();
      bits.push_back(AnswerBits(one));
    }
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << count << " copies";
    for (const Engine* one : engines) EXPECT_GT(one->Status().requests_done, 0) << "a copy had no request";
    EXPECT_EQ(engine->Status().requests_done, std::ssize(requests));
    // All contexts are cached where their questions go. A text that is scored needs every row.
    for (const EngineRequest& request : requests) {
      if (std::holds_alternative<ScoreTextWork>(request.work)) continue;
      ASSIGN_OR_FAIL(const auto again, engine->Run(request));
      EXPECT_EQ(again.cached_token_count, 128) << request.context;
    }
  }
}

}  // namespace
}  // namespace varifocal

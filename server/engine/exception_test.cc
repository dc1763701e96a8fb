// An exception on the engine's thread ends only the active requests: the next request gives the same bits, and no page
// leaks.
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "server/engine/engine_testing.h"

namespace varifocal {
namespace {

absl::StatusOr<EngineResult> RunWith(Engine& engine, const EngineRequest& request,
                                     std::function<void(int32_t, double)> on_token) {
  struct {
    Mutex mutex;
    CondVar done;
    std::optional<absl::StatusOr<EngineResult>> outcome VF_GUARDED_BY(mutex);
  } end;
  EngineCallbacks callbacks;
  callbacks.on_token = std::move(on_token);
  callbacks.on_done = [&](absl::StatusOr<EngineResult> result) {
    MutexLock lock(end.mutex);
    EXPECT_FALSE(end.outcome.has_value()) << "once";
    end.outcome = std::move(result);
    end.done.NotifyAll();
  };
  EXPECT_TRUE(engine.Start(request, std::move(callbacks)).ok());
  MutexLock lock(end.mutex);
  end.done.Wait(end.mutex, [&]() VF_REQUIRES(end.mutex) { return end.outcome.has_value(); });
  return *end.outcome;
}

TEST(ExceptionTest, EndsActiveRequestsAndTheEngineContinues) {
  const auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  ASSERT_NE(model, nullptr);
  const auto engine = StartEngine(model, {.prefix_cache = false});
  EngineRequest request;
  request.token_ids = RandomIds("exception", 40);
  GenerateWork work;
  work.max_new_tokens = 8;
  work.ignore_eos = true;
  request.work = work;
  const std::string expected = AnswerBits(engine->Run(request));
  int token_count = 0;
  const auto short_of_memory = RunWith(*engine, request, [&](int32_t, double) {
    if (++token_count == 3) throw std::bad_alloc();
  });
  EXPECT_EQ(short_of_memory.status().code(), absl::StatusCode::kResourceExhausted) << short_of_memory.status();
  const auto failed = RunWith(*engine, request, [](int32_t, double) { throw std::runtime_error("a test"); });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInternal) << failed.status();
  EXPECT_EQ(AnswerBits(engine->Run(request)), expected);
  EXPECT_EQ(engine->Status().pages_used, 0);
  EXPECT_EQ(engine->Status().running_count, 0);
}

// An exception in a caller's callback does not affect other requests.
TEST(ExceptionTest, InACallbackAffectsNoOtherRequest) {
  const auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  ASSERT_NE(model, nullptr);
  const auto engine = StartEngine(model);
  EngineRequest request;
  request.token_ids = RandomIds("exception", 40);
  request.work = ScoreTextWork{};
  EngineCallbacks callbacks;
  callbacks.on_done = [](const absl::StatusOr<EngineResult>&) { throw std::bad_alloc(); };
  ASSERT_TRUE(engine->Start(request, std::move(callbacks)).ok());
  EXPECT_TRUE(engine->Run(request).ok());
}

}  // namespace
}  // namespace varifocal

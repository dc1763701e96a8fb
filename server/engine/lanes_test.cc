// Shares of jobs and interactive callers in one engine. Method: a tiny model; the first step is held until every request is
// queued, so the order of steps depends on the requests alone; tokens of each lane are counted from the plans. The control
// puts all requests into one lane, where the few do wait for the many.
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "server/engine/engine_testing.h"
#include "server/engine/step_plan.h"

namespace varifocal {
namespace {

struct Load {
  const char* mark = "";  // first part of the requests' ids
  EngineLane lane = EngineLane::kInteractive;
  int request_count = 0;
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 1;
  int Tokens() const { return prompt_tokens + new_tokens - 1; }  // rows computed for one request
};

class LanesTest : public testing::Test {
 protected:
  // Runs all requests of the loads, those of the first one queued first, after those of `before`, one by one. Returns, for
  // each load, how many tokens the other one had when it had its last.
  std::vector<int64_t> TokensOfTheOtherAtTheEnd(const std::vector<Load>& loads, int64_t batch_size_max = 4,
                                                const Load& before = {}) {
    struct {
      Mutex mutex;
      CondVar changed;
      bool all_queued VF_GUARDED_BY(mutex) = true;
      bool counts VF_GUARDED_BY(mutex) = false;
      std::vector<int64_t> tokens VF_GUARDED_BY(mutex), other_at_end VF_GUARDED_BY(mutex);
      size_t done_count VF_GUARDED_BY(mutex) = 0;
    } run;
    size_t request_count = 0;
    EngineOptions options;
    options.prefill_chunk_tokens = 64;
    options.batch_size_max = batch_size_max;
    options.prefix_cache = false;
    options.test_only_alter_plan = [&](StepPlan& plan) {
      MutexLock lock(run.mutex);
      run.changed.Wait(run.mutex, [&]() VF_REQUIRES(run.mutex) { return run.all_queued; });
      if (!run.counts) return;
      for (const StepEntry& entry : plan.entries) {
        const size_t load = Index(loads, entry.sequence->request.id);
        run.tokens[load] += entry.row_count;
        if (run.tokens[load] == int64_t{loads[load].request_count} * loads[load].Tokens())
          run.other_at_end[load] = run.tokens[1 - load];
      }
    };
    const auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")), options);
    for (int i = 0; i < before.request_count; ++i) EXPECT_TRUE(engine->Run(MakeRequest(before, i)).ok());
    {
      MutexLock lock(run.mutex);
      run.all_queued = false;
      run.counts = true;
      run.tokens.resize(loads.size());
      run.other_at_end.resize(loads.size());
    }
    for (const Load& load : loads) {
      for (int i = 0; i < load.request_count; ++i) {
        ++request_count;
        const auto started = engine->Start(MakeRequest(load, i), {.on_done = [&](absl::StatusOr<EngineResult> result) {
                                             EXPECT_TRUE(result.ok()) << result.status();
                                             MutexLock lock(run.mutex);
                                             ++run.done_count;
                                             run.changed.NotifyAll();
                                           }});
        EXPECT_TRUE(started.ok()) << started.status();
      }
    }
    MutexLock lock(run.mutex);
    run.all_queued = true;
    run.changed.NotifyAll();
    run.changed.Wait(run.mutex, [&]() VF_REQUIRES(run.mutex) { return run.done_count == request_count; });
    return run.other_at_end;
  }

  static EngineRequest MakeRequest(const Load& load, int number) {
    EngineRequest request;
    request.id = absl::StrCat(load.mark, number);
    request.lane = load.lane;
    request.token_ids = RandomIds(request.id, load.prompt_tokens);
    request.work = GenerateWork{.max_new_tokens = load.new_tokens, .ignore_eos = true};
    return request;
  }

  static size_t Index(const std::vector<Load>& loads, const std::string& id) {
    return id.rfind(loads[0].mark, 0) == 0 ? 0 : 1;
  }

  // The lane of `few`, which came last, had half of the tokens while it had work: the other had as many, but for the
  // requests that hold the batch's places, which are not preempted.
  static void ExpectHalf(const Load& few, int64_t tokens_of_the_other, const Load& other, int64_t batch_size_max = 4) {
    const int64_t all = int64_t{few.request_count} * few.Tokens();
    const int64_t slack = (batch_size_max + 1) * std::max(few.Tokens(), other.Tokens());
    ASSERT_GT(int64_t{other.request_count} * other.Tokens(), 2 * all + slack) << "the case decides nothing";
    EXPECT_LE(tokens_of_the_other, all + slack);
    EXPECT_GE(tokens_of_the_other, all - slack) << "nor may the few keep the many from working";
  }
};

constexpr EngineLane kJob = EngineLane::kJob, kInteractive = EngineLane::kInteractive;

TEST_F(LanesTest, CallersDoNotStarveAJob) {
  const std::vector<Load> loads = {{"many", kInteractive, 300, 30, 4}, {"few", kJob, 30, 30, 4}};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads)[1], loads[0]);
}

TEST_F(LanesTest, AJobDoesNotStarveCallers) {
  const std::vector<Load> loads = {{"many", kJob, 300, 30, 4}, {"few", kInteractive, 30, 30, 4}};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads)[1], loads[0]);
}

// The share is one of tokens: long prompts do not get more of the engine than short ones.
TEST_F(LanesTest, LongPromptsDoNotStarveShortOnes) {
  const std::vector<Load> loads = {{"long", kInteractive, 60, 400, 1}, {"short", kJob, 150, 20, 4}};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads)[1], loads[0]);
}

TEST_F(LanesTest, LongGenerationsDoNotStarveShortOnes) {
  const std::vector<Load> loads = {{"long", kJob, 60, 4, 200}, {"short", kInteractive, 150, 20, 4}};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads)[1], loads[0]);
}

// One place: the lanes take turns.
TEST_F(LanesTest, ABatchOfOne) {
  const std::vector<Load> loads = {{"many", kInteractive, 200, 30, 2}, {"few", kJob, 40, 30, 2}};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads, 1)[1], loads[0], 1);
}

TEST_F(LanesTest, InOneLaneTheFewWaitForTheMany) {
  const std::vector<Load> loads = {{"many", kInteractive, 300, 30, 4}, {"few", kInteractive, 30, 30, 4}};
  EXPECT_EQ(TokensOfTheOtherAtTheEnd(loads)[1], 300 * loads[0].Tokens());
}

// A lane that had nothing to do for long has no credit: it gets half from then on, not all.
TEST_F(LanesTest, IdlingEarnsNothing) {
  const std::vector<Load> loads = {{"many", kInteractive, 300, 30, 4}, {"few", kJob, 30, 30, 4}};
  const Load before = {"before", kInteractive, 100, 30, 4};  // as many tokens as the job will have three times over
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads, 4, before)[1], loads[0]);
  const Load job_before = {"before", kJob, 100, 30, 4};
  ExpectHalf(loads[1], TokensOfTheOtherAtTheEnd(loads, 4, job_before)[1], loads[0]);
}

}  // namespace
}  // namespace varifocal

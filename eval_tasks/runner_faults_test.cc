// The runner when requests fail, are cancelled or find no room: nothing is lost, nothing is asked twice.
#include "base/mutex.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "base/random.h"
#include "eval_tasks/testing_jobs.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

TEST(RunnerTest, AFailureIsARecordWithoutScoresAndIsMissingForTheNextRun) {
  FakeGenerator generator;
  bool broken = true;
  generator.on_start = [&](FakeGenerator& g) {
    const GenerationRequest request = g.held()[0].request;
    if (broken && request.sample->index == 1) {
      g.Release(g.held()[0].id, absl::InternalError("a logit is not finite"));
    } else {
      g.Release(g.held()[0].id, FakeGenerator::Answer(request));
    }
  };
  FakeSink sink;
  RunProgress last;
  RunnerHooks hooks;
  hooks.on_progress = [&](const RunProgress& progress) { last = progress; };
  {
    Runner runner(RunnerJob(), BothVariants(&generator), &sink, hooks);
    ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  }
  EXPECT_EQ(last.failed_count, kRunnerCells);
  EXPECT_EQ(last.done_count, kRunnerCells * 6);
  for (const auto& [key, record] : sink.records) {
    EXPECT_EQ(record.error.ok(), key.second != 1);
    EXPECT_EQ(record.scores.empty(), key.second == 1);
    EXPECT_EQ(record.generation.has_value(), key.second != 1);
    EXPECT_FALSE(record.sample->prompt.empty()) << "the prompt was built";
  }
  broken = false;
  const int before = generator.started_count();
  Runner again(RunnerJob(), BothVariants(&generator), &sink, hooks);
  ASSERT_EQ(again.Run().value(), RunOutcome::kFinished);
  EXPECT_EQ(generator.started_count() - before, kRunnerCells) << "exactly the failed ones";
  EXPECT_EQ(last.skipped_count, kRunnerCells * 5);
  EXPECT_EQ(last.failed_count, 0);
}

TEST(RunnerTest, AnUnscorableAnswerIsAFailure) {
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& g) {
    Generation generation = FakeGenerator::Answer(g.held()[0].request);
    if (!generation.continuation_scores.empty()) generation.continuation_scores.pop_back();
    g.Release(g.held()[0].id, generation);
  };
  FakeSink sink;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  ASSERT_TRUE(runner.Run().ok());
  for (const auto& [key, record] : sink.records) {
    EXPECT_EQ(record.error.message(), key.first.task == "recall_kv" ? "" : "the generator scored 3 of 4 continuations");
  }
}

TEST(RunnerTest, AnUnbuildableSampleIsARecordOfEveryVariant) {
  JobSpec spec = RunnerJob();
  spec.suite.lengths = {30, 1024};
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& g) { g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request)); };
  FakeSink sink;
  Runner runner(spec, BothVariants(&generator), &sink);
  ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  EXPECT_EQ(std::ssize(sink.records), kRunnerCells * 6);
  for (const auto& [key, record] : sink.records) {
    EXPECT_EQ(record.error.ok(), key.first.context_length == 1024);
    EXPECT_FALSE(record.sample->question_id.empty());
    EXPECT_EQ(record.sample->prompt.empty(), !record.error.ok());
    EXPECT_EQ(record.attempt_count, record.error.ok() ? 1 : 0);
  }
}

TEST(RunnerTest, UnavailableIsRetriedWithinTheBound) {
  for (const int failures : {2, 100}) {
    FakeGenerator generator;
    std::map<const Sample*, int> refused;
    generator.on_start = [&](FakeGenerator& g) {
      const GenerationRequest request = g.held()[0].request;
      if (request.sample->index == 2 && request.variant == "baseline" && refused[request.sample.get()]++ < failures) {
        g.Release(g.held()[0].id, absl::UnavailableError("the daemon restarts"));
      } else {
        g.Release(g.held()[0].id, FakeGenerator::Answer(request));
      }
    };
    FakeSink sink;
    int waits = 0;
    RunnerHooks hooks;
    hooks.wait_before_retry = [&](int) { ++waits; };
    Runner runner(RunnerJob(), BothVariants(&generator), &sink, hooks, {.attempts_max = 4});
    ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
    EXPECT_GT(waits, 0);
    for (const auto& [key, record] : sink.records) {
      const bool troubled = key.second == 2 && key.first.variant == "baseline";
      EXPECT_EQ(record.attempt_count, !troubled ? 1 : failures == 2 ? 3 : 4);
      EXPECT_EQ(record.error.code(),
                troubled && failures == 100 ? absl::StatusCode::kUnavailable : absl::StatusCode::kOk);
    }
  }
}

// Below the bound of requests: the last answers arrive while no further group can be made.
TEST(RunnerTest, TheLastRequestsAreRetriedToo) {
  FakeGenerator generator;
  std::set<std::pair<const Sample*, std::string>> refused;
  generator.on_start = [&](FakeGenerator& g) {
    const GenerationRequest request = g.held()[0].request;
    if (refused.insert({request.sample.get(), request.variant}).second) {
      g.Release(g.held()[0].id, absl::UnavailableError("the daemon restarts"));
    } else {
      g.Release(g.held()[0].id, FakeGenerator::Answer(request));
    }
  };
  FakeSink sink;
  Runner runner(RunnerJob(1, 64), BothVariants(&generator), &sink, {}, {.attempts_max = 4});
  ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  EXPECT_EQ(std::ssize(sink.records), kRunnerCells);
}

TEST(RunnerTest, AFullGeneratorIsRetriedAfterAnAnswer) {
  // Capacity of two: further requests are rejected while two are held, then one of the two is answered.
  FakeGenerator generator;
  FakeSink sink;
  int refusals = 0, answers = 0;
  const auto answer = [&](FakeGenerator& g) {
    ++answers;
    g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
  };
  generator.on_start = [&](FakeGenerator& g) {
    if (g.held().size() > 2) {
      ++refusals;
      g.Release(g.held().back().id, absl::ResourceExhaustedError("no page is free"));
      answer(g);
    }
    // No requests follow the last two.
    const bool last = answers + std::ssize(g.held()) == kRunnerCells * 6;
    while (last && !g.held().empty()) answer(g);
  };
  Runner runner(RunnerJob(6, 8), BothVariants(&generator), &sink);
  ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  EXPECT_GT(refusals, 0);
  EXPECT_EQ(std::ssize(sink.records), kRunnerCells * 6);
  for (const auto& [key, record] : sink.records) EXPECT_TRUE(record.error.ok());
}

// Fails permanently at the n-th request: all held requests end at once, as on a lost device.
class LostGenerator : public FakeGenerator {
 public:
  explicit LostGenerator(int lost_at) {
    on_start = [=, this](FakeGenerator& g) {
      lost_ = lost_ || g.started_count() == lost_at;
      if (lost_) {
        while (!g.held().empty()) g.Release(g.held()[0].id, Fault());
      } else if (g.held().size() == 3) {
        g.Release(g.held()[1].id, Answer(g.held()[1].request));
      }
    };
  }
  absl::Status Fault() const override { return lost_ ? absl::UnavailableError("the device failed") : absl::OkStatus(); }

 private:
  bool lost_ = false;
};

TEST(RunnerTest, AGeneratorsFaultEndsTheRunAndFailsNoSample) {
  std::string unbroken;
  for (int lost_at = kRunnerCells * 6; lost_at > 0; lost_at -= 5) {
    FakeSink sink;
    LostGenerator lost(lost_at);
    const auto outcome = Runner(RunnerJob(), BothVariants(&lost), &sink).Run();
    EXPECT_EQ(outcome.status(), absl::UnavailableError("the device failed"));
    EXPECT_TRUE(lost.held().empty());
    EXPECT_LT(std::ssize(sink.records), kRunnerCells * 6);
    for (const auto& [key, record] : sink.records) EXPECT_TRUE(record.error.ok()) << record.error;
    FakeGenerator generator;
    generator.on_start = [](FakeGenerator& g) {
      g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
    };
    const int missing = kRunnerCells * 6 - static_cast<int>(sink.records.size());
    ASSERT_EQ(Runner(RunnerJob(), BothVariants(&generator), &sink).Run().value(), RunOutcome::kFinished);
    EXPECT_EQ(generator.started_count(), missing);
    if (unbroken.empty()) unbroken = Describe(sink);
    EXPECT_EQ(Describe(sink), unbroken) << "lost at " << lost_at;
  }
}

TEST(RunnerTest, TooLargeEvenAloneIsAFailure) {
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& g) {
    g.Release(g.held()[0].id, absl::ResourceExhaustedError("the prompt needs 9 pages; there are 8"));
  };
  FakeSink sink;
  Runner runner(RunnerJob(2, 4), BothVariants(&generator), &sink);
  ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  for (const auto& [key, record] : sink.records) {
    EXPECT_EQ(record.error.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(record.attempt_count, RunnerOptions().attempts_max);
  }
}

TEST(RunnerTest, CancellationLeavesExactlyTheUnansweredMissing) {
  std::string unbroken;
  for (int stop_after = 0; stop_after <= 48; stop_after += 4) {
    FakeSink sink;
    {
      FakeGenerator generator;
      Runner* running = nullptr;
      generator.on_start = [&](FakeGenerator& g) {
        if (g.started_count() > stop_after) {
          running->Cancel();
        } else {
          g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
        }
      };
      Runner runner(RunnerJob(), BothVariants(&generator), &sink);
      running = &runner;
      const RunOutcome outcome = runner.Run().value();
      EXPECT_EQ(outcome, stop_after >= kRunnerCells * 6 ? RunOutcome::kFinished : RunOutcome::kCancelled);
      EXPECT_TRUE(generator.held().empty()) << "active requests were cancelled";
      EXPECT_EQ(std::ssize(sink.records), std::min(stop_after, kRunnerCells * 6));
      for (const auto& [key, record] : sink.records) EXPECT_TRUE(record.error.ok());
    }
    FakeGenerator generator;
    generator.on_start = [&](FakeGenerator& g) {
      g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
    };
    Runner rest(RunnerJob(), BothVariants(&generator), &sink);
    ASSERT_EQ(rest.Run().value(), RunOutcome::kFinished);
    EXPECT_EQ(generator.started_count(), kRunnerCells * 6 - std::min(stop_after, kRunnerCells * 6));
    if (unbroken.empty()) unbroken = Describe(sink);
    EXPECT_EQ(Describe(sink), unbroken) << "broken after " << stop_after;
  }
}

TEST(RunnerTest, CancelledBeforeRunStartsNoRequest) {
  FakeGenerator generator;
  FakeSink sink;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  runner.Cancel();
  EXPECT_EQ(runner.Run().value(), RunOutcome::kCancelled);
  EXPECT_EQ(generator.started_count(), 0);
}

TEST(RunnerTest, CancelsFromAnotherThreadWhileWaiting) {
  FakeGenerator generator;  // never answers
  FakeSink sink;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  std::thread other([&] { runner.Cancel(); });
  EXPECT_EQ(runner.Run().value(), RunOutcome::kCancelled);
  other.join();
  EXPECT_TRUE(sink.records.empty());
}

// Answers from three threads, as an engine does; some requests fail or are rejected.
class ThreadedGenerator : public Generator {
 public:
  explicit ThreadedGenerator(const std::string& name) {
    for (int i = 0; i < 3; ++i) threads_.emplace_back([this, seed = absl::StrCat(name, i)] { Work(Random(seed)); });
  }
  ~ThreadedGenerator() override {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    changed_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }
  Id Start(const GenerationRequest& request, Done done) override {
    const MutexLock lock(mutex_);
    queue_[++last_id_] = {request, std::move(done)};
    changed_.NotifyOne();
    return last_id_;
  }
  void Cancel(Id id) override {
    Done done;
    {
      const MutexLock lock(mutex_);
      const auto it = queue_.find(id);
      if (it == queue_.end()) return;
      done = std::move(it->second.second);
      queue_.erase(it);
    }
    done(absl::CancelledError("cancelled"));
  }

 private:
  void Work(Random random) {
    MutexLock lock(mutex_);
    for (;;) {
      changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto it = random.Coin() ? queue_.begin() : std::prev(queue_.end());
      const std::pair<GenerationRequest, Done> work = std::move(it->second);
      queue_.erase(it);
      lock.Unlock();
      if (random.Below(8) == 0) {
        work.second(absl::UnavailableError("in a moment"));
      } else {
        work.second(FakeGenerator::Answer(work.first));
      }
      lock.Lock();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<Id, std::pair<GenerationRequest, Done>> queue_ VF_GUARDED_BY(mutex_);
  Id last_id_ VF_GUARDED_BY(mutex_) = 0;
  bool closing_ VF_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

TEST(RunnerTest, ThreadsCancellationsAndRetriesLoseNoSample) {
  std::string unbroken;
  for (int seed = 0; seed < 30; ++seed) {
    Random random(absl::StrCat("cancel ", seed));
    FakeSink sink;
    int runs = 0;
    for (bool finished = false; !finished; ++runs) {
      ThreadedGenerator generator(absl::StrCat("threads ", seed, " ", runs));
      Runner runner(RunnerJob(6, 5), BothVariants(&generator), &sink, {}, {.attempts_max = 50});
      std::thread canceller([&runner, pause = random.Below(3000), cancel = seed > 0 && runs < 3] {
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        if (cancel) runner.Cancel();
      });
      finished = runner.Run().value() == RunOutcome::kFinished;
      canceller.join();
    }
    EXPECT_EQ(std::ssize(sink.order), kRunnerCells * 6) << "each once, despite interruptions";
    if (unbroken.empty()) unbroken = Describe(sink);
    EXPECT_EQ(Describe(sink), unbroken) << seed;
  }
}

TEST(RunnerTest, ASinkThatFailsStopsTheRun) {
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& g) {
    if (g.held().size() == 3) g.Release(g.held()[1].id, FakeGenerator::Answer(g.held()[1].request));
  };
  FakeSink sink;
  sink.failure = absl::DataLossError("disk full");
  sink.fail_after = 2;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  EXPECT_EQ(runner.Run().status().message(), "disk full");
  EXPECT_EQ(sink.records.size(), 2u);
  EXPECT_TRUE(generator.held().empty()) << "active requests were cancelled";
}

TEST(RunnerTest, AnExceptionStopsTheRunAndCancelsActiveRequests) {
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& g) {
    if (g.held().size() == 3) g.Release(g.held()[1].id, FakeGenerator::Answer(g.held()[1].request));
  };
  FakeSink sink;
  sink.out_of_memory = true;
  sink.fail_after = 2;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  EXPECT_EQ(runner.Run().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(sink.records.size(), 2u);
  EXPECT_TRUE(generator.held().empty()) << "active requests were cancelled";
}

}  // namespace
}  // namespace varifocal

// The thread pool: every item runs exactly once, with a thread number used by no other thread at the time; many small
// jobs, several callers, cancellation during a job.

#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace varifocal::kernels::cpu {
namespace {

TEST(ThreadPoolTest, RunsEveryItemOnceForAnyCount) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    for (int job = 0; job < 300; ++job) {
      const int count = job % 23;
      std::vector<std::atomic<int>> runs(count + 1);
      std::vector<std::atomic<int>> holders(threads);
      std::atomic<int> shared_holder{0};
      EXPECT_TRUE(pool.Run(count, nullptr, [&](int index, int thread) {
        if (holders[thread].fetch_add(1) != 0) shared_holder.fetch_add(1);
        runs[index].fetch_add(1);
        holders[thread].fetch_sub(1);
      }));
      for (int i = 0; i < count; ++i) ASSERT_EQ(runs[i].load(), 1) << "item " << i << " of job " << job;
      ASSERT_EQ(shared_holder.load(), 0);
    }
  }
}

TEST(ThreadPoolTest, WakesSleepingWorkers) {
  ThreadPool pool(2);
  for (int job = 0; job < 5; ++job) {
    // Longer than the spin, so that the worker is asleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    EXPECT_TRUE(pool.Run(100, nullptr, [&](int index, int) { sum.fetch_add(index); }));
    EXPECT_EQ(sum.load(), 4950);
  }
}

TEST(ThreadPoolTest, SerializesConcurrentCallers) {
  ThreadPool pool(2);
  std::atomic<int> inside{0}, overlaps{0}, sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int job = 0; job < 100; ++job) {
        EXPECT_TRUE(pool.Run(8, nullptr, [&](int, int) {
          // At most two items of one job run at a time; a third would belong to another job.
          if (inside.fetch_add(1) >= 2) overlaps.fetch_add(1);
          sum.fetch_add(1);
          inside.fetch_sub(1);
        }));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 3 * 100 * 8);
  EXPECT_EQ(overlaps.load(), 0);
}

TEST(ThreadPoolTest, CancellationSkipsTheRest) {
  ThreadPool pool(2);
  std::atomic<bool> cancelled{false};
  std::atomic<int> runs{0};
  EXPECT_FALSE(pool.Run(1000000, &cancelled, [&](int, int) {
    if (runs.fetch_add(1) == 10) cancelled.store(true);
  }));
  EXPECT_LT(runs.load(), 1000000);
  cancelled.store(false);
  EXPECT_TRUE(pool.Run(10, &cancelled, [](int, int) {}));
}

// Items of known duration: the profile must contain at least it, and no thread can be busy for longer than the job.
TEST(ThreadPoolTest, TheProfileCoversItemTime) {
  ThreadPool pool(2);
  PoolProfile profile;
  const auto sleep = [](int, int) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  ThreadPool::Measure(&profile);
  EXPECT_TRUE(pool.Run(PoolWork::kAttention, 6, nullptr, sleep));
  ThreadPool::Measure(nullptr);
  EXPECT_TRUE(pool.Run(PoolWork::kProducts, 6, nullptr, sleep));
  const auto busy = [&](PoolWork work) { return profile.busy_ns[static_cast<int>(work)].load(); };
  EXPECT_GE(busy(PoolWork::kAttention), 6 * 2'000'000);
  EXPECT_LE(busy(PoolWork::kAttention), 2 * profile.wall_ns[static_cast<int>(PoolWork::kAttention)]);
  EXPECT_EQ(busy(PoolWork::kProducts), 0);
  EXPECT_EQ(profile.wall_ns[static_cast<int>(PoolWork::kProducts)], 0);
  EXPECT_EQ(busy(PoolWork::kRows), 0);
}

TEST(ThreadPoolTest, FlushesDenormalsInItemsAndRestoresTheCaller) {
#if defined(__SSE2__)
  ThreadPool pool(2);
  volatile float tiny = 1e-38f;
  std::atomic<int> kept{0};
  EXPECT_TRUE(pool.Run(64, nullptr, [&](int, int) {
    if (tiny * 0.01f != 0.0f) kept.fetch_add(1);
  }));
  EXPECT_EQ(kept.load(), 0);
  EXPECT_NE(tiny * 0.01f, 0.0f);
#else
  GTEST_SKIP() << "this architecture keeps its own mode";
#endif
}

}  // namespace
}  // namespace varifocal::kernels::cpu

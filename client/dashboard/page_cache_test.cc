// What is computed again and when, by counts of computations on a manual clock.
#include "client/dashboard/page_cache.h"

#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal::client {
namespace {

constexpr int64_t kUsPerSecond = 1'000'000;

class PageCacheTest : public ::testing::Test {
 protected:
  // The page of a name and key; a computation takes `cost_us_` and has its number as its bytes.
  std::shared_ptr<const PageCache::Page> Get(PageCache& cache, const std::string& name, const std::string& key,
                                             bool may_be_old) {
    return *cache.Get(name, key, may_be_old, [&]() -> absl::StatusOr<std::string> {
      clock_.Advance(cost_us_);
      return absl::StrCat(++count_);
    });
  }
  std::string Bytes(const std::string& key, bool may_be_old) { return Get(cache_, "jobs/1", key, may_be_old)->bytes; }

  FakeClock clock_;
  PageCache cache_{clock_};
  int64_t cost_us_ = 2 * kUsPerSecond;
  int count_ = 0;
};

TEST_F(PageCacheTest, ComputesOnceUntilTheKeyChanges) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Bytes("a", false), "1");
  clock_.Advance(1000 * kUsPerSecond);
  EXPECT_EQ(Bytes("a", true), "1");
  EXPECT_EQ(Bytes("b", false), "2") << "at once where it may not be old";
  EXPECT_EQ(Get(cache_, "jobs/2", "b", false)->bytes, "3");
  EXPECT_EQ(Bytes("b", false), "2");
  EXPECT_EQ(cache_.computed_count(), 3);
}

TEST_F(PageCacheTest, WhatMayBeOldIsComputedAgainAfterAMultipleOfItsCost) {
  const int64_t began_us = clock_.WallMicros();
  EXPECT_EQ(Bytes("a", true), "1");
  clock_.Advance((PageCache::kPeriodPerCost - 1) * cost_us_ - 1);
  EXPECT_EQ(Bytes("b", true), "1");
  EXPECT_EQ(Get(cache_, "jobs/1", "c", true)->wall_us, began_us);
  clock_.Advance(1);
  EXPECT_EQ(Bytes("c", true), "2");
  EXPECT_EQ(Bytes("d", true), "2");
  EXPECT_EQ(Bytes("d", false), "3");
  cost_us_ = 0;
  EXPECT_EQ(Bytes("e", false), "4");
  EXPECT_EQ(Bytes("f", true), "5") << "what costs nothing is never old";
}

TEST_F(PageCacheTest, AnErrorIsNotKept) {
  const absl::Status locked = absl::UnavailableError("locked");
  const auto fails = [&] { return locked; };
  EXPECT_EQ(cache_.Get("jobs/1", "a", true, fails).status(), locked);
  EXPECT_EQ(Bytes("a", true), "1");
  EXPECT_FALSE(cache_.Get("jobs/1", "b", false, fails).ok());
  EXPECT_EQ(Bytes("a", false), "1") << "what was there remains";
}

TEST_F(PageCacheTest, DropsTheLeastRecentlyUsedBeyondItsBytes) {
  PageCache small(clock_, /*bytes_max=*/2);  // two pages of one byte
  Get(small, "a", "", false);
  Get(small, "b", "", false);
  Get(small, "a", "", false);
  EXPECT_EQ(small.computed_count(), 2);
  Get(small, "c", "", false);
  EXPECT_EQ(Get(small, "a", "", false)->bytes, "1");
  EXPECT_EQ(Get(small, "c", "", false)->bytes, "3");
  EXPECT_EQ(Get(small, "b", "", false)->bytes, "4");
  count_ = 1000;
  EXPECT_EQ(Get(small, "larger than all", "", false)->bytes, "1001") << "is returned, not kept";
  EXPECT_EQ(Get(small, "larger than all", "", false)->bytes, "1002");
}

TEST_F(PageCacheTest, AnOlderPageIsShownWhileANewerOneIsComputed) {
  Bytes("a", true);
  clock_.Advance(1000 * kUsPerSecond);
  std::promise<void> began, may_end;
  std::thread computes([&] {
    const auto page = cache_.Get("jobs/1", "b", true, [&]() -> absl::StatusOr<std::string> {
      began.set_value();
      may_end.get_future().wait();
      return "newer";
    });
    EXPECT_EQ((*page)->bytes, "newer");
  });
  began.get_future().wait();
  EXPECT_EQ(Bytes("b", true), "1");
  may_end.set_value();
  computes.join();
  EXPECT_EQ(Bytes("b", true), "newer");
}

}  // namespace
}  // namespace varifocal::client

// A file system that does not answer costs its waiter the patience once, and no other call anything. Method: calls that wait for
// the test, in the place of a hung mount.
#include "base/file_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "tests/support/messages.h"

namespace varifocal {
namespace {

class FileCallsTest : public testing::Test {
 protected:
  void TearDown() override { SetFilePatienceForTesting(kFilePatienceUs); }
};

TEST_F(FileCallsTest, AHungCallIsGivenUpAndItsDirectoryFailsAtOnceUntilItReturns) {
  SetFilePatienceForTesting(1000);
  auto release = std::make_shared<std::promise<void>>();
  const std::shared_future<void> released = release->get_future().share();
  const absl::Status hung = CallFileSystem("/mnt/gone/a", [released] { released.wait(); });
  EXPECT_THAT(hung, IsError(absl::StatusCode::kUnavailable, Message("mnt/gone/a")));
  SetFilePatienceForTesting(3'600'000'000);
  EXPECT_EQ(CallFileSystem("/mnt/gone/b", [released] { released.wait(); }).code(), absl::StatusCode::kUnavailable)
      << "at once: with this patience it would wait for an hour";
  int ran = 0;
  EXPECT_TRUE(CallFileSystem("/mnt/well/a", [&ran] { ++ran; }).ok());
  EXPECT_EQ(ran, 1);
  release->set_value();
  while (!CallFileSystem("/mnt/gone/c", [&ran] { ++ran; }).ok()) std::this_thread::yield();
  EXPECT_EQ(ran, 2);
}

TEST_F(FileCallsTest, ManyHungDirectoriesLeaveRoomForOthers) {
  SetFilePatienceForTesting(1000);
  auto release = std::make_shared<std::promise<void>>();
  const std::shared_future<void> released = release->get_future().share();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(CallFileSystem("/mnt/" + std::to_string(i) + "/a", [released] { released.wait(); }).ok());
  }
  SetFilePatienceForTesting(3'600'000'000);
  EXPECT_TRUE(CallFileSystem("/mnt/well/a", [] {}).ok());
  release->set_value();
}

}  // namespace
}  // namespace varifocal

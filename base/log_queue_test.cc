// The log queue: keeps order while the reader reads, drops and counts lines while it does not, and never blocks a
// writer. Method: a reader that the test blocks and unblocks.
#include "base/log_queue.h"

#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;

// Shared with the queue's thread, which may outlive the test.
struct Reader {
  Mutex mutex;
  CondVar changed;
  bool is_held VF_GUARDED_BY(mutex) = false;
  bool is_waiting VF_GUARDED_BY(mutex) = false;
  std::vector<std::string> lines VF_GUARDED_BY(mutex);

  void Read(const std::string& line) {
    MutexLock lock(mutex);
    is_waiting = true;
    changed.NotifyAll();
    changed.Wait(mutex, [this]() VF_REQUIRES(mutex) { return !is_held; });
    is_waiting = false;
    lines.push_back(line);
  }
  void Hold() {
    MutexLock lock(mutex);
    is_held = true;
  }
  void Release() {
    MutexLock lock(mutex);
    is_held = false;
    changed.NotifyAll();
  }
  std::vector<std::string> Lines() {
    MutexLock lock(mutex);
    return lines;
  }
  void WaitUntilItWaits() {
    MutexLock lock(mutex);
    changed.Wait(mutex, [this]() VF_REQUIRES(mutex) { return is_waiting; });
  }
};

constexpr int64_t kMinuteMs = 60'000;

std::string DroppedLine(int64_t count) { return "dropped " + std::to_string(count); }

TEST(LogQueueTest, KeepsTheOrder) {
  auto reader = std::make_shared<Reader>();
  LogQueue queue(
      100, 1000, [reader](const std::string& line) { reader->Read(line); }, DroppedLine);
  for (const char* line : {"a", "b", "c"}) queue.Push(line);
  ASSERT_TRUE(queue.Flush(kMinuteMs));
  EXPECT_THAT(reader->Lines(), ElementsAre("a", "b", "c"));
}

TEST(LogQueueTest, ABlockedReaderDropsLinesAndBlocksNoWriter) {
  auto reader = std::make_shared<Reader>();
  reader->Hold();
  LogQueue queue(
      2, 1000, [reader](const std::string& line) { reader->Read(line); }, DroppedLine);
  queue.Push("first");
  reader->WaitUntilItWaits();
  for (int i = 0; i < 1000; ++i) queue.Push("line");  // returns: 2 are kept
  EXPECT_FALSE(queue.Flush(1));
  reader->Release();
  ASSERT_TRUE(queue.Flush(kMinuteMs));
  ASSERT_EQ(reader->Lines().size(), 4u);
  EXPECT_EQ(reader->Lines()[3], "dropped 998");
  queue.Push("afterwards");
  ASSERT_TRUE(queue.Flush(kMinuteMs));
  EXPECT_EQ(reader->Lines().back(), "afterwards");
}

TEST(LogQueueTest, BytesAreBounded) {
  auto reader = std::make_shared<Reader>();
  reader->Hold();
  LogQueue queue(
      100, 10, [reader](const std::string& line) { reader->Read(line); }, DroppedLine);
  queue.Push("first");
  reader->WaitUntilItWaits();
  queue.Push("0123456789");
  queue.Push("x");
  reader->Release();
  ASSERT_TRUE(queue.Flush(kMinuteMs));
  EXPECT_THAT(reader->Lines(), ElementsAre("first", "0123456789", "dropped 1"));
}

TEST(LogQueueTest, DestructionDoesNotWaitForABlockedReader) {
  auto reader = std::make_shared<Reader>();
  reader->Hold();
  {
    LogQueue queue(
        100, 1000, [reader](const std::string& line) { reader->Read(line); }, DroppedLine);
    queue.Push("first");
    reader->WaitUntilItWaits();
  }
  reader->Release();
}

TEST(LogFileTest, AJsonEntryIsOneObject) {
  const std::string entry = FormatLogEntry(0, LogLevel::kWarning, "said", {{"text", "a \"b\"\n\xff"}, {"n", 3}}, true);
  ASSERT_EQ(entry.find('\n'), entry.size() - 1);
  const auto json = ParseJson(entry.substr(0, entry.size() - 1));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["time"], "1970-01-01T00:00:00.000Z");
  EXPECT_EQ((*json)["level"], "warning");
  EXPECT_EQ((*json)["event"], "said");
  EXPECT_EQ((*json)["text"], "a \"b\"\n\xef\xbf\xbd");
  EXPECT_EQ((*json)["n"], "3");
}

}  // namespace
}  // namespace varifocal

// Lines that strangers cause: the first of each kind at once, then one with a count in ten seconds. Method: a manual clock, and
// the lines in a file.
#include "base/log_tally.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

// What is written to standard error while `run` runs, without times.
template <typename Run>
std::string Lines(Run run) {
  testing::internal::CaptureStderr();
  run();
  std::string lines;
  std::string all = testing::internal::GetCapturedStderr();
  for (size_t at = 0, end; (end = all.find('\n', at)) != std::string::npos; at = end + 1) {
    absl::StrAppend(&lines, all.substr(all.find("W refused", at), end - all.find("W refused", at)), "\n");
  }
  return lines;
}

TEST(LogTallyTest, TheFirstAtOnceThenACount) {
  FakeClock clock;
  LogTally tally(clock);
  const LogTally::Refusal refusal = {"ListJobs", "ipv4:10.0.0.7", "none", "UNAUTHENTICATED"};
  const std::string line = "W refused what=ListJobs peer=ipv4:10.0.0.7 token=none cause=UNAUTHENTICATED count=";
  EXPECT_EQ(Lines([&] {
              for (int i = 0; i < 1000; ++i) tally.Add(refusal);
              tally.Flush();
            }),
            line + "1\n");
  clock.Advance(LogTally::kPeriodUs);
  EXPECT_EQ(Lines([&] { tally.Flush(); }), line + "999\n");
  EXPECT_EQ(Lines([&] { tally.Add(refusal); }), "") << "in the same period as the last line";
  clock.Advance(LogTally::kPeriodUs);
  EXPECT_EQ(Lines([&] { tally.Flush(); }), line + "1\n");
  clock.Advance(LogTally::kPeriodUs);
  EXPECT_EQ(Lines([&] {
              tally.Flush();
              tally.Add(refusal);
            }),
            line + "1\n")
      << "quiet for a period: the next one is written at once";
}

TEST(LogTallyTest, KindsAreBounded) {
  FakeClock clock;
  LogTally tally(clock);
  const std::string lines = Lines([&] {
    for (int i = 0; i < 100'000; ++i) tally.Add({"connection", absl::StrCat("ipv4:10.0.", i), "none", "x"});
    tally.Flush(/*also_new=*/true);
  });
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), static_cast<int64_t>(LogTally::kKindsMax) + 3);
  EXPECT_NE(lines.find("what=others peer=several token=several cause=several"), std::string::npos);
}

}  // namespace
}  // namespace varifocal

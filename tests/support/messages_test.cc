// The matcher of golden messages: against goldens that this file's own tests have in tests/testdata/goldens/messages.txt.
#include "tests/support/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/process.h"

namespace varifocal {
namespace {

TEST(MessagesTest, TextsAndValuesInTheirOrder) {
  EXPECT_THAT("top_p is 2; it must be from 0 to 1.", Message("top_p", 2, 0, 1));
  EXPECT_THAT(std::string("two\nlines"), Message());
  EXPECT_THAT("/tmp/x7/a: 3 bytes, not 4.", Message(3, 4).Varying("/tmp/x7"));
}

TEST(MessagesTest, AMissingValueFails) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("top_p is wrong.", Message("2")), "lacks \"2\"");
}

// With VARIFOCAL_UPDATE_GOLDENS=1 it would write what it is meant to refuse.
TEST(MessagesTest, OtherWordsFail) {
  if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) GTEST_SKIP();
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("reworded", Message()), "the golden message is \"as written\"");
  EXPECT_THAT("the second", Message());
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("a third", Message()), "which is a new message");
}

TEST(DISABLED_MessagesTest, MatchesOneOfTwo) { EXPECT_THAT("the first", Message()); }

TEST(MessagesTest, AMessageThatIsNoLongerMatchedFails) {
  const testing_support::ProcessResult ran = testing_support::RunProcess(
      "messages_test", {"--gtest_also_run_disabled_tests", "--gtest_filter=*MatchesOneOfTwo"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, testing::HasSubstr("has more messages"));
}

}  // namespace
}  // namespace varifocal

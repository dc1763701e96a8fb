// Lists of a daemon that never end. Method: the tokens that it might send.
#include "client/page_tokens.h"

#include <gtest/gtest.h>

namespace varifocal::client {
namespace {

TEST(PageTokensTest, FollowsWhatEnds) {
  PageTokens tokens;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(*tokens.HasNext(std::to_string(i), 1));
  EXPECT_FALSE(*tokens.HasNext("", 0));
}

TEST(PageTokensTest, RefusesWhatDoesNot) {
  PageTokens same;
  EXPECT_TRUE(*same.HasNext("a", 1));
  EXPECT_TRUE(*same.HasNext("b", 1));
  EXPECT_EQ(same.HasNext("a", 1).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(PageTokens().HasNext("a", 0).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(PageTokens().HasNext(std::string(5000, 'a'), 1).status().code(), absl::StatusCode::kInternal);
  PageTokens many;
  for (int64_t i = 0; i < PageTokens::kPagesMax; ++i) ASSERT_TRUE(many.HasNext(std::to_string(i), 1).ok());
  EXPECT_EQ(many.HasNext("one more", 1).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace varifocal::client

// Page tokens round-trip, and anything else is refused. Method: by hand, and every one-character change of a token.
#include "server/rpc/page_token.h"

#include <gtest/gtest.h>

#include "base/reason.h"

namespace varifocal {
namespace {

TEST(PageTokenTest, RoundTrips) {
  for (const std::string key : {"1", "9007199254740993", "baseline", "\xff\x00z"}) {
    const auto parsed = ParsePageToken("jobs", MakePageToken("jobs", key));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, key);
  }
  EXPECT_EQ(*ParsePageToken("jobs", ""), "");
}

TEST(PageTokenTest, RefusesWhatWasNotGivenOut) {
  const std::string token = MakePageToken("jobs", "17");
  EXPECT_FALSE(ParsePageToken("models", token).ok());
  EXPECT_FALSE(ParsePageToken("jobs", "17").ok());
  EXPECT_FALSE(ParsePageToken("jobs", token + "A").ok());
  EXPECT_FALSE(ParsePageToken("jobs", std::string(100'000, 'x')).ok());
  EXPECT_FALSE(ParsePageToken("jobs", "' OR 1=1 --").ok());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'a' ? 'b' : 'a';
    const auto parsed = ParsePageToken("jobs", changed);
    // The last base64 character has unused bits; a token that still decodes to 17 is valid.
    EXPECT_TRUE(!parsed.ok() || *parsed == "17") << i;
    EXPECT_TRUE(parsed.ok() || ReasonOf(parsed.status()).name == "BAD_PAGE_TOKEN");
  }
}

TEST(PageTokenTest, PageSizes) {
  EXPECT_EQ(*CheckPageSize(0), kDefaultPageSize);
  EXPECT_EQ(*CheckPageSize(7), 7);
  EXPECT_EQ(*CheckPageSize(kPageSizeMax - 1), kPageSizeMax - 1);
  EXPECT_EQ(*CheckPageSize(kPageSizeMax), kPageSizeMax);
  EXPECT_EQ(*CheckPageSize(kPageSizeMax + 1), kPageSizeMax);
  EXPECT_EQ(*CheckPageSize(INT32_MAX), kPageSizeMax);
  EXPECT_EQ(ReasonOf(CheckPageSize(-1).status()).name, "BAD_PAGE_SIZE");
}

}  // namespace
}  // namespace varifocal

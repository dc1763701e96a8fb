// Messages for people, held by one golden file instead of by the words of many tests.
//
//   EXPECT_THAT(status.message(), Message("top_p", "2"));
//
// holds when the text is the one that the golden file has for this place of this test and contains each of the values.
// A test states what the message must tell (names, values, limits); the sentence itself stands once, in
// tests/testdata/goldens/messages.txt, where all of them can be read in a row.
//
// To reword: change the sentence, run the tests with VARIFOCAL_UPDATE_GOLDENS=1, and read the difference of the file.
//
// A place is the running test and how many messages it has matched so far; a test that matches fewer than the file has
// fails too. What differs between runs (directories, ports, process numbers) is named with Varying and replaced by its
// number: `<1>`.
// Threads: of the test's own thread only.
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// Empty when `text` is the golden message of the next place of this test, else what is wrong.
std::string CompareWithGoldenMessage(absl::string_view text, const std::vector<std::string>& varying);

class MessageMatcher {
 public:
  using is_gtest_matcher = void;

  explicit MessageMatcher(std::vector<std::string> values) : values_(std::move(values)) {}

  // The same, with these parts of the text replaced before it is compared.
  template <typename... Parts>
  [[nodiscard]] MessageMatcher Varying(const Parts&... parts) const {
    MessageMatcher matcher = *this;
    (matcher.varying_.push_back(absl::StrCat(parts)), ...);
    return matcher;
  }

  bool MatchAndExplain(absl::string_view text, testing::MatchResultListener* listener) const;
  void DescribeTo(std::ostream* os) const;
  void DescribeNegationTo(std::ostream* os) const { *os << "is another message"; }

 private:
  std::vector<std::string> values_;   // strings that the text contains
  std::vector<std::string> varying_;  // strings replaced by <1>, <2>, ..
  // EXPECT_THAT asks again for the explanation of a failure: the same place of the test.
  mutable std::string failed_text_;
  mutable std::string failure_;
};

template <typename... Values>
MessageMatcher Message(const Values&... values) {
  return MessageMatcher({absl::StrCat(values)...});
}

}  // namespace varifocal

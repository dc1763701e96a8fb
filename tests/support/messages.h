// Messages for people, compared with one golden file.
//
//   EXPECT_THAT(status.message(), Message("top_p", "2"));
//
// matches when the text contains each of the values and equals the golden text of this place in this test. A test names the
// values that a message must contain (names, numbers, limits); the sentences are in tests/testdata/goldens/messages.txt alone.
//
// MessageIn(values...) does the same for a sentence of a page or of an output: the first block that contains all of the
// values. Blocks of HTML are the texts of block-level elements, of titles and of SVG's texts, without tags and with
// entities decoded; blocks of other texts are lines. No-break spaces are blanks.
//
//   EXPECT_THAT(page, MessageIn("p adjusted", "Holm", 8));
//
// To reword: change the sentence, run the tests with VARIFOCAL_UPDATE_GOLDENS=1, and read the difference of the file.
//
// A place is the running test and the number of messages it has matched before. A test that matches fewer messages than the
// file has fails. Temporary paths, the working directory, ports of this host, times and durations become <tmp>, <cwd>,
// <port>, <time> and <duration>; other text that differs between runs is given to Varying and replaced by its number, <1>.
//
// Threads: the test's own thread only.
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/reason.h"

namespace varifocal {

// The blocks of a page or an output, without empty ones. For tests.
std::vector<std::string> BlocksOf(absl::string_view text);

// Empty when `text` is the golden message of the next place of this test, else what is wrong.
std::string CompareWithGoldenMessage(absl::string_view text, const std::vector<std::string>& varying);

class MessageMatcher {
 public:
  using is_gtest_matcher = void;

  // kBlock: one block of the text is the message.
  enum class Extent { kWhole, kBlock };

  explicit MessageMatcher(std::vector<std::string> values, Extent extent = Extent::kWhole)
      : extent_(extent), values_(std::move(values)) {}

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
  [[nodiscard]] std::string Compare(absl::string_view text) const;

  Extent extent_;
  std::vector<std::string> values_;   // strings that the text contains
  std::vector<std::string> varying_;  // strings replaced by <1>, <2>, ..
  // EXPECT_THAT asks again for the explanation of a failure: the same place of the test.
  mutable std::string failed_text_;
  mutable std::string failure_;
};

template <typename... Values>
MessageMatcher Message(const Values&... values) {
  return MessageMatcher(std::vector<std::string>{absl::StrCat(values)...});
}

// At least one value: it finds the block.
template <typename Value, typename... Values>
MessageMatcher MessageIn(const Value& value, const Values&... values) {
  return MessageMatcher({absl::StrCat(value), absl::StrCat(values)...}, MessageMatcher::Extent::kBlock);
}

// EXPECT_THAT(status, IsError(absl::StatusCode::kNotFound, Message("a"))), or RefusedFor("BAD_TOP_P", Message("2")).
template <typename Matcher>
auto IsError(absl::StatusCode code, const Matcher& message) {
  return testing::AllOf(testing::Property("code", &absl::Status::code, code),
                        testing::Property("message", &absl::Status::message, message));
}
template <typename Matcher>
auto RefusedFor(const std::string& reason, const Matcher& message) {
  return testing::AllOf(testing::ResultOf([](const absl::Status& status) { return ReasonOf(status).name; }, reason),
                        testing::Property("message", &absl::Status::message, message));
}

}  // namespace varifocal

// Filters take the scored answer out of a written text: a chain of them is a task's extraction rule.
//
// Each filter gets the text that the one before it left, without white space at its ends; the first one gets the text before
// the first stop string and outside of thinking blocks (answer.h). A filter that finds nothing ends the chain: nothing is
// extracted, and the answer is wrong with every metric. A filter is a row of the table in filters.cc.
//
// Patterns are RE2's, so that none takes more than linear time for a match: no references back and no looking around.
//
// Errors:  INVALID_ARGUMENT, one sentence; their field (base/reason.h) is the key: "pattern".
// Threads: immutable once made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal {

inline constexpr size_t kFilterCountMax = 16;        // of a chain
inline constexpr size_t kFilterTextBytesMax = 1024;  // of a pattern or a text
inline constexpr int kFilterMatchesMax = 100'000;    // of a pattern in one answer; later ones are not seen

struct FilterSpec {
  std::string filter;        // a row of the table
  std::string pattern;       // of regex
  std::optional<int> group;  // of regex; none: 1 where the pattern has a group, else 0, the whole match
  std::string match;         // of regex, after, before: "first", "last"; of regex also "all", joined by ", "
  std::string text;          // of after, before: what is looked for; of strip: characters besides white space

  friend bool operator==(const FilterSpec&, const FilterSpec&) = default;
};

std::vector<std::string> FilterNames();
// What follows "Answer:" on the last line that begins with it, marks of emphasis apart: of native tasks in chat form.
FilterSpec AnswerLineFilter();

// With defaults filled in.
absl::StatusOr<FilterSpec> ValidateFilter(FilterSpec spec);

class AnswerFilters {
 public:
  AnswerFilters() = default;  // leaves every text as it is
  // Of validated filters.
  explicit AnswerFilters(absl::Span<const FilterSpec> specs);

  bool empty() const { return steps_.empty(); }
  // None where a filter finds nothing, or nothing but white space is left.
  std::optional<std::string> Apply(absl::string_view text) const;

  class Step;  // a filter, compiled

 private:
  std::vector<std::shared_ptr<const Step>> steps_;
};

// One line for people: `regex Answer: (.*), group 1, last match; lower_case`.
std::string FiltersText(absl::Span<const FilterSpec> specs);

}  // namespace varifocal

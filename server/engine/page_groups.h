// How many pages a sequence needs of each page group, and how a budget of bytes is shared out among the groups.
//
// Full layers keep every page of a sequence. Window layers keep those that a later row may look at, those that the step
// at hand writes, and, where prefixes are shared, the last few of a prompt: whoever asks another question on it goes on
// from there. So a long prompt costs a window group a fixed number of pages.
//
// Shapes: pages hold 128 tokens of all layers of their group.
#pragma once

#include <cstdint>
#include <vector>

#include "server/model/transformer.h"

namespace varifocal {

struct PageGroupShape {
  int64_t window = 0;                // 0: every page stays, as full layers need them
  int64_t page_bytes = 0;            // all layers of the group
  bool reads_previous_page = false;  // annotations of a row go on from the page before its own

  bool is_full() const { return window == 0; }
  // The first page that a row at `position`, or a later one, may look at.
  int64_t FirstPage(int64_t position) const;
  // Pages before a page's own that its rows may look at, at most; of a window group.
  int64_t PagesBefore() const;
};

std::vector<PageGroupShape> PageGroupShapes(const Transformer& model);

int64_t PagesFor(int64_t token_count);

// Whole pages at the end of a prompt whose window pages stay for others: a question of up to four pages may differ, and
// what stands before it is found again.
inline constexpr int64_t kQuestionPages = 4;

// What is known of a sequence when it is admitted.
struct SequenceExtent {
  int64_t prompt_rows = 0;
  int64_t later_rows = 0;     // generated, or the longest continuation
  bool rewinds = false;       // each continuation begins at the prompt's end again
  int64_t step_rows_max = 0;  // of its prompt in one step
  bool shares_prefix = false;
};

// The most pages of the group that it holds at any time.
int64_t PagesAtOnce(const PageGroupShape& group, const SequenceExtent& extent);

struct PageBudget {
  int64_t bytes = 0;
  int64_t context_tokens_max = 0;  // of the model
  int64_t step_rows_max = 0;
  int64_t contexts_max = 0;   // full contexts worth having at once; 0: as many as the bytes hold
  int64_t sequences_max = 0;  // short ones worth having at once
};

// Pages of each group: at first what one full context needs (or as much of one as the bytes hold), then half of the
// rest for window pages, so that short sequences find company, and everything left for full ones. A group gets 0 when
// the bytes hold not even one page of each.
std::vector<int64_t> SharePages(const std::vector<PageGroupShape>& groups, const PageBudget& budget);

// Tokens of the longest single sequence that these pages hold.
int64_t LongestSequence(const std::vector<PageGroupShape>& groups, const std::vector<int64_t>& page_counts,
                        int64_t context_tokens_max, int64_t step_rows_max);

}  // namespace varifocal

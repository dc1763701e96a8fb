// Pages that a sequence needs of each page group, and the distribution of a byte budget among the groups.
//
// Full layers keep every page of a sequence. Window layers keep those visible to later rows, those written by the
// current step, and, where prefixes are shared, the last few of a prompt, so that later questions on it can reuse the
// prefix. So a long prompt needs a fixed number of pages of a window group.
//
// A page of recurrent layers is the state after its last row so far. It is a window of one page: a step reads the state
// before its first row and leaves that after its last one. Between them it leaves those at the ends of prefixes that may
// be reused, where pages are free. The state of a partial page is overwritten by the next step, so continuations that
// begin there need a copy of it.
//
// Shapes: pages hold 128 tokens of all layers of their group.
#pragma once

#include <cstdint>
#include <vector>

#include "server/model/transformer.h"

namespace varifocal {

struct PageGroupShape {
  int64_t window = 0;                // 0: full layers, every page is kept
  bool holds_states = false;         // of recurrent layers
  int64_t page_bytes = 0;            // all layers of the group
  bool reads_previous_page = false;  // annotations of a row depend on the page before its own

  bool is_full() const { return window == 0; }
  // The first page visible to rows from `position` on.
  int64_t FirstPage(int64_t position) const;
  // Maximum number of earlier pages visible to the rows of a page; of a window group.
  int64_t PagesBefore() const;
};

std::vector<PageGroupShape> PageGroupShapes(const Transformer& model);

int64_t PagesFor(int64_t token_count);

// Whole pages at the end of a prompt whose window pages are kept for prefix reuse: questions of up to four pages may
// differ, and the prefix before them is found.
inline constexpr int64_t kQuestionPages = 4;

// Properties of a sequence known at admission.
struct SequenceExtent {
  int64_t prompt_rows = 0;
  int64_t later_rows = 0;     // generated, or the longest continuation
  bool rewinds = false;       // each continuation begins at the prompt's end
  int64_t step_rows_max = 0;  // of its prompt in one step
  bool shares_prefix = false;
};

// The maximum number of pages of the group that it holds at any time.
int64_t PagesAtOnce(const PageGroupShape& group, const SequenceExtent& extent);

struct PageBudget {
  int64_t bytes = 0;
  int64_t context_tokens_max = 0;  // of the model
  int64_t step_rows_max = 0;
  int64_t contexts_max = 0;   // useful number of full contexts; 0: as many as fit
  int64_t sequences_max = 0;  // useful number of short ones
};

// Pages of each group: first for one full context (or as much of one as fits), then half of the rest for window pages,
// so that short sequences can be batched, and the remainder for full ones. All 0 when not even one page of each group
// fits.
std::vector<int64_t> SharePages(const std::vector<PageGroupShape>& groups, const PageBudget& budget);

// Tokens of the longest single sequence that fits into these pages.
int64_t LongestSequence(const std::vector<PageGroupShape>& groups, const std::vector<int64_t>& page_counts,
                        int64_t context_tokens_max, int64_t step_rows_max);

}  // namespace varifocal

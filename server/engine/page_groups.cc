#include "server/engine/page_groups.h"

#include <algorithm>

namespace varifocal {
namespace {

using kernels::kPageTokens;

constexpr int64_t kPagesMax = INT32_MAX;

// The largest n in [low, high] that `holds`, which holds for all up to some number; low - 1 when it never does.
template <typename Predicate>
int64_t Largest(int64_t low, int64_t high, const Predicate& holds) {
  int64_t best = low - 1;
  while (low <= high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      best = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return best;
}

}  // namespace

int64_t PagesFor(int64_t token_count) { return (token_count + kPageTokens - 1) / kPageTokens; }

int64_t PageGroupShape::FirstPage(int64_t position) const {
  if (is_full()) return 0;
  int64_t page = std::max<int64_t>(position - window + 1, 0) / kPageTokens;
  if (reads_previous_page) page = std::min(page, std::max<int64_t>(position / kPageTokens - 1, 0));
  return page;
}

int64_t PageGroupShape::PagesBefore() const {
  return std::max<int64_t>(PagesFor(window - 1), reads_previous_page ? 1 : 0);
}

std::vector<PageGroupShape> PageGroupShapes(const Transformer& model) {
  std::vector<PageGroupShape> shapes;
  const ModelConfig& config = model.config();
  for (size_t group = 0; group < config.page_groups.size(); ++group) {
    const bool holds_states = config.page_groups[group].holds_states;
    bool reads_all_pages = false;
    for (int64_t layer = 0; layer < config.layer_count; ++layer) {
      const bool is_inside = config.layers[layer].page_group == static_cast<int64_t>(group);
      reads_all_pages = reads_all_pages || (is_inside && !holds_states && config.attention.ReadsAllPages(layer));
    }
    shapes.push_back({.window = reads_all_pages ? 0 : config.page_groups[group].window,
                      .holds_states = holds_states,
                      .page_bytes = model.PageBytes(group),
                      .reads_previous_page = !holds_states && config.attention.ReadsPreviousPage()});
  }
  return shapes;
}

int64_t PagesAtOnce(const PageGroupShape& group, const SequenceExtent& extent) {
  const int64_t all = PagesFor(extent.prompt_rows + extent.later_rows);
  if (group.is_full()) return all;
  if (group.holds_states) {
    if (!extent.rewinds) return std::min<int64_t>(all, 2);
    // States after the steps of a long continuation, and the copy of the one at the prompt's end.
    return std::min(all, 3 + PagesFor(extent.later_rows)) + 1;
  }
  // Rows that do not begin at a page boundary span one page more.
  const int64_t step_rows = std::max<int64_t>(std::min(extent.step_rows_max, extent.prompt_rows), 1);
  const int64_t written = PagesFor(std::max(step_rows, extent.rewinds ? extent.later_rows : 1)) + 1;
  const int64_t shared = extent.shares_prefix ? std::min(kQuestionPages, extent.prompt_rows / kPageTokens) + 1 : 0;
  return std::min(all, group.PagesBefore() + std::max(written, shared));
}

std::vector<int64_t> SharePages(const std::vector<PageGroupShape>& groups, const PageBudget& budget) {
  const int64_t context_pages = PagesFor(budget.context_tokens_max);
  const bool has_full = std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group.is_full(); });
  // Pages of one long sequence in a window group.
  auto ring = [&](const PageGroupShape& group) {
    const SequenceExtent longest{
        .prompt_rows = budget.context_tokens_max, .step_rows_max = budget.step_rows_max, .shares_prefix = true};
    // States at the ends of reusable prefixes are kept where pages are free.
    return PagesAtOnce(group, longest) + (group.holds_states ? kQuestionPages + 1 : 0);
  };
  auto count = [&](const PageGroupShape& group, int64_t full_pages, int64_t rings) {
    if (group.is_full()) return full_pages;
    const int64_t wanted = rings > kPagesMax / ring(group) ? kPagesMax : rings * ring(group);
    return has_full ? std::min(full_pages, wanted) : std::min(kPagesMax, wanted);
  };
  auto fits = [&](int64_t full_pages, int64_t rings) {
    int64_t left = budget.bytes;
    for (const PageGroupShape& group : groups) {
      const int64_t pages = count(group, full_pages, rings);
      if (pages > left / group.page_bytes) return false;
      left -= pages * group.page_bytes;
    }
    return true;
  };
  auto counts = [&](int64_t full_pages, int64_t rings) {
    std::vector<int64_t> pages;
    for (const PageGroupShape& group : groups) pages.push_back(count(group, full_pages, rings));
    return pages;
  };
  const int64_t full_max =
      budget.contexts_max == 0 ? kPagesMax : std::min(kPagesMax, budget.contexts_max * context_pages);
  const int64_t rings_max = budget.contexts_max == 0 ? kPagesMax : budget.contexts_max + budget.sequences_max;
  if (!has_full) {
    const int64_t rings = Largest(1, rings_max, [&](int64_t n) { return fits(0, n); });
    if (rings >= 1) return counts(0, rings);
    // Less than one long sequence: pages of every group alike.
    const int64_t pages = Largest(1, kPagesMax, [&](int64_t n) {
      int64_t bytes = 0;
      for (const PageGroupShape& group : groups) bytes += group.page_bytes;
      return n <= budget.bytes / bytes;
    });
    return std::vector<int64_t>(groups.size(), pages);
  }
  int64_t full = Largest(1, full_max, [&](int64_t n) { return fits(n, 1); });
  if (full <= context_pages) return counts(full, 1);
  int64_t one_context = 0;
  for (const PageGroupShape& group : groups) one_context += count(group, context_pages, 1) * group.page_bytes;
  PageBudget half = budget;
  half.bytes = one_context + (budget.bytes - one_context) / 2;
  int64_t rings = Largest(1, rings_max, [&](int64_t n) {
    int64_t bytes = 0;
    for (const PageGroupShape& group : groups) bytes += count(group, context_pages, n) * group.page_bytes;
    return bytes <= half.bytes;
  });
  full = Largest(context_pages, full_max, [&](int64_t n) { return fits(n, rings); });
  rings = Largest(rings, rings_max, [&](int64_t n) { return fits(full, n); });
  return counts(full, rings);
}

int64_t LongestSequence(const std::vector<PageGroupShape>& groups, const std::vector<int64_t>& page_counts,
                        int64_t context_tokens_max, int64_t step_rows_max) {
  return std::max<int64_t>(Largest(1, context_tokens_max,
                                   [&](int64_t tokens) {
                                     for (size_t i = 0; i < groups.size(); ++i) {
                                       const SequenceExtent extent{.prompt_rows = tokens,
                                                                   .step_rows_max = step_rows_max};
                                       if (PagesAtOnce(groups[i], extent) > page_counts[i]) return false;
                                     }
                                     return true;
                                   }),
                           0);
}

}  // namespace varifocal

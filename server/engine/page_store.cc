#include "server/engine/page_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace varifocal {
namespace {

std::vector<PageAllocator> MakeAllocators(const std::vector<int64_t>& page_counts) {
  return std::vector<PageAllocator>(page_counts.begin(), page_counts.end());
}

}  // namespace

PageStore::PageStore(std::vector<PageGroupShape> groups, const std::vector<int64_t>& page_counts)
    : groups_(std::move(groups)),
      allocators_(MakeAllocators(page_counts)),
      reserved_(groups_.size(), 0),
      cache_(&allocators_, groups_) {}

int64_t PageStore::Available(size_t group) const {
  return allocators_[group].free_count() + allocators_[group].idle_count() - reserved_[group];
}

void PageStore::Reserve(size_t group, int64_t count, HeldPages& pages) {
  reserved_[group] += count - pages.reserved[group];
  pages.reserved[group] = count;
}

bool PageStore::Admit(const AdmissionRequest& request, HeldPages* pages) {
  // Everything is allocated before a page is acquired: an exception leaves nothing held.
  HeldPages none;
  none.page_end = PagesFor(request.extent.prompt_rows + request.extent.later_rows);
  none.rewinds = request.extent.rewinds;
  none.reserved.assign(groups_.size(), 0);
  none.released_end.assign(groups_.size(), 0);
  none.held.assign(groups_.size(), 0);
  none.held_max.assign(groups_.size(), 0);
  none.rewound.assign(groups_.size(), -1);
  none.tables = cache_.Acquire(request.hashes, request.token_ids);
  *pages = std::move(none);
  const int64_t cached = pages->page_count();
  for (size_t group = 0; group < groups_.size(); ++group) {
    const PageGroupShape& shape = groups_[group];
    pages->released_end[group] = shape.FirstPage(cached * kernels::kPageTokens);
    pages->held[group] = cached - pages->released_end[group];
    pages->held_max[group] = PagesAtOnce(shape, request.extent);
    const int64_t wanted = shape.is_full()
                               ? PagesFor(request.rows_now) - cached
                               : std::min(pages->held_max[group] - pages->held[group], ToCome(group, *pages));
    if (Available(group) < wanted + (shape.is_full() ? request.spare_pages : 0)) {
      Release(*pages);
      return false;
    }
    Reserve(group, wanted, *pages);
  }
  return true;
}

int64_t PageStore::ToCome(size_t group, const HeldPages& pages) const {
  const bool is_copied = groups_[group].holds_states && pages.rewinds && pages.rewound[group] < 0;
  return pages.page_end - std::ssize(pages.tables[group]) + (is_copied ? 1 : 0);
}

std::optional<int32_t> PageStore::TakeFor(size_t group, bool is_reserved, HeldPages& pages) {
  if (is_reserved && pages.reserved[group] > 0) {
    Reserve(group, pages.reserved[group] - 1, pages);
  } else if (Available(group) < 1) {
    return std::nullopt;
  }
  PageAllocator& allocator = allocators_[group];
  std::optional<int32_t> page = allocator.Take();
  if (!page.has_value() && cache_.EvictOne(group)) page = allocator.Take();
  return page;
}

bool PageStore::TakeOne(size_t group, HeldPages& pages) {
  std::vector<int32_t>& table = pages.tables[group];
  if (table.size() == table.capacity()) table.reserve(std::max<size_t>(8, 2 * table.size()));  // before a page is taken
  const std::optional<int32_t> page = TakeFor(group, true, pages);
  if (!page.has_value()) return false;
  table.push_back(*page);
  ++pages.held[group];
  return true;
}

bool PageStore::ExtendStates(size_t group, int64_t page_end, HeldPages& pages, Keeps keeps) {
  std::vector<int32_t>& table = pages.tables[group];
  const int64_t begin = std::ssize(table), last = page_end - 1;
  table.resize(std::max(begin, page_end), -1);
  const auto take = [&](int64_t page, bool is_reserved) {
    if (table[page] >= 0) return true;
    const std::optional<int32_t> taken = TakeFor(group, is_reserved, pages);
    if (!taken.has_value()) return false;
    table[page] = *taken;
    ++pages.held[group];
    return true;
  };
  if (!take(last, true)) {
    table.resize(begin);
    return false;
  }
  for (int64_t page = begin; page < last; ++page) {
    if (keeps(groups_[group], page) && !take(page, false)) break;
  }
  return true;
}

bool PageStore::Extend(int64_t position_end, HeldPages& pages, Keeps keeps) {
  const int64_t page_end = PagesFor(position_end);
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].holds_states) {
      if (!ExtendStates(group, page_end, pages, keeps)) return false;
      continue;
    }
    while (std::ssize(pages.tables[group]) < page_end) {
      if (!TakeOne(group, pages)) return false;
    }
  }
  return true;
}

void PageStore::Rewind(int64_t prompt_rows, bool again, HeldPages& pages, std::vector<PageCopy>* copies) {
  if (prompt_rows % kernels::kPageTokens == 0) return;  // a whole page is not written again
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!groups_[group].holds_states) continue;
    const int32_t own = pages.tables[group][prompt_rows / kernels::kPageTokens];
    int32_t& copy = pages.rewound[group];
    if (copy >= 0) {
      copies->push_back({group, copy, own});
    } else if (again) {
      copies->reserve(copies->size() + 1);
      const std::optional<int32_t> taken = TakeFor(group, true, pages);
      VF_CHECK(taken.has_value(), "a sequence that rewinds has a page reserved for it");
      copy = *taken;
      ++pages.held[group];
      copies->push_back({group, own, copy});
    }
  }
}

void PageStore::ReleaseOutsideWindow(int64_t position, HeldPages& pages) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].is_full()) continue;
    std::vector<int32_t>& table = pages.tables[group];
    const int64_t first = std::min(groups_[group].FirstPage(position), std::ssize(table));
    for (int64_t& end = pages.released_end[group]; end < first; ++end) {
      if (table[end] < 0) continue;
      allocators_[group].Release(std::exchange(table[end], -1));
      --pages.held[group];
    }
    // Reserves later pages in place of the released ones.
    const int64_t wanted = std::clamp<int64_t>(pages.held_max[group] - pages.held[group], 0, ToCome(group, pages));
    Reserve(group, std::max(pages.reserved[group], wanted), pages);
  }
}

void PageStore::Release(HeldPages& pages) {
  for (size_t group = 0; group < pages.tables.size(); ++group) {
    for (const int32_t page : pages.tables[group]) {
      if (page >= 0) allocators_[group].Release(page);
    }
    if (pages.rewound[group] >= 0) allocators_[group].Release(pages.rewound[group]);
    Reserve(group, 0, pages);
  }
  pages = HeldPages();
}

bool PageStore::Split(const HeldPages& pages, int64_t prompt_rows, int64_t position_end, Branch* branch,
                      std::vector<PageCopy>* copies) {
  const int64_t begin = prompt_rows / kernels::kPageTokens, end = PagesFor(position_end);
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (Available(group) < end - begin) return false;
  }
  // As in Admit: all allocations before the first page is taken.
  branch->own_begin = begin;
  branch->tables.clear();
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<int32_t>& shared = pages.tables[group];
    branch->tables.emplace_back().reserve(end);
    branch->tables.back().assign(shared.begin(), shared.begin() + begin);
  }
  copies->reserve(copies->size() + groups_.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<int32_t>& shared = pages.tables[group];
    std::vector<int32_t>& table = branch->tables[group];
    const bool is_partial = prompt_rows % kernels::kPageTokens != 0;
    for (int64_t page = begin; page < end; ++page) {
      if (groups_[group].holds_states && page + 1 < end && !(is_partial && page == begin)) {
        table.push_back(-1);
        continue;
      }
      std::optional<int32_t> taken = allocators_[group].Take();
      if (!taken.has_value() && cache_.EvictOne(group)) taken = allocators_[group].Take();
      VF_CHECK(taken.has_value(), "availability was just checked");
      table.push_back(*taken);
    }
    // The prompt's last page is partial: copy it.
    const int32_t rewound = pages.rewound[group];
    if (is_partial) copies->push_back({group, rewound >= 0 ? rewound : shared[begin], table[begin]});
  }
  return true;
}

void PageStore::Release(Branch& branch) {
  for (size_t group = 0; group < branch.tables.size(); ++group) {
    for (size_t page = branch.own_begin; page < branch.tables[group].size(); ++page) {
      if (const int32_t own = branch.tables[group][page]; own >= 0) allocators_[group].Release(own);
    }
  }
  branch = Branch();
}

int64_t PageStore::idle_count() const {
  int64_t count = 0;
  for (const PageAllocator& allocator : allocators_) count += allocator.idle_count();
  return count;
}

int64_t PageStore::used_count() const {
  int64_t count = 0;
  for (const PageAllocator& allocator : allocators_)
    count += allocator.page_count() - allocator.free_count() - allocator.idle_count();
  return count;
}

int64_t PageStore::bytes_in_use() const {
  int64_t bytes = 0;
  for (size_t group = 0; group < groups_.size(); ++group)
    bytes += (allocators_[group].page_count() - allocators_[group].free_count()) * groups_[group].page_bytes;
  return bytes;
}

int64_t PageStore::bytes_peak() const {
  int64_t bytes = 0;
  for (size_t group = 0; group < groups_.size(); ++group)
    bytes += allocators_[group].used_peak() * groups_[group].page_bytes;
  return bytes;
}

}  // namespace varifocal

// The pages of an engine: promised when a sequence is admitted, taken as it grows, let go as its windows pass, and
// shared through the prefix cache.
//
// A promise is a number, not pages: what is promised to one sequence is not promised to another, so that sequences
// admitted together rarely run out. When one does all the same, Extend says so and somebody must give pages back.
//
// Threads: not thread-safe; owned by the engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/sha256.h"
#include "server/engine/page_allocator.h"
#include "server/engine/page_groups.h"
#include "server/engine/prefix_cache.h"

namespace varifocal {

// What one sequence holds, by page group.
struct HeldPages {
  std::vector<std::vector<int32_t>> tables;  // [group][page]; -1 where a window has passed
  std::vector<int64_t> passed;               // [group]: pages before this one were let go
  std::vector<int64_t> held;                 // [group]: pages held now
  std::vector<int64_t> promised;             // [group]: pages not taken yet
  std::vector<int64_t> held_max;             // [group]: what it holds at once, at most
  int64_t page_end = 0;                      // pages it may ever have

  // Of full groups; of window groups those that have been, too.
  int64_t page_count() const { return tables.empty() ? 0 : static_cast<int64_t>(tables[0].size()); }
};

// Pages of rows that go on from the same prompt beside others: the prompt's whole pages, then pages of their own.
struct Branch {
  std::vector<std::vector<int32_t>> tables;  // [group][page]
  int64_t own_begin = 0;                     // pages from here on are its own
};

// A page of one group that must be copied before a branch runs.
struct PageCopy {
  size_t group = 0;
  int32_t from = 0;
  int32_t to = 0;
};

class PageStore {
 public:
  PageStore(std::vector<PageGroupShape> groups, const std::vector<int64_t>& page_counts);

  struct AdmissionRequest {
    absl::Span<const Sha256Digest> names;  // of the pages that may come from the cache
    absl::Span<const int32_t> token_ids;
    SequenceExtent extent;
    int64_t rows_now = 0;     // rows that full layers must have room for before anything is generated
    int64_t spare_pages = 0;  // of full groups, to be left for others
  };
  // Cached pages of the longest prefix and a promise of the rest. False, with nothing held, when that cannot be had.
  bool Admit(const AdmissionRequest& request, HeldPages* pages);
  // Takes pages up to position_end; false when none is left (those that were got are kept).
  bool Extend(int64_t position_end, HeldPages& pages);
  // Lets go of what no row at `position` or after it looks at.
  void Pass(int64_t position, HeldPages& pages);
  void Release(HeldPages& pages);

  // Rows from prompt_rows up to position_end in pages of their own, beside those of `pages`; adds the copies that they
  // begin with. False, with nothing taken, unless there are pages that nobody was promised.
  bool Split(const HeldPages& pages, int64_t prompt_rows, int64_t position_end, Branch* branch,
             std::vector<PageCopy>* copies);
  void Release(Branch& branch);

  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }
  const std::vector<PageGroupShape>& groups() const { return groups_; }
  bool has_windows() const { return !groups_.back().is_full(); }

  // Over all groups.
  int64_t idle_count() const;  // held by the prefix cache alone
  int64_t used_count() const;  // held by sequences
  int64_t bytes_in_use() const;
  int64_t bytes_peak() const;  // the most of each group at any time

 private:
  int64_t Available(size_t group) const;
  bool TakeOne(size_t group, HeldPages& pages);
  void Promise(size_t group, int64_t count, HeldPages& pages);

  const std::vector<PageGroupShape> groups_;
  std::vector<PageAllocator> allocators_;
  std::vector<int64_t> promised_;  // over all sequences
  PrefixCache cache_;
};

}  // namespace varifocal

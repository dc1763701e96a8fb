// The pages of an engine: reserved at admission of a sequence, allocated as it grows, released when they leave its
// windows, and shared through the prefix cache.
//
// A reservation is a count, not specific pages, and is exclusive, so that admitted sequences rarely run out of pages.
// When one does, Extend fails and the scheduler must preempt a sequence.
//
// Threads: not thread-safe; owned by the engine thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/sha256.h"
#include "server/engine/page_allocator.h"
#include "server/engine/page_groups.h"
#include "server/engine/prefix_cache.h"

namespace varifocal {

// The pages of one sequence, by page group.
struct HeldPages {
  std::vector<std::vector<int32_t>> tables;  // [group][page]; -1 for pages released by a window, and states not kept
  std::vector<int64_t> released_end;         // [group]: pages before this one were released
  std::vector<int64_t> held;                 // [group]: pages held now
  std::vector<int64_t> reserved;             // [group]: pages not allocated yet
  std::vector<int64_t> held_max;             // [group]: maximum held at once
  std::vector<int32_t> rewound;              // [group]: copy of the state at the prompt's end; -1: none
  int64_t page_end = 0;                      // limit of its page count
  bool rewinds = false;                      // SequenceExtent::rewinds: `rewound` may come

  // Of full groups; of window groups including released ones.
  int64_t page_count() const { return tables.empty() ? 0 : std::ssize(tables[0]); }
};

// Pages of one of several branches of a prompt: the prompt's whole pages, then the branch's own pages.
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
    absl::Span<const Sha256Digest> hashes;  // of the pages that may come from the cache
    absl::Span<const int32_t> token_ids;
    SequenceExtent extent;
    int64_t rows_now = 0;     // rows that full layers must have pages for before generation
    int64_t spare_pages = 0;  // of full groups, left for other sequences
  };
  // Acquires cached prefix pages and reserves the rest; returns false, acquiring nothing, if too few are free.
  bool Admit(const AdmissionRequest& request, HeldPages* pages);
  // Whether a page of a window group is left for reuse by others (PrefixCache).
  using Keeps = absl::FunctionRef<bool(const PageGroupShape& group, int64_t page)>;
  // Allocates pages up to position_end; false when none is free (those already allocated are kept). Of states that of
  // the last position, and where pages are free those that are kept.
  bool Extend(int64_t position_end, HeldPages& pages, Keeps keeps);
  // Before rows after the prompt are computed, in place of earlier ones: the copies that restore the state at the
  // prompt's end, where that is in a partial page. The first time it is still there, and is saved if `again`.
  void Rewind(int64_t prompt_rows, bool again, HeldPages& pages, std::vector<PageCopy>* copies);
  // Releases pages that are not visible to rows from `position` on.
  void ReleaseOutsideWindow(int64_t position, HeldPages& pages);
  void Release(HeldPages& pages);

  // Allocates own pages for rows from prompt_rows up to position_end; appends the required page copies. False, allocating
  // nothing, if too few unreserved pages are free.
  bool Split(const HeldPages& pages, int64_t prompt_rows, int64_t position_end, Branch* branch,
             std::vector<PageCopy>* copies);
  void Release(Branch& branch);

  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }
  const std::vector<PageGroupShape>& groups() const { return groups_; }
  bool has_windows() const { return !groups_.back().is_full(); }

  // Over all groups.
  int64_t idle_count() const;  // held only by the prefix cache
  int64_t used_count() const;  // held by sequences
  int64_t bytes_in_use() const;
  int64_t bytes_peak() const;  // sum of the groups' peaks

 private:
  int64_t Available(size_t group) const;
  std::optional<int32_t> TakeFor(size_t group, bool is_reserved, HeldPages& pages);
  bool TakeOne(size_t group, HeldPages& pages);
  // Pages of the group that may be taken later.
  int64_t ToCome(size_t group, const HeldPages& pages) const;
  bool ExtendStates(size_t group, int64_t page_end, HeldPages& pages, Keeps keeps);
  void Reserve(size_t group, int64_t count, HeldPages& pages);

  const std::vector<PageGroupShape> groups_;
  std::vector<PageAllocator> allocators_;
  std::vector<int64_t> reserved_;  // over all sequences
  PrefixCache cache_;
};

}  // namespace varifocal

// Cache of prompt pages, keyed by content.
//
// The hash of a page is a SHA-256 chain: over everything that determines its bits (weights, attention setting, RoPE,
// number format, kernels: the root), then over the token ids of every page up to it. On a hit the ids are compared as
// well.
//
// An entry has one page per page group. Full layers cache every page of a prompt; window layers only those at prefix
// ends that may be reused: a prefix of n pages is found when the full groups have all n and the window groups those
// visible to the row after it. Eviction is LRU, later pages of a prompt before earlier ones; evicting a full page
// removes the whole entry. Pages in use by a sequence are not evicted.
//
// Threads: not thread-safe; owned by the engine thread.
// Cost:    a look-up of n pages hashes nothing (hashes are made once per request) and compares 128 n ids.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "base/sha256.h"
#include "server/engine/page_allocator.h"
#include "server/engine/page_groups.h"

namespace varifocal {

// Names of the first `page_count` whole pages of `token_ids`.
std::vector<Sha256Digest> HashPages(const Sha256Digest& root, absl::Span<const int32_t> token_ids, int64_t page_count);

class PrefixCache {
 public:
  // One allocator and one shape per page group; `pages` outlives the cache.
  PrefixCache(std::vector<PageAllocator>* pages, std::vector<PageGroupShape> groups);

  // Length of the longest reusable prefix, in pages: what Acquire would return.
  int64_t ReusablePageCount(absl::Span<const Sha256Digest> hashes, absl::Span<const int32_t> token_ids) const;
  // The pages of that prefix, [group][page]; -1 outside the window. Marks them as just used, and adds the caller as a
  // holder of each.
  std::vector<std::vector<int32_t>> Acquire(absl::Span<const Sha256Digest> hashes, absl::Span<const int32_t> token_ids);
  // Inserts `page` of `group`, with the `depth`-th 128 tokens of a prompt, under `hash`. No-op when the group has a page
  // there already, and for a window group where a full group has none (no prefix could use it).
  void Insert(const Sha256Digest& hash, int64_t depth, absl::Span<const int32_t> page_token_ids, size_t group,
              int32_t page);
  bool Contains(const Sha256Digest& hash) const { return entries_.contains(hash); }

  // Evicts the least recently used page of the group without other holders; false when there is none.
  bool EvictOne(size_t group);
  void Clear();

 private:
  struct Entry {
    std::vector<int32_t> pages;  // by group; -1: none
    int64_t depth = 0;
    uint64_t used = 0;  // tick of the last use
    std::vector<int32_t> token_ids;
  };
  using Entries = std::map<Sha256Digest, Entry>;
  using Order = std::tuple<uint64_t, int64_t, Sha256Digest>;  // (used, -depth, hash): eviction order
  static Order OrderOf(const Sha256Digest& hash, const Entry& entry) { return {entry.used, -entry.depth, hash}; }

  bool Holds(const Sha256Digest& hash, size_t group, absl::Span<const int32_t> token_ids) const;
  void Touch(Entries::iterator at);
  void Drop(Entries::iterator at, size_t group);
  bool has_full() const { return !groups_.empty() && groups_[0].is_full(); }

  std::vector<PageAllocator>* pages_;
  const std::vector<PageGroupShape> groups_;
  Entries entries_;
  std::vector<std::set<Order>> orders_;  // by group: the entries that have a page of it
  uint64_t tick_ = 0;
};

}  // namespace varifocal

// Pages of prompts that were seen before, found again by what they hold.
//
// The name of a page is a SHA-256 chain: over everything that decides its bits (weights, attention setting, RoPE,
// number format, kernels: the root), then over the token ids of every page up to it. On a hit the ids are compared as
// well. Pages leave in the order they were last used, later pages of a prompt before earlier ones; a page that a
// sequence uses stays.
//
// Threads: not thread-safe; owned by the engine thread.
// Cost:    a look-up of n pages hashes nothing (names are made once per request) and compares 128 n ids.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sha256.h"
#include "server/engine/page_allocator.h"

namespace varifocal {

// Names of the first `page_count` whole pages of `token_ids`.
std::vector<Sha256Digest> NamePages(const Sha256Digest& root, absl::Span<const int32_t> token_ids, int64_t page_count);

class PrefixCache {
 public:
  explicit PrefixCache(PageAllocator* pages) : pages_(pages) {}

  // The pages held for the longest run of `names` from the first on, at most names.size(). Marks them as just used, and
  // makes the caller a holder of each.
  std::vector<int32_t> Acquire(absl::Span<const Sha256Digest> names, absl::Span<const int32_t> token_ids);
  // Keeps `page`, holding the `depth`-th 128 tokens of a prompt, under `name`. Does nothing when the name is known.
  void Insert(const Sha256Digest& name, int64_t depth, absl::Span<const int32_t> page_token_ids, int32_t page);
  bool Contains(const Sha256Digest& name) const { return entries_.contains(name); }

  // Frees the least recently used page that nobody else holds; false when there is none.
  bool EvictOne();
  void Clear();

  int64_t page_count() const { return static_cast<int64_t>(entries_.size()); }
  // Pages that EvictOne could free.
  int64_t evictable_count() const;

 private:
  struct Entry {
    int32_t page = 0;
    int64_t depth = 0;
    uint64_t used = 0;  // tick of the last use
    std::vector<int32_t> token_ids;
  };
  using Order = std::tuple<uint64_t, int64_t, Sha256Digest>;  // (used, -depth, name): the first leaves first
  static Order OrderOf(const Sha256Digest& name, const Entry& entry) { return {entry.used, -entry.depth, name}; }

  PageAllocator* pages_;
  std::map<Sha256Digest, Entry> entries_;
  std::set<Order> order_;
  uint64_t tick_ = 0;
};

}  // namespace varifocal

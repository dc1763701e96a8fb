#include "server/engine/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "kernels/backend.h"

namespace varifocal {
namespace {

constexpr size_t kTokens = kernels::kPageTokens;

}  // namespace

std::vector<Sha256Digest> HashPages(const Sha256Digest& root, absl::Span<const int32_t> token_ids, int64_t page_count) {
  VF_CHECK(page_count * kTokens <= token_ids.size(), "only whole pages have hashes");
  std::vector<Sha256Digest> hashes;
  Sha256Digest before = root;
  for (int64_t page = 0; page < page_count; ++page) {
    Sha256Stream stream;
    stream.Update(absl::string_view(reinterpret_cast<const char*>(before.data()), before.size()));
    const absl::Span<const int32_t> ids = token_ids.subspan(page * kTokens, kTokens);
    stream.Update(absl::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)));
    before = stream.Finish();
    hashes.push_back(before);
  }
  return hashes;
}

PrefixCache::PrefixCache(std::vector<PageAllocator>* pages, std::vector<PageGroupShape> groups)
    : pages_(pages), groups_(std::move(groups)), orders_(groups_.size()) {
  VF_CHECK(pages_->size() == groups_.size(), "every group has an allocator");
}

// Whether the group's page of these tokens is cached.
bool PrefixCache::Holds(const Sha256Digest& hash, size_t group, absl::Span<const int32_t> token_ids) const {
  const auto it = entries_.find(hash);
  return it != entries_.end() && it->second.pages[group] >= 0 &&
         std::equal(token_ids.begin(), token_ids.end(), it->second.token_ids.begin(), it->second.token_ids.end());
}

int64_t PrefixCache::ReusablePageCount(absl::Span<const Sha256Digest> hashes,
                                       absl::Span<const int32_t> token_ids) const {
  auto holds = [&](size_t page, size_t group) {
    return Holds(hashes[page], group, token_ids.subspan(page * kTokens, kTokens));
  };
  size_t reusable = 0;
  if (has_full()) {
    while (reusable < hashes.size() && holds(reusable, 0)) ++reusable;
  } else {
    reusable = hashes.size();
  }
  // The longest prefix at whose end all window pages are cached.
  for (; reusable > 0; --reusable) {
    bool whole = true;
    for (size_t group = 0; whole && group < groups_.size(); ++group) {
      if (groups_[group].is_full()) continue;
      const int64_t next = reusable * kTokens;
      for (size_t page = groups_[group].FirstPage(next); whole && page < reusable; ++page) whole = holds(page, group);
    }
    if (whole) break;
  }
  return reusable;
}

void PrefixCache::Touch(Entries::iterator at) {
  Entry& entry = at->second;
  const Order before = OrderOf(at->first, entry);
  entry.used = tick_;
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (entry.pages[group] < 0) continue;
    // Moves the node: no allocation, so no exception between a page and its order.
    auto node = orders_[group].extract(before);
    node.value() = OrderOf(at->first, entry);
    orders_[group].insert(std::move(node));
  }
}

std::vector<std::vector<int32_t>> PrefixCache::Acquire(absl::Span<const Sha256Digest> hashes,
                                                       absl::Span<const int32_t> token_ids) {
  const size_t reusable = ReusablePageCount(hashes, token_ids);
  std::vector<std::vector<int32_t>> found(groups_.size(), std::vector<int32_t>(reusable, -1));
  ++tick_;
  for (size_t page = 0; page < reusable; ++page) {
    const auto at = entries_.find(hashes[page]);
    if (at == entries_.end()) continue;  // before all windows of a model without full layers
    Touch(at);
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (static_cast<int64_t>(page) < groups_[group].FirstPage(reusable * kTokens)) continue;
      found[group][page] = at->second.pages[group];
      (*pages_)[group].Hold(found[group][page]);
    }
  }
  return found;
}

void PrefixCache::Insert(const Sha256Digest& hash, int64_t depth, absl::Span<const int32_t> page_token_ids,
                         size_t group, int32_t page) {
  VF_CHECK(page_token_ids.size() == kTokens, "a cached page is whole");
  auto at = entries_.find(hash);
  if (at == entries_.end()) {
    if (has_full() && !groups_[group].is_full()) return;
    Entry entry{.pages = std::vector<int32_t>(groups_.size(), -1),
                .depth = depth,
                .used = ++tick_,
                .token_ids = {page_token_ids.begin(), page_token_ids.end()}};
    at = entries_.emplace(hash, std::move(entry)).first;
  }
  if (at->second.pages[group] >= 0) return;
  orders_[group].insert(OrderOf(hash, at->second));  // the last allocation
  (*pages_)[group].HoldForCache(page);
  at->second.pages[group] = page;
}

// Drops the entry's page of the group, and the entry when no prefix could use it any more.
void PrefixCache::Drop(Entries::iterator at, size_t group) {
  auto forget = [&](size_t which) {
    if (at->second.pages[which] < 0) return;
    orders_[which].erase(OrderOf(at->first, at->second));
    (*pages_)[which].ReleaseFromCache(std::exchange(at->second.pages[which], -1));
  };
  forget(group);
  if (groups_[group].is_full()) {
    for (size_t other = 0; other < groups_.size(); ++other) forget(other);
  }
  const std::vector<int32_t>& left = at->second.pages;
  if (std::all_of(left.begin(), left.end(), [](int32_t page) { return page < 0; })) entries_.erase(at);
}

bool PrefixCache::EvictOne(size_t group) {
  for (const Order& order : orders_[group]) {
    const auto at = entries_.find(std::get<2>(order));
    if (!(*pages_)[group].IsIdle(at->second.pages[group])) continue;
    Drop(at, group);
    return true;
  }
  return false;
}

void PrefixCache::Clear() {
  for (size_t group = 0; group < groups_.size(); ++group) {
    while (EvictOne(group)) {
    }
  }
}

}  // namespace varifocal

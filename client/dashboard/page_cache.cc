#include "client/dashboard/page_cache.h"

#include <malloc.h>

#include <utility>

#include "base/status_macros.h"

namespace varifocal::client {

absl::StatusOr<std::shared_ptr<const PageCache::Page>> PageCache::Get(const std::string& name, const std::string& key,
                                                                      bool may_be_old, const Compute& compute) {
  const auto is_good = [&](const Page& page) {
    return page.key == key ||
           (may_be_old && clock_.MonotonicMicros() - page.monotonic_us < kPeriodPerCost * page.cost_us);
  };
  if (std::shared_ptr<const Page> page = Find(name, is_good); page != nullptr) return page;
  if (!compute_mutex_.TryLock()) {
    if (may_be_old) {
      if (std::shared_ptr<const Page> page = Find(name, [](const Page&) { return true; }); page != nullptr) return page;
    }
    compute_mutex_.Lock();
  }
  const MutexLock computing(compute_mutex_, std::adopt_lock);
  if (std::shared_ptr<const Page> page = Find(name, is_good); page != nullptr) return page;  // computed meanwhile
  auto page = std::make_shared<Page>();
  page->key = key;
  page->wall_us = clock_.WallMicros();
  page->monotonic_us = clock_.MonotonicMicros();
  ASSIGN_OR_RETURN(page->bytes, compute());
  // The freed rows of a large job would stay with the thread of this request, one set of them for each thread.
  malloc_trim(0);
  page->cost_us = clock_.MonotonicMicros() - page->monotonic_us;
  Keep(name, page);
  return page;
}

int64_t PageCache::computed_count() const {
  const MutexLock lock(mutex_);
  return computed_count_;
}

std::shared_ptr<const PageCache::Page> PageCache::Find(const std::string& name,
                                                       const std::function<bool(const Page&)>& is_good) {
  const MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || !is_good(*found->second->second)) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void PageCache::Keep(const std::string& name, std::shared_ptr<const Page> page) {
  const MutexLock lock(mutex_);
  ++computed_count_;
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    bytes_ -= found->second->second->bytes.size();
    entries_.erase(found->second);
    by_name_.erase(found);
  }
  bytes_ += page->bytes.size();
  entries_.emplace_front(name, std::move(page));
  by_name_[name] = entries_.begin();
  while (bytes_ > bytes_max_) {
    bytes_ -= entries_.back().second->bytes.size();
    by_name_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

}  // namespace varifocal::client

#include "server/engine/prefix_cache.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"

namespace varifocal {
namespace {

constexpr size_t kTokens = kernels::kPageTokens;

}  // namespace

std::vector<Sha256Digest> NamePages(const Sha256Digest& root, absl::Span<const int32_t> token_ids, int64_t page_count) {
  VF_CHECK(static_cast<size_t>(page_count) * kTokens <= token_ids.size(), "only whole pages have names");
  std::vector<Sha256Digest> names;
  Sha256Digest before = root;
  for (int64_t page = 0; page < page_count; ++page) {
    Sha256Stream stream;
    stream.Update(absl::string_view(reinterpret_cast<const char*>(before.data()), before.size()));
    const absl::Span<const int32_t> ids = token_ids.subspan(static_cast<size_t>(page) * kTokens, kTokens);
    stream.Update(absl::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)));
    before = stream.Finish();
    names.push_back(before);
  }
  return names;
}

std::vector<int32_t> PrefixCache::Acquire(absl::Span<const Sha256Digest> names, absl::Span<const int32_t> token_ids) {
  std::vector<int32_t> found;
  ++tick_;
  for (size_t i = 0; i < names.size(); ++i) {
    auto it = entries_.find(names[i]);
    if (it == entries_.end()) break;
    Entry& entry = it->second;
    const absl::Span<const int32_t> ids = token_ids.subspan(i * kTokens, kTokens);
    if (!std::equal(ids.begin(), ids.end(), entry.token_ids.begin(), entry.token_ids.end())) break;
    order_.erase(OrderOf(it->first, entry));
    entry.used = tick_;
    order_.insert(OrderOf(it->first, entry));
    pages_->Hold(entry.page);
    found.push_back(entry.page);
  }
  return found;
}

void PrefixCache::Insert(const Sha256Digest& name, int64_t depth, absl::Span<const int32_t> page_token_ids,
                         int32_t page) {
  VF_CHECK(page_token_ids.size() == kTokens, "a cached page is whole");
  if (entries_.contains(name)) return;
  pages_->Hold(page);
  Entry entry{
      .page = page, .depth = depth, .used = ++tick_, .token_ids = {page_token_ids.begin(), page_token_ids.end()}};
  order_.insert(OrderOf(name, entry));
  entries_.emplace(name, std::move(entry));
}

bool PrefixCache::EvictOne() {
  for (const Order& order : order_) {
    auto it = entries_.find(std::get<2>(order));
    if (pages_->holders(it->second.page) > 1) continue;
    pages_->Release(it->second.page);
    entries_.erase(it);
    order_.erase(order);
    return true;
  }
  return false;
}

void PrefixCache::Clear() {
  while (EvictOne()) {
  }
}

int64_t PrefixCache::evictable_count() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [&](const auto& entry) { return pages_->holders(entry.second.page) == 1; });
}

}  // namespace varifocal

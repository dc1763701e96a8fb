#include "server/model/weight_cache.h"

namespace varifocal {

WeightCache& WeightCache::Get() {
  static auto& cache = *new WeightCache;
  return cache;
}

std::shared_ptr<kernels::Weight> WeightCache::Find(const kernels::Backend& backend, const Sha256Digest& content) const {
  MutexLock lock(mutex_);
  const auto found = weights_.find({&backend, content});
  return found == weights_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<kernels::Weight> WeightCache::Put(const kernels::Backend& backend, const Sha256Digest& content,
                                                  std::unique_ptr<kernels::Weight> weight) {
  std::shared_ptr<kernels::Weight> packed = std::move(weight);
  MutexLock lock(mutex_);
  std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<kernels::Weight>& place = weights_[{&backend, content}];
  if (std::shared_ptr<kernels::Weight> earlier = place.lock()) return earlier;
  place = packed;
  return packed;
}

}  // namespace varifocal

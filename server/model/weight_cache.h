// Resident packed weights by content, so that models share equal weights.
//
// Weights are equal on the same backend, for the same use, from tensors of the same bytes, types and shapes in the same
// order. Baseline and focal checkpoints with the same matrices thus use the memory of one, regardless of file names. The
// cache holds weak references: a weight is freed with the last model that uses it.
//
// Threads: any. Of two loads that pack the same weight concurrently, the second discards its copy.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/backend.h"

namespace varifocal {

class WeightCache {
 public:
  // The process-wide cache.
  static WeightCache& Get();

  // Null when no model has it.
  std::shared_ptr<kernels::Weight> Find(const kernels::Backend& backend, const Sha256Digest& content) const;
  // Returns the cached weight: `weight`, or an equal one inserted earlier.
  std::shared_ptr<kernels::Weight> Put(const kernels::Backend& backend, const Sha256Digest& content,
                                       std::unique_ptr<kernels::Weight> weight);

 private:
  // A backend outlives its weights: when its address is reused, its entries have expired.
  using Key = std::pair<const kernels::Backend*, Sha256Digest>;
  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<kernels::Weight>> weights_ VF_GUARDED_BY(mutex_);
};

}  // namespace varifocal

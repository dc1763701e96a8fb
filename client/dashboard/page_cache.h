// What the dashboard has computed from the rows of a job, kept until the job changes.
//
// An entry is the bytes computed for a name, with the key of the rows they were computed from. As long as the key is the same they
// are not computed again. Where an older entry may be shown, a changed key is followed only after kPeriodPerCost times
// what the computation took, so that pages of a running job which renew themselves take a bounded share of the processor.
// The least recently used entries are dropped beyond `bytes_max`.
//
// Errors:  those of `compute`; they are not kept.
// Threads: any. One computation runs at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace varifocal::client {

class PageCache {
 public:
  static constexpr size_t kBytesMax = 32 << 20;
  static constexpr int64_t kPeriodPerCost = 5;  // a fifth of a core

  struct Page {
    std::string key, bytes;
    int64_t wall_us = 0;       // when its computation began
    int64_t monotonic_us = 0;  // likewise
    int64_t cost_us = 0;
  };
  using Compute = std::function<absl::StatusOr<std::string>()>;

  explicit PageCache(const Clock& clock, size_t bytes_max = kBytesMax) : clock_(clock), bytes_max_(bytes_max) {}

  // `key` is read before `compute` reads the rows.
  absl::StatusOr<std::shared_ptr<const Page>> Get(const std::string& name, const std::string& key, bool may_be_old,
                                                  const Compute& compute);

  int64_t computed_count() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Page>>;

  std::shared_ptr<const Page> Find(const std::string& name, const std::function<bool(const Page&)>& is_good);
  void Keep(const std::string& name, std::shared_ptr<const Page> page) VF_REQUIRES(compute_mutex_);

  const Clock& clock_;
  const size_t bytes_max_;
  Mutex compute_mutex_;  // guards no member: held while one page is computed
  mutable Mutex mutex_;
  std::list<Entry> entries_ VF_GUARDED_BY(mutex_);  // the most recently used first
  std::map<std::string, std::list<Entry>::iterator> by_name_ VF_GUARDED_BY(mutex_);
  size_t bytes_ VF_GUARDED_BY(mutex_) = 0;
  int64_t computed_count_ VF_GUARDED_BY(mutex_) = 0;
};

}  // namespace varifocal::client

// How many samples of jobs this process recorded: by model, answered or failed with which reason.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace varifocal {

class SampleCounts {
 public:
  // By (label of the model, reason); the reason of an answered sample is "".
  using Counts = std::map<std::pair<std::string, std::string>, int64_t>;

  void Add(const std::string& model_label, const std::string& reason) {
    MutexLock lock(mutex_);
    ++counts_[{model_label, reason}];
  }
  Counts Get() const {
    MutexLock lock(mutex_);
    return counts_;
  }

 private:
  mutable Mutex mutex_;
  Counts counts_ VF_GUARDED_BY(mutex_);
};

}  // namespace varifocal

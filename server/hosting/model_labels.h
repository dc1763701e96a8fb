// Names of models as values of a metric's label: the first 32 names of a process, then "_other", which no model can be called.
//
// A name keeps its label, also after the model was unloaded, so that the number of time series is bounded however many
// models come and go.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "base/mutex.h"

namespace varifocal {

class ModelLabels {
 public:
  static constexpr size_t kMax = 32;
  static constexpr char kOther[] = "_other";

  std::string Of(const std::string& model) {
    MutexLock lock(mutex_);
    if (known_.size() < kMax) known_.insert(model);
    return known_.count(model) > 0 ? model : kOther;
  }

 private:
  Mutex mutex_;
  std::set<std::string> known_ VF_GUARDED_BY(mutex_);
};

}  // namespace varifocal

// The tokens that all endpoints of a process may cost together: prompts and answers, as the servers count them.
//
// A request reserves the most that it may cost before it is sent. It is refused when that would exceed the limit; while
// active requests hold reservations that may yet be returned, it waits for them.
//
// Errors:  RESOURCE_EXHAUSTED (ENDPOINT_BUDGET_SPENT) with the need, what is spent and the limit; CANCELLED.
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace varifocal {

class EndpointBudget {
 public:
  explicit EndpointBudget(int64_t tokens_max) : tokens_max_(tokens_max) {}

  // `is_cancelled` is polled while it waits; may be empty.
  absl::Status Reserve(int64_t tokens, const std::function<bool()>& is_cancelled);
  // What a reservation has cost; it may be more than was reserved.
  void Settle(int64_t reserved, int64_t spent);
  int64_t spent() const;

 private:
  const int64_t tokens_max_;
  mutable Mutex mutex_;
  CondVar changed_;
  int64_t spent_ VF_GUARDED_BY(mutex_) = 0;
  int64_t reserved_ VF_GUARDED_BY(mutex_) = 0;
};

}  // namespace varifocal

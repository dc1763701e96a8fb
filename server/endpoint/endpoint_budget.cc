#include "server/endpoint/endpoint_budget.h"

#include <chrono>

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);

}  // namespace

absl::Status EndpointBudget::Reserve(int64_t tokens, const std::function<bool()>& is_cancelled) {
  MutexLock lock(mutex_);
  while (spent_ + reserved_ + tokens > tokens_max_) {
    if (spent_ + tokens > tokens_max_) {
      return WithReason(
          ResourceExhausted("this request may cost ", tokens, " tokens, and ", spent_, " of the ", tokens_max_,
                            " of --endpoint-budget-tokens are spent; start the program with a larger budget"),
          ErrorReason::kEndpointBudgetSpent);
    }
    if (is_cancelled && is_cancelled()) return absl::CancelledError("the request was cancelled");
    changed_.WaitFor(mutex_, kPoll);
  }
  reserved_ += tokens;
  return absl::OkStatus();
}

void EndpointBudget::Settle(int64_t reserved, int64_t spent) {
  const MutexLock lock(mutex_);
  reserved_ -= reserved;
  spent_ += spent;
  changed_.NotifyAll();
}

int64_t EndpointBudget::spent() const {
  const MutexLock lock(mutex_);
  return spent_;
}

}  // namespace varifocal

#include "server/front/callers.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace varifocal {

void Callers::Set(int fd, Caller caller) {
  MutexLock lock(mutex_);
  callers_[fd] = std::move(caller);
}

Caller Callers::Of(absl::string_view peer) const {
  int fd = 0;
  absl::string_view number = peer;
  if (absl::ConsumePrefix(&number, "fd:") && absl::SimpleAtoi(number, &fd)) {
    MutexLock lock(mutex_);
    const auto found = callers_.find(fd);
    if (found != callers_.end()) return found->second;
  }
  return {.address = std::string(peer), .certificate = ""};
}

}  // namespace varifocal

#include "base/log_tally.h"

#include <utility>

#include "base/log.h"

namespace varifocal {

void LogTally::Write(const Refusal& refusal, int64_t count) {
  Log(LogLevel::kWarning, "refused",
      {{"what", refusal.what},
       {"peer", refusal.peer},
       {"token", refusal.token},
       {"cause", refusal.cause},
       {"count", count}});
}

void LogTally::Add(Refusal refusal) {
  MutexLock lock(mutex_);
  if (counts_.size() >= kKindsMax && counts_.count(refusal) == 0) refusal = {"others", "several", "several", "several"};
  const auto [entry, is_new] = counts_.try_emplace(std::move(refusal));
  if (!is_new) {
    ++entry->second.pending;
    return;
  }
  entry->second.written_us = clock_.MonotonicMicros();
  Write(entry->first, 1);
}

void LogTally::Flush(bool also_new) {
  const int64_t now_us = clock_.MonotonicMicros();
  MutexLock lock(mutex_);
  for (auto entry = counts_.begin(); entry != counts_.end();) {
    Count& count = entry->second;
    if (!also_new && now_us - count.written_us < kPeriodUs) {
      ++entry;
    } else if (count.pending > 0) {
      Write(entry->first, count.pending);
      count = {.pending = 0, .written_us = now_us};
      ++entry;
    } else {
      entry = counts_.erase(entry);
    }
  }
}

}  // namespace varifocal

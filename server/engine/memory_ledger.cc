#include "server/engine/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace varifocal {

MemoryLedger& MemoryLedger::Get() {
  static auto& ledger = *new MemoryLedger;
  return ledger;
}

std::unique_ptr<MemoryLedger::Entry> MemoryLedger::Add(Account account) {
  int64_t id = 0;
  {
    MutexLock lock(mutex_);
    id = next_id_++;
  }
  // Both are allocated before the account is listed: without memory for the entry it would remain listed.
  std::map<int64_t, Account> listed;
  listed.emplace(id, std::move(account));
  auto entry = std::make_unique<Entry>(this, id);
  MutexLock lock(mutex_);
  accounts_.merge(listed);
  return entry;
}

MemoryLedger::Entry::~Entry() {
  MutexLock lock(ledger_->mutex_);
  ledger_->accounts_.erase(id_);
}

void MemoryLedger::Entry::SetTouched(int64_t bytes) {
  MutexLock lock(ledger_->mutex_);
  ledger_->accounts_[id_].touched_bytes = bytes;
}

int64_t MemoryLedger::FreeAfterReservations(int64_t free_bytes) const {
  MutexLock lock(mutex_);
  for (const auto& [id, account] : accounts_)
    free_bytes -= std::max<int64_t>(account.cache_bytes - account.touched_bytes, 0);
  return std::max<int64_t>(free_bytes, 0);
}

std::string MemoryLedger::ToString() const {
  MutexLock lock(mutex_);
  return absl::StrJoin(accounts_, "; ", [](std::string* out, const auto& item) {
    const Account& account = item.second;
    const int64_t shared_bytes = account.shared_weight_bytes ? account.shared_weight_bytes() : 0;
    absl::StrAppend(out, account.what, ": ", account.weight_bytes, " bytes of weights",
                    shared_bytes > 0 ? absl::StrCat(" (", shared_bytes, " shared)") : "", ", ", account.buffer_bytes,
                    " of buffers, ", account.cache_bytes, " reserved for its cache");
  });
}

bool IsOnHost(const kernels::Backend& backend) { return !absl::StartsWith(backend.info().name, "cuda"); }

DeviceMemoryLeft MemoryLeftOn(const kernels::Backend& backend) {
  const kernels::MemoryInfo memory = backend.memory();
  const int64_t free_bytes = memory.free_bytes;
  return {static_cast<int64_t>(memory.total_bytes),
          IsOnHost(backend) ? MemoryLedger::Get().FreeAfterReservations(free_bytes) : free_bytes};
}

}  // namespace varifocal

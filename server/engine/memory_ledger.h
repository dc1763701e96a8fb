// Host memory used by the engines of this process, and memory reserved for their caches but not yet written.
//
// KV pages in host memory are committed when first written, so the OS reports unwritten ones as free, and a second model
// sized by a quarter of that would overcommit memory. Engines on a device with its own memory (CUDA) allocate at once
// and are listed here with nothing outstanding.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "kernels/backend.h"

namespace varifocal {

class MemoryLedger {
 public:
  struct Account {
    std::string what;                              // the model's name
    int64_t weight_bytes = 0;                      // resident
    std::function<int64_t()> shared_weight_bytes;  // of those, shared with other models now; optional
    int64_t buffer_bytes = 0;                      // of a step
    int64_t cache_bytes = 0;                       // reserved
    int64_t touched_bytes = 0;                     // of those, written so far
  };

  // The process-wide ledger.
  static MemoryLedger& Get();

  class Entry {
   public:
    Entry(MemoryLedger* ledger, int64_t id) : ledger_(ledger), id_(id) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    void SetTouched(int64_t bytes);

   private:
    MemoryLedger* const ledger_;
    const int64_t id_;
  };
  // The account is listed for the lifetime of the entry.
  std::unique_ptr<Entry> Add(Account account);

  // `free_bytes`, as reported by the OS, less all unwritten reservations.
  int64_t FreeAfterReservations(int64_t free_bytes) const;
  // "baseline: 600 bytes of weights (500 shared), 400 of buffers, 2400 reserved for its cache; .."
  std::string ToString() const;

 private:
  mutable Mutex mutex_;
  std::map<int64_t, Account> accounts_ VF_GUARDED_BY(mutex_);
  int64_t next_id_ VF_GUARDED_BY(mutex_) = 1;
};

// Memory of a backend's device: total, and free after all reservations of this process.
struct DeviceMemoryLeft {
  int64_t total_bytes = 0;  // 0: unknown
  int64_t free_bytes = 0;
};
DeviceMemoryLeft MemoryLeftOn(const kernels::Backend& backend);
// Whether keys and values are in host memory, committed when written.
bool IsOnHost(const kernels::Backend& backend);

}  // namespace varifocal

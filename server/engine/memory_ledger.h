// What the engines of this process hold of the host's memory, and what they were promised and have not touched yet.
//
// Key-value pages on a host take memory when they are first written, so what the system calls free counts them as free
// for everybody. A second model that took a quarter of that would be promised memory twice. Engines on a device of
// their own memory (CUDA) take theirs at once and stand here with nothing outstanding.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace varifocal {

class MemoryLedger {
 public:
  struct Account {
    std::string what;            // the model's directory
    int64_t weight_bytes = 0;    // resident
    int64_t buffer_bytes = 0;    // of a step
    int64_t cache_bytes = 0;     // promised
    int64_t touched_bytes = 0;   // of those, written at some time
  };

  // The one of this process.
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
  // Stands in the ledger as long as the entry lives.
  std::unique_ptr<Entry> Add(Account account);

  // What `free_bytes`, as the system says, leaves when every promise is kept.
  int64_t FreeAfterPromises(int64_t free_bytes) const;
  // "models/baseline: 6 MB of weights, 4 MB of buffers, 24 MB promised to its cache; .."
  std::string ToString() const;

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, Account> accounts_;
  int64_t next_id_ = 1;
};

}  // namespace varifocal

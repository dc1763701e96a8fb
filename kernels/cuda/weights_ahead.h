// Which weights the kernels of a decode step ask into the L2 cache before later kernels read them.
//
// The order in which the workspace's last decode step read its weights is taken for that of this one. A step that reads
// another weight than expected asks for nothing further: what was asked for is memory of living weights, and costs time
// alone. What a step asks for follows from its order of weights and kernels, so steps of one model ask for the same.
//
// Threads: one step at a time. A weight may be destroyed between steps.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/params.h"

namespace varifocal::kernels::cuda {

// At most this much is asked for and not read yet, and at most this share of the cache.
inline constexpr size_t kAheadBytesMax = size_t{32} << 20;
inline constexpr double kAheadShare = 0.64;
// A product fills the device's memory bus itself: it asks for what is read while it ends and the next one begins.
inline constexpr int kProductShare = 8;  // of the bound
size_t AheadBytes(size_t l2_bytes, int capability);

class WeightOrder {
 public:
  // `bytes_max` 0: nothing is asked for.
  explicit WeightOrder(size_t bytes_max = 0) : bytes_max_(bytes_max) {}

  void BeginDecodeStep();
  // The next kernel reads this weight; `life` ends with it.
  void Read(std::weak_ptr<const void> life, const void* at, size_t bytes);
  // What a kernel asks for that is queued now; `is_product`: after its own Read.
  WeightsAhead Ahead(bool is_product);

 private:
  struct Entry {
    std::weak_ptr<const void> life;
    const unsigned char* at = nullptr;
    size_t bytes = 0;
  };
  static bool IsSame(const Entry& a, const Entry& b) { return a.at == b.at && a.bytes == b.bytes; }

  size_t bytes_max_;
  std::vector<Entry> known_, seen_;
  bool follows_ = false;
  size_t next_ = 0;                     // weight of known_ that is read next
  size_t asked_ = 0, asked_bytes_ = 0;  // all before that one, and of it
  size_t unread_ = 0;                   // bytes asked for and not read
};

}  // namespace varifocal::kernels::cuda

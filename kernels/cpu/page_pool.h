// KV pages in the layout that prefill and decode both read.
//
// Shapes:  per layer and page, for every KV head one contiguous tile: K [128/16][D][16], then V [D/16][128][16].
// Prefill
//          broadcasts single keys from it, decode takes 16 keys (or 16 head dims) as one vector; both read forward.
//          The running sums of learned tau stand apart, one float64 per token.
// Cost:    pages are mapped zeroed and take memory when first written.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

// Anonymous zeroed memory, granted as it is touched.
class MappedMemory {
 public:
  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  bool Map(size_t bytes);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

class PagePool final : public KvPool {
 public:
  static size_t BytesPerPageAndLayer(const KvShape& shape);
  static Result<std::unique_ptr<KvPool>> Create(const KvShape& shape, int page_count);

  int page_count() const override { return page_count_; }
  size_t bytes() const override { return BytesPerPageAndLayer(shape_) * page_count_ * shape_.layer_count; }
  const KvShape& shape() const { return shape_; }

  KeyValues ForHead(int layer, int head, const int32_t* pages) const;
  // Keys and values [K, D] of one token into its page.
  void WriteToken(int layer, int page, int offset, const float* keys, const float* values);
  // keys[D] of one head.
  void ReadKey(int layer, int page, int offset, int head, float* key) const;
  void ReadValue(int layer, int page, int offset, int head, float* value) const;
  double* tau_sum(int layer, int page, int offset);

 private:
  size_t head_floats() const { return static_cast<size_t>(2) * kPageTokens * shape_.head_dim; }
  float* tile(int layer, int page, int head) const;

  KvShape shape_;
  int page_count_ = 0;
  MappedMemory memory_, tau_memory_;
};

}  // namespace varifocal::kernels::cpu

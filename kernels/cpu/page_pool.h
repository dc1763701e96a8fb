// KV pages in the layout shared by prefill and decode.
//
// Shapes:  per layer and page, for every KV head one contiguous tile: K [128/16][D][16], then V [D/16][128][16]; D
//          rounded up to 16, zeros beyond it. Prefill broadcasts single keys from it, decode takes 16 keys (or 16 head
//          dims) as one vector; both read forward. Where keys are rows, K is [128][D].
//          Annotations are a region of their own, [layer][page][annotation][128 tokens].
// Cost:    pages are mapped zeroed and committed when first written.
#pragma once

#include "base/wide_product.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

// Anonymous zeroed memory, committed on first access. A read beyond its last page faults.
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
  static size_t BytesPerPageAndLayer(const KvShape& shape, DType dtype);
  static Result<std::unique_ptr<KvPool>> Create(const KvShape& shape, DType dtype, int page_count);

  int page_count() const override { return page_count_; }
  size_t bytes() const override { return BytesPerPageAndLayer(shape_, dtype_) * page_count_ * shape_.layer_count; }
  const KvShape& shape() const { return shape_; }

  KeyValues ForHead(int layer, int head, const int32_t* pages) const;
  // Keys and values [K, D] of one token into its page. `last`: no later token is written in this step, so a half-filled
  // bf16 word is padded with zero, because kernels read whole words and a zero weight must not multiply stale data, which
  // may be NaN. Different tokens may be written concurrently.
  void WriteToken(int layer, int page, int offset, const float* keys, const float* values, bool last);
  void CopyPage(int from, int to);  // all layers
  // keys[D] of one head.
  void ReadKey(int layer, int page, int offset, int head, float* key) const;
  void ReadValue(int layer, int page, int offset, int head, float* value) const;
  // The annotations of a page.
  char* annotations(int layer, int page) const;

 private:
  int elements_per_word() const { return dtype_ == DType::kBF16 ? 2 : 1; }
  int words() const { return PaddedDim(shape_.head_dim) / elements_per_word(); }  // of one key
  size_t head_words() const { return WideProduct(2, kPageTokens, words()); }
  float* tile(int layer, int page, int head) const;
  size_t KeyWord(int key, int word) const;  // of (key, word) in a K tile
  size_t ValueWord(int key, int i) const;   // of (key, i) in a V tile

  KvShape shape_;
  DType dtype_ = DType::kF32;
  int page_count_ = 0;
  MappedMemory memory_, annotation_memory_;
};

}  // namespace varifocal::kernels::cpu

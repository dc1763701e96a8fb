#include "kernels/cpu/page_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/wide_product.h"

namespace varifocal::kernels::cpu {
namespace {

size_t TileBytes(const KvShape& shape, DType dtype) {
  return WideProduct(2, kPageTokens, shape.kv_head_count) * PaddedDim(shape.head_dim) * DTypeBytes(dtype);
}

// Writes half a word only: the other half may belong to another thread.
void WriteHalf(float* word, int odd, float value) {
  const uint16_t bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(PairOf(value, 0.0f)));
  std::memcpy(reinterpret_cast<char*>(word) + 2 * odd, &bits, sizeof bits);
}

}  // namespace

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool MappedMemory::Map(size_t bytes) {
  if (bytes == 0) return true;
  const size_t guard = sysconf(_SC_PAGESIZE);
  const size_t used = (bytes + guard - 1) / guard * guard;
  void* data = mmap(nullptr, used + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<char*>(data);
  bytes_ = used + guard;
  // Large pages: keys read by group are scattered, and each would miss the TLB. Advice; a kernel without them ignores it.
  (void)madvise(data_, used, MADV_HUGEPAGE);
  return mprotect(data_ + used, guard, PROT_NONE) == 0;
}

size_t PagePool::BytesPerPageAndLayer(const KvShape& shape, DType dtype) {
  return TileBytes(shape, dtype) + WideProduct(kPageTokens, shape.annotation_bytes);
}

Result<std::unique_ptr<KvPool>> PagePool::Create(const KvShape& shape, DType dtype, int page_count) {
  auto pool = std::make_unique<PagePool>();
  pool->shape_ = shape;
  pool->dtype_ = dtype;
  pool->page_count_ = page_count;
  const size_t tiles = WideProduct(page_count, shape.layer_count);
  if (!pool->memory_.Map(tiles * TileBytes(shape, dtype)) ||
      !pool->annotation_memory_.Map(tiles * kPageTokens * shape.annotation_bytes)) {
    return OutOfHostMemory("the KV pages", pool->bytes());
  }
  return std::unique_ptr<KvPool>(std::move(pool));
}

size_t PagePool::KeyWord(int key, int word) const {
  if (shape_.row_keys) return WideProduct(key, words()) + word;
  return (WideProduct(key / kTile, words()) + word) * kTile + key % kTile;
}

size_t PagePool::ValueWord(int key, int i) const {
  const int word = key / elements_per_word();
  return (WideProduct(i / kTile, kPageTokens / elements_per_word()) + word) * kTile + i % kTile;
}

float* PagePool::tile(int layer, int page, int head) const {
  VF_CHECK(layer >= 0 && layer < shape_.layer_count && page >= 0 && page < page_count_, "no such page");
  const size_t index = WideProduct(layer, page_count_) + page;
  return reinterpret_cast<float*>(memory_.data()) + (index * shape_.kv_head_count + head) * head_words();
}

KeyValues PagePool::ForHead(int layer, int head, const int32_t* pages) const {
  return {.base = tile(layer, 0, head),
          .page_stride = shape_.kv_head_count * head_words(),
          .pages = pages,
          .key_stride = shape_.row_keys ? 1 : kTile};
}

void PagePool::WriteToken(int layer, int page, int offset, const float* keys, const float* values, bool last) {
  const int dim = shape_.head_dim, key_stride = shape_.row_keys ? 1 : kTile;
  const bool pad = last && offset % 2 == 0;
  for (int head = 0; head < shape_.kv_head_count; ++head, keys += dim, values += dim) {
    float* const head_tile = tile(layer, page, head);
    float* const key = head_tile + KeyWord(offset, 0);
    for (int w = 0; w < WordCount(dim, elements_per_word()); ++w) {
      key[w * key_stride] =
          elements_per_word() == 1 ? keys[w] : PairOf(keys[2 * w], 2 * w + 1 < dim ? keys[2 * w + 1] : 0.0f);
    }
    for (int first = 0; first < dim; first += kTile) {
      float* const value = head_tile + WideProduct(kPageTokens, words()) + ValueWord(offset, first);
      const int count = std::min(kTile, dim - first);
      if (elements_per_word() == 1) {
        std::copy_n(values + first, count, value);
        continue;
      }
      for (int i = 0; i < count; ++i) {
        WriteHalf(value + i, offset % 2, values[first + i]);
        if (pad) WriteHalf(value + i, 1, 0.0f);
      }
    }
  }
}

void PagePool::CopyPage(int from, int to) {
  const size_t tile_bytes = head_words() * shape_.kv_head_count * sizeof(float);
  for (int layer = 0; layer < shape_.layer_count; ++layer) {
    std::memcpy(tile(layer, to, 0), tile(layer, from, 0), tile_bytes);
    if (shape_.annotation_bytes > 0) {
      std::memcpy(annotations(layer, to), annotations(layer, from), WideProduct(kPageTokens, shape_.annotation_bytes));
    }
  }
}

void PagePool::ReadKey(int layer, int page, int offset, int head, float* key) const {
  const float* from = tile(layer, page, head);
  for (int i = 0; i < shape_.head_dim; ++i) {
    const float word = from[KeyWord(offset, i / elements_per_word())];
    key[i] = elements_per_word() == 1 ? word : HalfOf(word, i % 2);
  }
}

void PagePool::ReadValue(int layer, int page, int offset, int head, float* value) const {
  const float* from = tile(layer, page, head) + WideProduct(kPageTokens, words());
  for (int i = 0; i < shape_.head_dim; ++i) {
    const float word = from[ValueWord(offset, i)];
    value[i] = elements_per_word() == 1 ? word : HalfOf(word, offset % 2);
  }
}

char* PagePool::annotations(int layer, int page) const {
  VF_CHECK(layer >= 0 && layer < shape_.layer_count && page >= 0 && page < page_count_, "no such page");
  return annotation_memory_.data() + (WideProduct(layer, page_count_) + page) * kPageTokens * shape_.annotation_bytes;
}

}  // namespace varifocal::kernels::cpu

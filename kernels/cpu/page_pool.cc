#include "kernels/cpu/page_pool.h"

#include <sys/mman.h>

namespace varifocal::kernels::cpu {
namespace {

size_t TileBytes(const KvShape& shape) {
  return static_cast<size_t>(2) * kPageTokens * shape.kv_head_count * shape.head_dim * sizeof(float);
}

// Where (key, i) lies in a K tile, and (key, i) in a V tile.
size_t KeyIndex(int dim, int key, int i) { return (static_cast<size_t>(key / kTile) * dim + i) * kTile + key % kTile; }
size_t ValueIndex(int key, int i) { return (static_cast<size_t>(i / kTile) * kPageTokens + key) * kTile + i % kTile; }

}  // namespace

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool MappedMemory::Map(size_t bytes) {
  if (bytes == 0) return true;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
  return true;
}

size_t PagePool::BytesPerPageAndLayer(const KvShape& shape) {
  return TileBytes(shape) + (shape.has_tau_sums ? kPageTokens * sizeof(double) : 0);
}

Result<std::unique_ptr<KvPool>> PagePool::Create(const KvShape& shape, int page_count) {
  auto pool = std::make_unique<PagePool>();
  pool->shape_ = shape;
  pool->page_count_ = page_count;
  const size_t tiles = static_cast<size_t>(page_count) * shape.layer_count;
  if (!pool->memory_.Map(tiles * TileBytes(shape)) ||
      !pool->tau_memory_.Map(shape.has_tau_sums ? tiles * kPageTokens * sizeof(double) : 0)) {
    return OutOfHostMemory("the KV pages", pool->bytes());
  }
  return std::unique_ptr<KvPool>(std::move(pool));
}

float* PagePool::tile(int layer, int page, int head) const {
  VF_CHECK(layer >= 0 && layer < shape_.layer_count && page >= 0 && page < page_count_, "no such page");
  const size_t index = static_cast<size_t>(layer) * page_count_ + page;
  return reinterpret_cast<float*>(memory_.data()) + (index * shape_.kv_head_count + head) * head_floats();
}

KeyValues PagePool::ForHead(int layer, int head, const int32_t* pages) const {
  return {tile(layer, 0, head), shape_.kv_head_count * head_floats(), pages};
}

void PagePool::WriteToken(int layer, int page, int offset, const float* keys, const float* values) {
  const int dim = shape_.head_dim;
  for (int head = 0; head < shape_.kv_head_count; ++head) {
    float* key_tile = tile(layer, page, head);
    float* value_tile = key_tile + static_cast<size_t>(kPageTokens) * dim;
    for (int i = 0; i < dim; ++i) key_tile[KeyIndex(dim, offset, i)] = keys[head * dim + i];
    for (int i = 0; i < dim; ++i) value_tile[ValueIndex(offset, i)] = values[head * dim + i];
  }
}

void PagePool::ReadKey(int layer, int page, int offset, int head, float* key) const {
  const float* from = tile(layer, page, head);
  for (int i = 0; i < shape_.head_dim; ++i) key[i] = from[KeyIndex(shape_.head_dim, offset, i)];
}

void PagePool::ReadValue(int layer, int page, int offset, int head, float* value) const {
  const float* from = tile(layer, page, head) + static_cast<size_t>(kPageTokens) * shape_.head_dim;
  for (int i = 0; i < shape_.head_dim; ++i) value[i] = from[ValueIndex(offset, i)];
}

double* PagePool::tau_sum(int layer, int page, int offset) {
  VF_CHECK(shape_.has_tau_sums, "learned tau needs a pool with has_tau_sums");
  VF_CHECK(layer >= 0 && layer < shape_.layer_count && page >= 0 && page < page_count_, "no such page");
  return reinterpret_cast<double*>(tau_memory_.data()) +
         (static_cast<size_t>(layer) * page_count_ + page) * kPageTokens + offset;
}

}  // namespace varifocal::kernels::cpu

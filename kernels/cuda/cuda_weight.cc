#include "kernels/cuda/cuda_weight.h"

#include <algorithm>
#include <cstring>

#include "base/mutex.h"
#include "base/wide_product.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cuda {
namespace {

// One row rounded to bf16; contiguous bf16 rows are copied.
void RoundRow(const HostMatrix& matrix, int64_t row, uint16_t* out) {
  if (matrix.dtype == DType::kBF16 && matrix.column_stride == 1) {
    std::memcpy(out, matrix.At(row, 0), matrix.columns * 2);
    return;
  }
  if (matrix.dtype == DType::kF32 && matrix.column_stride == 1) {
    const char* from = matrix.At(row, 0);
    for (int64_t i = 0; i < matrix.columns; ++i) {
      float value;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      out[i] = RoundToBF16(value);
    }
    return;
  }
  for (int64_t i = 0; i < matrix.columns; ++i) out[i] = RoundToBF16(At(matrix, row, i));
}

}  // namespace

Result<std::unique_ptr<Weight>> CudaWeight::Create(Device& device, cpu::ThreadPool& threads,
                                                   std::span<const HostMatrix> parts, WeightUse use, int expert_count) {
  auto rows = StackedRows(parts, use);
  if (!rows.ok()) return rows.error();
  auto weight = std::make_unique<CudaWeight>();
  weight->rows_ = *rows;
  weight->columns_ = parts[0].columns;
  weight->stride_ = (weight->columns_ + kChunkDims - 1) / kChunkDims * kChunkDims;
  weight->gated_ = use == WeightUse::kGateUp;
  const size_t row_bytes = WideProduct(weight->stride_, 2);
  auto memory = device.Allocate(row_bytes * weight->rows_, "loading a weight", false);
  if (!memory.ok()) return memory.error();
  weight->memory_ = std::move(*memory);
  const int64_t of_expert = weight->rows_ / expert_count, half = of_expert / 2;
  const Error error = device.UploadWeight(
      weight->memory_.as(), weight->memory_.bytes(), row_bytes, [&](char* stage, size_t offset, size_t count) {
        const int64_t first = offset / row_bytes, piece = count / row_bytes;
        constexpr int64_t kRowsPerItem = 16;
        threads.Run(static_cast<int>((piece + kRowsPerItem - 1) / kRowsPerItem), nullptr, [&](int item, int) {
          for (int64_t i = item * kRowsPerItem; i < std::min(piece, (item + 1) * kRowsPerItem); ++i) {
            const int64_t row = first + i;
            const int64_t inside = row % of_expert;  // its expert's rows begin at row - inside
            const int64_t source =
                !weight->gated_ ? row : row - inside + (inside % 2 == 0 ? inside / 2 : half + inside / 2);
            const auto [part, inner] = StackedRow(parts, source);
            auto* out = reinterpret_cast<uint16_t*>(stage + i * row_bytes);
            RoundRow(*part, inner, out);
            std::fill(out + weight->columns_, out + weight->stride_, static_cast<uint16_t>(0));
          }
        });
      });
  if (!error.ok()) return error;
  return std::unique_ptr<Weight>(std::move(weight));
}

int CudaWeight::Plan(Device& device, int64_t outputs, ProductType type) const {
  ProductLibrary* library = device.runtime().products();
  // The library is slow and less predictable for rows that are not aligned to 16 bytes; own kernels are used instead.
  if (library == nullptr || columns_ % kChunkDims != 0) return -1;
  MutexLock lock(plans_mutex_);
  for (const KnownPlan& known : plans_) {
    if (known.outputs == outputs && known.type == type) return known.plan;
  }
  const int plan = library->MakePlan({.outputs = outputs, .inner = columns_, .weight_stride = stride_, .type = type});
  plans_.push_back({outputs, type, plan});
  return plan;
}

Result<std::unique_ptr<RopeTable>> CudaRopeTable::Create(Device& device, const RopeTableSpec& spec) {
  // Reuses the host table's checks.
  if (auto checked = HostRopeTable::Create(spec); !checked.ok()) return checked.error();
  auto table = std::make_unique<CudaRopeTable>();
  table->position_count_ = spec.position_count;
  table->rotary_dim_ = spec.rotary_dim;
  const size_t bytes = spec.cosines.size() * sizeof(float);
  auto memory = device.Allocate(2 * bytes, "loading a rotary table", false);
  if (!memory.ok()) return memory.error();
  table->memory_ = std::move(*memory);
  if (Error error = device.Upload(table->memory_.as(), spec.cosines.data(), bytes); !error.ok()) return error;
  if (Error error = device.Upload(table->memory_.as() + bytes, spec.sines.data(), bytes); !error.ok()) return error;
  return std::unique_ptr<RopeTable>(std::move(table));
}

RopeView CudaRopeTable::view() const {
  const float* cosines = memory_.as<float>();
  return {cosines, cosines + WideProduct(position_count_, rotary_dim_ / 2), rotary_dim_};
}

size_t CudaPool::AnnotationStride(const KvShape& shape) {
  if (shape.annotation_bytes == 0) return 0;
  return WideProduct(shape.annotation_bytes, kPageTokens) + kAnnotationTailBytes;
}

size_t CudaPool::BytesPerPageAndLayer(const KvShape& shape) {
  return shape.kv_head_count * HeadPageBytes(shape.head_dim) + AnnotationStride(shape);
}

Result<std::unique_ptr<KvPool>> CudaPool::Create(Device& device, const KvShape& shape, int page_count) {
  auto pool = std::make_unique<CudaPool>();
  pool->shape_ = shape;
  pool->page_count_ = page_count;
  const size_t pages = WideProduct(shape.layer_count, page_count);
  // Zeroed, so that new pages are the same in every run.
  auto tiles = device.Allocate(pages * shape.kv_head_count * HeadPageBytes(shape.head_dim), "making KV pages", true);
  if (!tiles.ok()) return tiles.error();
  pool->tiles_ = std::move(*tiles);
  if (shape.annotation_bytes > 0) {
    auto annotations = device.Allocate(pages * AnnotationStride(shape), "making KV pages", true);
    if (!annotations.ok()) return annotations.error();
    pool->annotations_ = std::move(*annotations);
  }
  return std::unique_ptr<KvPool>(std::move(pool));
}

Error CudaPool::CopyPage(Device& device, int from, int to) {
  VF_CHECK(from >= 0 && from < page_count_ && to >= 0 && to < page_count_, "no such page");
  if (Error error = device.Fault(); !error.ok()) return error;
  const auto copy = [&](unsigned char* memory, size_t page_bytes) {
    return device.Check(device.runtime().CopyOnDevice(memory + to * page_bytes, memory + from * page_bytes,
                                                      page_count_ * page_bytes, page_bytes, shape_.layer_count),
                        "copying a page");
  };
  if (Error error = copy(tiles_.as(), shape_.kv_head_count * HeadPageBytes(shape_.head_dim)); !error.ok()) return error;
  return shape_.annotation_bytes > 0 ? copy(annotations_.as(), AnnotationStride(shape_)) : Error{};
}

PoolView CudaPool::view(int layer) const {
  VF_CHECK(layer >= 0 && layer < shape_.layer_count, "no such layer");
  PoolView view;
  const size_t first_page = WideProduct(layer, page_count_);
  view.tiles = tiles_.as() + first_page * shape_.kv_head_count * HeadPageBytes(shape_.head_dim);
  view.annotation_stride = AnnotationStride(shape_);
  if (view.annotation_stride > 0) view.annotations = annotations_.as() + first_page * AnnotationStride(shape_);
  view.kv_head_count = shape_.kv_head_count;
  view.head_dim = shape_.head_dim;
  return view;
}

}  // namespace varifocal::kernels::cuda

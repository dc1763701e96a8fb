// Buffers in host memory, for the backends that compute on the CPU, and their flat view of a batch.
//
// Threads: plain values; access to a buffer's bytes is synchronized by the caller.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/wide_product.h"
#include "kernels/backend.h"

namespace varifocal::kernels {

// Cache lines are 64 bytes, and so is the widest vector.
inline constexpr size_t kHostAlignment = 64;

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

template <typename T>
using AlignedArray = std::unique_ptr<T[], FreeDeleter>;

// Zeroed array of `count`, aligned to 64 bytes; null when out of memory.
template <typename T>
AlignedArray<T> AllocateAligned(size_t count) {
  const size_t bytes = (count * sizeof(T) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  void* memory = std::aligned_alloc(kHostAlignment, bytes == 0 ? kHostAlignment : bytes);
  if (memory != nullptr) std::memset(memory, 0, bytes);
  return AlignedArray<T>(static_cast<T*>(memory));
}

Error OutOfHostMemory(const char* what, size_t bytes);

class HostBuffer final : public Buffer {
 public:
  static Result<std::unique_ptr<Buffer>> Create(size_t bytes);
  size_t bytes() const override { return bytes_; }
  char* data() { return data_.get(); }

 private:
  HostBuffer(AlignedArray<char> data, size_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  AlignedArray<char> data_;
  size_t bytes_;
};

// The `count` elements a slice starts with; checks that they lie inside the buffer.
template <typename T>
T* HostData(const Slice& slice, size_t count) {
  auto* buffer = static_cast<HostBuffer*>(slice.buffer);
  VF_CHECK(buffer != nullptr, "a required slice is null");
  VF_CHECK(slice.offset_bytes <= buffer->bytes() && count * sizeof(T) <= buffer->bytes() - slice.offset_bytes,
           "a slice ends outside its buffer");
  return reinterpret_cast<T*>(buffer->data() + slice.offset_bytes);
}

// The same, or null for an optional slice that is absent.
template <typename T>
T* OptionalHostData(const Slice& slice, size_t count) {
  return slice.buffer == nullptr ? nullptr : HostData<T>(slice, count);
}

// A batch, row by row.
struct FlatBatch {
  Batch batch;
  std::vector<int32_t> row_sequences;  // [T]
  std::vector<int32_t> row_positions;  // [T]
  std::vector<int32_t> first_rows;     // [sequences + 1]
  int row_count() const { return row_positions.size(); }
  void Reserve(const StepShape& shape);
  // kInvalidArgument when the batch is larger than the shape or violates the rules of Batch.
  Error Assign(const Batch& from, const StepShape& shape);
};

// The page that holds a position of a sequence.
inline int32_t PageOf(const SequenceRows& sequence, int page_group, int32_t position) {
  return sequence.page_tables[page_group][position / kPageTokens];
}

bool IsCancelled(const Batch& batch);
// kInvalidArgument when a sequence has only a part of its prompt in the batch.
Error CheckWholePrompts(const Batch& batch, const char* what);
// kInvalidArgument when `mean` needs the whole prompt and a sequence has only a part of it in the batch.
Error CheckTauRows(const Batch& batch, TauMean mean);
Error CancelledError();
MemoryInfo HostMemory();
std::string CpuModelName();

// One f32 vector, widened.
Result<std::unique_ptr<Buffer>> CreateHostVector(const HostMatrix& vector);
// Rows of all parts; kInvalidArgument when the columns differ or a part is empty.
Result<int64_t> StackedRows(std::span<const HostMatrix> parts, WeightUse use);
// The part that holds stacked row `row`, and the row inside it.
std::pair<const HostMatrix*, int64_t> StackedRow(std::span<const HostMatrix> parts, int64_t row);

// The stacked rows [first, first + count), as parts.
std::vector<HostMatrix> PartsOfRows(std::span<const HostMatrix> parts, int64_t first, int64_t count);
// Rows of each expert; kInvalidArgument where the stack does not divide, as StackedRows.
Result<int64_t> RowsOfExpert(std::span<const HostMatrix> parts, int expert_count, WeightUse use);

// A rope table in host memory.
class HostRopeTable final : public RopeTable {
 public:
  static Result<std::unique_ptr<RopeTable>> Create(const RopeTableSpec& spec);
  int position_count() const override { return position_count_; }
  int rotary_dim() const override { return rotary_dim_; }
  const float* cosines(int position) const { return cosines_.data() + WideProduct(position, rotary_dim_ / 2); }
  const float* sines(int position) const { return sines_.data() + WideProduct(position, rotary_dim_ / 2); }

 private:
  std::vector<float> cosines_, sines_;
  int position_count_ = 0, rotary_dim_ = 0;
};

// A row's draw, from the logits in its slot.
DrawnToken DrawFromSlot(const LmHeadArgs& args, const HeadRow& row, int64_t vocab);

}  // namespace varifocal::kernels

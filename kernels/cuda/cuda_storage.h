// Persistent device objects of the CUDA backend: buffers, weights, KV pools, workspaces, and their memory.
//
// CudaStorage is the half of the backend that opens the device, creates these and copies data; the operations of a
// step, which launch kernels, are the other half (cuda_backend.cc).
//
// Errors:  kUnsupported for a device that is too old and a head dim without a kernel; the device's, see device_error.h.
// Threads: as in Backend. What a function creates or writes is complete when it returns; Zero and CopyPage are queued.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/attention_choice.h"
#include "kernels/cuda/decode_choice.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/product_choice.h"

namespace varifocal::kernels::cuda {

class CudaStorage : public Backend {
 public:
  CudaStorage(std::unique_ptr<Runtime> runtime, const BackendOptions& options);
  Error Open(int index);
  Device& device() { return device_; }
  const ProductChoice& product_choice() const { return product_choice_; }

  const BackendInfo& info() const override { return info_; }
  DType operand_dtype() const override { return DType::kBF16; }
  Error Fault() const override { return device_.Fault(); }
  MemoryInfo memory() const override;

  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  Error Write(Slice to, const void* from, size_t bytes) override;
  Error Read(void* to, Slice from, size_t bytes) override;
  Error Zero(Slice slice, size_t bytes) override;

  Result<std::unique_ptr<Buffer>> CreateVector(const HostMatrix& vector) override;
  Result<std::unique_ptr<Weight>> CreateWeight(std::span<const HostMatrix> parts, WeightUse use) override;
  Result<std::unique_ptr<Weight>> CreateExperts(std::span<const HostMatrix> parts, int expert_count,
                                                WeightUse use) override;
  Result<std::unique_ptr<RopeTable>> CreateRopeTable(const RopeTableSpec& spec) override;

  Error CheckShape(const KvShape& shape) const override;
  size_t KvBytesPerPageAndLayer(const KvShape& shape) const override;
  Result<std::unique_ptr<KvPool>> CreateKvPool(const KvShape& shape, int page_count) override;
  Error CopyPage(KvPool& pool, int from, int to) override;
  Error ReadPage(const KvPool& pool, int layer, int page, int row_count, float* keys, float* values) override;
  Error ReadGroups(const KvPool& pool, int layer, std::span<const int32_t> pages, int annotation_offset,
                   std::span<uint32_t> groups) override;

  size_t WorkspaceBytes(const StepShape& shape) const override;
  Result<std::unique_ptr<Workspace>> CreateWorkspace(const StepShape& shape) override;

 protected:
  mutable Device device_;
  const bool graphs_;
  AttentionChoice attention_;  // from Open on, as
  ProductChoice product_choice_;
  DecodeChoice decode_;

 private:
  // A new object, complete: the stream that filled it is this thread's, and another's step may use it.
  template <typename Made>
  Made Finished(Made made) {
    if (!made.ok()) return made;
    if (Error error = device_.Synchronize(); !error.ok()) return error;
    return made;
  }

  const std::string attention_kernel_, product_kernel_, decode_kernels_;
  cpu::ThreadPool threads_;
  BackendInfo info_;
};

}  // namespace varifocal::kernels::cuda

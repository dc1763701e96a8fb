// Layers with a recurrent state on the device: pages of states, and their rows in a step (recurrence_kernels.cu).
//
// Shapes:  a page of a layer is one state, f32 (kernels/recurrence.h).
// Errors:  kUnsupported for keys wider than a kernel has registers for.
// Threads: one step at a time; different pages of a pool may be written at the same time.
#pragma once

#include "kernels/cuda/cuda_workspace.h"
#include "kernels/state_pool.h"

namespace varifocal::kernels::cuda {

Error CheckStates(const RecurrenceShape& shape);

class CudaStatePool final : public KvPool {
 public:
  CudaStatePool(const KvShape& shape, int page_count)
      : shape_(shape.recurrence), rows_(shape.layer_count, page_count) {}
  static size_t BytesPerPageAndLayer(const KvShape& shape) { return shape.recurrence.state_numbers() * sizeof(float); }
  static Result<std::unique_ptr<KvPool>> Create(Device& device, const KvShape& shape, int page_count);
  int page_count() const override { return rows_.page_count(); }
  size_t bytes() const override { return memory_.bytes(); }
  const RecurrenceShape& shape() const { return shape_; }
  float* states(int layer) const { return memory_.as<float>() + rows_.At(layer, 0) * shape_.state_numbers(); }
  StateRows& rows() { return rows_; }
  // Page `to` becomes page `from`, in all layers.
  Error CopyPage(Device& device, int from, int to);

 private:
  RecurrenceShape shape_;
  StateRows rows_;
  DeviceMemory memory_;
};

// Numbers of scratch that a step of so many rows takes.
size_t RecurrenceScratchNumbers(const RecurrenceShape& shape, int64_t rows);

Error RunRecurrence(Device& device, CudaWorkspace& workspace, const RecurArgs& args);

}  // namespace varifocal::kernels::cuda

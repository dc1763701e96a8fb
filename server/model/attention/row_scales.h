// Softmax scales of rows that the host computes: a buffer with a slice per layer, because a step that is queued as one
// graph runs after all writes. Layers with equal scales share the slice of the first, as a write waits for the device.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace varifocal {

class RowScales {
 public:
  static size_t BytesNeeded(int64_t layer_count, int64_t row_count_max);
  static absl::StatusOr<RowScales> Create(kernels::Backend& backend, int64_t layer_count, int64_t row_count_max);

  void BeginStep() { written_.clear(); }
  // f32 [row_count_max], of the layer alone.
  kernels::Slice OfLayer(int64_t layer) const;
  // `scales`, one per row of the step, on the backend.
  absl::StatusOr<kernels::Slice> Write(kernels::Backend& backend, int64_t layer, std::vector<float> scales);

 private:
  std::unique_ptr<kernels::Buffer> buffer_;
  int64_t row_count_max_ = 0;
  std::vector<std::pair<std::vector<float>, kernels::Slice>> written_;  // in this step
};

}  // namespace varifocal

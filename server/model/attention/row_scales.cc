#include "server/model/attention/row_scales.h"

#include "base/status_macros.h"
#include "base/wide_product.h"
#include "server/model/kernel_status.h"

namespace varifocal {

size_t RowScales::BytesNeeded(int64_t layer_count, int64_t row_count_max) {
  return WideProduct(layer_count, row_count_max) * sizeof(float);
}

absl::StatusOr<RowScales> RowScales::Create(kernels::Backend& backend, int64_t layer_count, int64_t row_count_max) {
  RowScales scales;
  scales.row_count_max_ = row_count_max;
  ASSIGN_OR_RETURN(scales.buffer_, ToStatusOr(backend.Allocate(BytesNeeded(layer_count, row_count_max))));
  return scales;
}

kernels::Slice RowScales::OfLayer(int64_t layer) const {
  return {buffer_.get(), WideProduct(layer, row_count_max_) * sizeof(float)};
}

absl::StatusOr<kernels::Slice> RowScales::Write(kernels::Backend& backend, int64_t layer, std::vector<float> scales) {
  for (const auto& [values, slice] : written_) {
    if (values == scales) return slice;
  }
  const kernels::Slice slice = OfLayer(layer);
  RETURN_IF_ERROR(ToStatus(backend.Write(slice, scales.data(), scales.size() * sizeof(float))));
  written_.emplace_back(std::move(scales), slice);
  return slice;
}

}  // namespace varifocal

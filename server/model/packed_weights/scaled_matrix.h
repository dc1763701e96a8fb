// A matrix of one number for each element, times scales: of the whole, of rows, of groups of columns, or of blocks.
//
// Shapes:  values [.., N, K] seen as [rows, K]; scales as below.
// Threads: plain values.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/weight_source.h"

namespace varifocal {

// Scale of element (row, column): scales[(row / block_rows) * columns + column / block_columns], in each matrix of a stack.
struct ScaleLayout {
  int64_t matrix_rows = 1;    // N, of one matrix
  int64_t block_rows = 1;     // rows that share a scale; at least N for one scale of all rows
  int64_t block_columns = 1;  // columns that share one
  int64_t scale_rows = 1;     // of one matrix
  int64_t scale_columns = 1;

  int64_t RowOf(int64_t row) const { return row / matrix_rows * scale_rows + row % matrix_rows / block_rows; }
};

// The layout of `scale` for a matrix [.., N, K]: one number; [N] or [N, 1]; with `block` [ceil(N / b0), ceil(K / b1)]; else
// a grid that divides both sides. Errors name both shapes.
absl::StatusOr<ScaleLayout> LayoutOf(const TensorView& scale, const std::vector<int64_t>& shape,
                                     std::optional<std::pair<int64_t, int64_t>> block);

// values times scales, in f32: of row `row`, in place.
void ScaleRow(const TensorView& scale, const ScaleLayout& layout, int64_t row, int64_t columns, float* values);

}  // namespace varifocal

#include "server/model/packed_weights/scaled_matrix.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {
namespace {

int64_t CeilOfQuotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<ScaleLayout> LayoutOf(const TensorView& scale, const std::vector<int64_t>& shape,
                                     std::optional<std::pair<int64_t, int64_t>> block) {
  const int64_t columns = shape.back();
  ScaleLayout layout{.matrix_rows = shape[shape.size() - 2]};
  const int64_t rows = layout.matrix_rows;
  const std::vector<int64_t> stack(shape.begin(), shape.end() - 2);
  const auto has_shape = [&](int64_t scale_rows, int64_t scale_columns) {
    std::vector<int64_t> expected = stack;
    expected.insert(expected.end(), {scale_rows, scale_columns});
    return scale.shape == expected;
  };
  if (block.has_value()) {
    layout.block_rows = block->first;
    layout.block_columns = block->second;
    layout.scale_rows = CeilOfQuotient(rows, block->first);
    layout.scale_columns = CeilOfQuotient(columns, block->second);
    if (has_shape(layout.scale_rows, layout.scale_columns)) return layout;
  }
  layout.scale_rows = layout.scale_columns = 1;
  layout.block_columns = columns;
  if ((scale.element_count() == 1 && stack.empty()) || has_shape(1, 1)) {
    layout.block_rows = rows;
    return layout;
  }
  layout.block_rows = 1;
  layout.scale_rows = rows;
  if (has_shape(rows, 1) || (stack.empty() && scale.shape == std::vector<int64_t>{rows})) return layout;
  // Without a stated size the grid of scales divides the matrix evenly.
  const bool is_grid = scale.shape.size() == shape.size();
  const int64_t grid_rows = is_grid ? scale.shape[shape.size() - 2] : 0, groups = is_grid ? scale.shape.back() : 0;
  if (!block.has_value() && grid_rows > 0 && groups > 0 && has_shape(grid_rows, groups) && rows % grid_rows == 0 &&
      columns % groups == 0) {
    layout.scale_rows = grid_rows;
    layout.block_rows = rows / grid_rows;
    layout.scale_columns = groups;
    layout.block_columns = columns / groups;
    return layout;
  }
  const std::string of_blocks =
      block.has_value()
          ? absl::StrCat(", or for blocks of ", block->first, " x ", block->second, " [",
                         CeilOfQuotient(rows, block->first), ", ", CeilOfQuotient(columns, block->second), "]")
          : "";
  return ShapeError(scale, absl::StrCat("for a matrix ", ShapeToString(shape), " one number, [", rows, "] or [", rows,
                                        ", 1]", of_blocks));
}

void ScaleRow(const TensorView& scale, const ScaleLayout& layout, int64_t row, int64_t columns, float* values) {
  const int64_t first = layout.RowOf(row) * layout.scale_columns;
  for (int64_t group = 0; group < layout.scale_columns; ++group) {
    float factor;
    Widen(scale, first + group, 1, &factor);
    const int64_t end = std::min(columns, (group + 1) * layout.block_columns);
    for (int64_t i = group * layout.block_columns; i < end; ++i) values[i] *= factor;
  }
}

}  // namespace varifocal

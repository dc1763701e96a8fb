#include "server/model/matrix_grid.h"

#include "base/check.h"

namespace varifocal {

std::vector<float> MatrixGrid::Values() const {
  std::vector<float> values(rows * columns);
  for (const auto& [from, row, column] : pieces) {
    VF_CHECK(row + from.rows <= rows && column + from.columns <= columns, "a piece is inside its grid");
    for (int64_t r = 0; r < from.rows; ++r) {
      float* to = values.data() + (row + r) * columns + column;
      if (from.data == nullptr) {
        to[r] = 1;
      } else {
        kernels::WidenRow(from, r, to);
      }
    }
  }
  return values;
}

}  // namespace varifocal

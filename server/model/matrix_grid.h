// A matrix that is put together from pieces of stored ones; what they leave free is zero.
//
// Shapes:  pieces do not overlap and lie inside.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace varifocal {

struct MatrixGrid {
  struct Piece {
    kernels::HostMatrix from;  // without data: ones on its diagonal
    int64_t row = 0, column = 0;
  };
  int64_t rows = 0, columns = 0;
  std::vector<Piece> pieces;

  std::vector<float> Values() const;  // [rows, columns]; f32 holds the values of all types
};

}  // namespace varifocal

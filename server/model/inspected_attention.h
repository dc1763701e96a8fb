// The attention of a query row, or the mean over some rows, in every layer.
#pragma once

#include <vector>

#include "kernels/attention_statistics.h"

namespace varifocal {

struct InspectedAttention {
  std::vector<kernels::HeadAttention> heads;  // [layers, H]
  std::vector<double> masses;                 // [layers, H, segments], shares of the weight of the row's head
};

}  // namespace varifocal

// The stored tensors of a layer with a recurrent state, and their rows in the order of kernels/recurrence.h.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "server/model/architectures.h"
#include "server/model/tensor_loader.h"

namespace varifocal {

// Rows of a stored matrix, or elements of its bias.
struct NamedRows {
  const char* name;
  int64_t count;
};

// Rows [first, first + count) of one of a stack's tensors.
struct RowRange {
  int64_t tensor = 0, first = 0, count = 0;
};

struct RecurrenceTensors {
  std::vector<NamedRows> inputs;        // of the product that computes a row of x
  std::vector<RowRange> input_order;    // a row of x; empty: as they are stored
  std::vector<RowRange> channel_order;  // the channels of a row of x, among those of the convolution's tensor
};

RecurrenceTensors RecurrenceTensorsOf(const RecurrenceNames& names, const kernels::RecurrenceShape& shape);

// Puts the rows of a stack of whole tensors into an order. A stack that lacks a tensor stays as it is.
void PutInOrder(const std::vector<RowRange>& order, Stack& stack);
// The same of a convolution [channels, 1, W], as [W, channels].
void PutChannelsInOrder(const std::vector<RowRange>& order, int64_t conv_width, Stack& stack);

// Of a state space, what the weights of each channel are multiplied with in place of its inputs; empty where it is 1.
std::vector<float> ChannelMultipliers(const kernels::RecurrenceShape& shape, const StateSpaceMultipliers& multipliers);

}  // namespace varifocal

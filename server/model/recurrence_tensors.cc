#include "server/model/recurrence_tensors.h"

#include <algorithm>

namespace varifocal {
namespace {

using kernels::RecurrenceKind;
using kernels::RecurrenceShape;

// Stored are, of two tensors, for each key head: q, k, v and z; b and a.
std::vector<RowRange> ByKeyHead(const RecurrenceShape& shape) {
  const int64_t key_heads = shape.key_head_count, dk = shape.key_dim;
  const int64_t shared = shape.value_head_count / key_heads, values = shared * shape.value_dim;
  std::vector<RowRange> order;
  const auto add = [&](int64_t tensor, int64_t of_head, int64_t first, int64_t count) {
    for (int64_t head = 0; head < key_heads; ++head) order.push_back({tensor, head * of_head + first, count});
  };
  const int64_t of_head = 2 * (dk + values);
  add(0, of_head, 0, dk);
  add(0, of_head, dk, dk);
  add(0, of_head, 2 * dk, values);
  add(0, of_head, 2 * dk + values, values);
  add(1, 2 * shared, 0, shared);
  add(1, 2 * shared, shared, shared);
  return order;
}

}  // namespace

RecurrenceTensors RecurrenceTensorsOf(const RecurrenceNames& names, const RecurrenceShape& shape) {
  const int64_t channels = shape.channel_count(), keys = shape.key_width(), values = shape.value_width();
  const int64_t heads = shape.value_head_count;
  RecurrenceTensors tensors{.inputs = {}, .input_order = {}, .channel_order = {{0, 0, channels}}};
  if (shape.kind == RecurrenceKind::kConvolution) {
    tensors.inputs = {{names.inputs[0], shape.input_width()}};
  } else if (shape.kind == RecurrenceKind::kStateSpace) {
    // Stored are z, then the channels u, B and C, then d.
    tensors.inputs = {{names.inputs[0], shape.input_width()}};
    tensors.channel_order = {{0, values + keys, keys}, {0, values, keys}, {0, 0, values}};
    for (RowRange range : tensors.channel_order) {
      range.first += values;
      tensors.input_order.push_back(range);
    }
    tensors.input_order.push_back({0, 0, values});
    tensors.input_order.push_back({0, values + channels, heads});
  } else if (names.inputs_by_key_head[0] != nullptr) {
    tensors.inputs = {{names.inputs_by_key_head[0], 2 * (keys + values)}, {names.inputs_by_key_head[1], 2 * heads}};
    tensors.input_order = ByKeyHead(shape);
  } else {
    tensors.inputs = {
        {names.inputs[0], channels}, {names.inputs[1], values}, {names.inputs[2], heads}, {names.inputs[3], heads}};
  }
  return tensors;
}

std::vector<float> ChannelMultipliers(const RecurrenceShape& shape, const StateSpaceMultipliers& multipliers) {
  const auto& [z, u, b, c, step] = multipliers;
  if (shape.kind != RecurrenceKind::kStateSpace || (u == 1 && b == 1 && c == 1)) return {};
  std::vector<float> factors(shape.key_width(), static_cast<float>(c));
  factors.insert(factors.end(), shape.key_width(), static_cast<float>(b));
  factors.insert(factors.end(), shape.value_width(), static_cast<float>(u));
  return factors;
}

void PutInOrder(const std::vector<RowRange>& order, Stack& stack) {
  const auto lacks = [&](const RowRange& range) { return range.tensor >= std::ssize(stack.tensors); };
  if (std::any_of(order.begin(), order.end(), lacks)) return;
  for (const RowRange& range : order)
    stack.parts.push_back(RowsOf(*stack.tensors[range.tensor], range.first, range.count));
}

void PutChannelsInOrder(const std::vector<RowRange>& order, int64_t conv_width, Stack& stack) {
  if (stack.tensors.empty()) return;
  for (int64_t j = 0; j < conv_width; ++j) {
    for (const RowRange& range : order) {
      kernels::HostMatrix part = RowsOf(*stack.tensors[0], range.first, range.count);
      part.data = static_cast<const char*>(part.data) + j * kernels::DTypeBytes(part.dtype);
      part.rows = 1;
      part.columns = range.count;
      part.row_stride = 1;
      part.column_stride = conv_width;
      stack.parts.push_back(part);
    }
  }
}

}  // namespace varifocal

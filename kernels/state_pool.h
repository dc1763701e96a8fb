// Pages of recurrent states in host memory (recurrence.h), and where a sequence's rows read and write them.
//
// Each state keeps the number of rows that it is the state after. A step that would continue from another row's state is
// a bug (VF_CHECK): no later comparison of results could tell it from rounding.
//
// Shapes:  [layer][page][KvShape::state_numbers], of double in the reference backend and float on CPUs.
// Threads: different pages of a layer may be written at the same time.
// Cost:    memory is committed when it is first written.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/wide_product.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels {

template <typename Number>
class StatePool final : public KvPool {
 public:
  static size_t BytesPerPageAndLayer(const KvShape& shape) { return shape.state_numbers * sizeof(Number); }
  static Result<std::unique_ptr<KvPool>> Create(const KvShape& shape, int page_count) {
    auto pool = std::make_unique<StatePool>();
    const size_t states = WideProduct(shape.layer_count, page_count);
    pool->shape_ = shape;
    pool->page_count_ = page_count;
    pool->row_counts_.assign(states, 0);
    pool->numbers_.reset(
        static_cast<Number*>(std::calloc(std::max<size_t>(states * shape.state_numbers, 1), sizeof(Number))));
    if (pool->numbers_ == nullptr) return OutOfHostMemory("the recurrent states", pool->bytes());
    return std::unique_ptr<KvPool>(std::move(pool));
  }

  int page_count() const override { return page_count_; }
  size_t bytes() const override { return row_counts_.size() * BytesPerPageAndLayer(shape_); }
  Number* state(int layer, int page) { return numbers_.get() + At(layer, page) * shape_.state_numbers; }
  size_t state_numbers() const { return shape_.state_numbers; }

  // The state that a sequence's first row continues from; null at position 0.
  const Number* StateBefore(const SequenceRows& rows, int page_group, int layer) {
    if (rows.first_position == 0) return nullptr;
    const int page = PageOf(rows, page_group, rows.first_position - 1);
    VF_CHECK(row_counts_[At(layer, page)] == rows.first_position, "a page holds the state of another row");
    return state(layer, page);
  }
  // visit(row, state) for every row of the sequence in the step whose state is kept.
  template <typename Visit>
  void EachKept(const SequenceRows& rows, int page_group, int layer, const Visit& visit) {
    for (int row = 0; row < rows.row_count; ++row) {
      const int end = rows.first_position + row + 1;
      if (end % kPageTokens != 0 && row + 1 < rows.row_count) continue;
      if (const int page = PageOf(rows, page_group, end - 1); page >= 0) visit(row, state(layer, page));
    }
  }
  // After all states of the sequence are written.
  void MarkKept(const SequenceRows& rows, int page_group, int layer) {
    EachKept(rows, page_group, layer, [&](int row, const Number* kept) {
      row_counts_[(kept - numbers_.get()) / shape_.state_numbers] = rows.first_position + row + 1;
    });
  }
  void CopyPage(int from, int to) {
    for (int layer = 0; layer < shape_.layer_count; ++layer) {
      std::copy_n(state(layer, from), shape_.state_numbers, state(layer, to));
      row_counts_[At(layer, to)] = row_counts_[At(layer, from)];
    }
  }

 private:
  size_t At(int layer, int page) const {
    VF_CHECK(layer >= 0 && layer < shape_.layer_count && page >= 0 && page < page_count_, "no such page");
    return WideProduct(layer, page_count_) + page;
  }

  KvShape shape_;
  int page_count_ = 0;
  std::vector<int32_t> row_counts_;  // [layer][page]
  std::unique_ptr<Number[], FreeDeleter> numbers_;
};

// The tail of the inputs of a sequence's convolution after its row `row` of the step: from its rows `x` (row 0 on, `stride`
// apart), and before these from `before`, or zeros. `to` may be `before` only in the last call of a step.
template <typename Number, typename X>
void KeepTail(const RecurrenceShape& shape, const Number* before, const X& input, int row, Number* to) {
  const int channels = shape.channel_count(), tail = shape.conv_width - 1;
  for (int j = 0; j < tail; ++j, to += channels) {
    const int from = row - (tail - 1) + j;  // row of the step
    for (int c = 0; c < channels; ++c) {
      // Rising j reads ever later inputs of `before`, so that it may be overwritten.
      to[c] = from >= 0 ? input(from, c) : before != nullptr ? before[WideProduct(tail + from, channels) + c] : 0;
    }
  }
}

}  // namespace varifocal::kernels

// Pages of recurrent states (recurrence.h): where a sequence's rows read and write them, and their memory on a host.
//
// Each state keeps the number of rows that it is the state after. A step that would continue from another row's state is
// a bug (VF_CHECK): no later comparison of results could tell it from rounding.
//
// Shapes:  [layer][page][state numbers], of double in the reference backend and float in the others.
// Threads: different pages of a layer may be written at the same time.
// Cost:    memory on a host is committed when it is first written.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/wide_product.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels {

// The rows that the states of a pool are those after.
class StateRows {
 public:
  StateRows(int layer_count, int page_count)
      : layer_count_(layer_count), page_count_(page_count), row_counts_(WideProduct(layer_count, page_count), 0) {}

  int layer_count() const { return layer_count_; }
  int page_count() const { return page_count_; }
  size_t state_count() const { return row_counts_.size(); }
  // Which of all states is a page's in a layer.
  size_t At(int layer, int page) const {
    VF_CHECK(layer >= 0 && layer < layer_count_ && page >= 0 && page < page_count_, "no such page");
    return WideProduct(layer, page_count_) + page;
  }

  // The page whose state a sequence's first row continues from; -1 at position 0.
  int PageBefore(const SequenceRows& rows, int page_group, int layer) const {
    if (rows.first_position == 0) return -1;
    const int page = PageOf(rows, page_group, rows.first_position - 1);
    VF_CHECK(row_counts_[At(layer, page)] == rows.first_position, "a page holds the state of another row");
    return page;
  }
  // visit(row, page) for every row of the sequence in the step whose state is kept.
  template <typename Visit>
  static void EachKept(const SequenceRows& rows, int page_group, const Visit& visit) {
    for (int row = 0; row < rows.row_count; ++row) {
      const int end = rows.first_position + row + 1;
      if (end % kPageTokens != 0 && row + 1 < rows.row_count) continue;
      if (const int page = PageOf(rows, page_group, end - 1); page >= 0) visit(row, page);
    }
  }
  // After all states of the sequence are written, or queued to be.
  void MarkKept(const SequenceRows& rows, int page_group, int layer) {
    EachKept(rows, page_group,
             [&](int row, int page) { row_counts_[At(layer, page)] = rows.first_position + row + 1; });
  }
  void CopyPage(int from, int to) {
    for (int layer = 0; layer < layer_count_; ++layer) row_counts_[At(layer, to)] = row_counts_[At(layer, from)];
  }

 private:
  int layer_count_ = 0, page_count_ = 0;
  std::vector<int32_t> row_counts_;  // [layer][page]
};

template <typename Number>
class StatePool final : public KvPool {
 public:
  StatePool(const KvShape& shape, int page_count)
      : state_numbers_(shape.recurrence.state_numbers()), rows_(shape.layer_count, page_count) {}
  static size_t BytesPerPageAndLayer(const KvShape& shape) { return shape.recurrence.state_numbers() * sizeof(Number); }
  static Result<std::unique_ptr<KvPool>> Create(const KvShape& shape, int page_count) {
    auto pool = std::make_unique<StatePool>(shape, page_count);
    pool->numbers_.reset(static_cast<Number*>(std::calloc(std::max<size_t>(pool->bytes(), 1), 1)));
    if (pool->numbers_ == nullptr) return OutOfHostMemory("the recurrent states", pool->bytes());
    return std::unique_ptr<KvPool>(std::move(pool));
  }

  int page_count() const override { return rows_.page_count(); }
  size_t bytes() const override { return rows_.state_count() * state_numbers_ * sizeof(Number); }
  Number* state(int layer, int page) { return numbers_.get() + rows_.At(layer, page) * state_numbers_; }
  size_t state_numbers() const { return state_numbers_; }

  // The state that a sequence's first row continues from; null at position 0.
  const Number* StateBefore(const SequenceRows& rows, int page_group, int layer) {
    const int page = rows_.PageBefore(rows, page_group, layer);
    return page < 0 ? nullptr : state(layer, page);
  }
  // visit(row, state) for every row of the sequence in the step whose state is kept.
  template <typename Visit>
  void EachKept(const SequenceRows& rows, int page_group, int layer, const Visit& visit) {
    StateRows::EachKept(rows, page_group, [&](int row, int page) { visit(row, state(layer, page)); });
  }
  void MarkKept(const SequenceRows& rows, int page_group, int layer) { rows_.MarkKept(rows, page_group, layer); }
  void CopyPage(int from, int to) {
    for (int layer = 0; layer < rows_.layer_count(); ++layer) {
      std::copy_n(state(layer, from), state_numbers_, state(layer, to));
    }
    rows_.CopyPage(from, to);
  }

 private:
  size_t state_numbers_ = 0;
  StateRows rows_;
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

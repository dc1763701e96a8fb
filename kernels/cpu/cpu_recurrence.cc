#include "kernels/cpu/cpu_recurrence.h"

#include <algorithm>
#include <cmath>

#include "kernels/state_pool.h"

namespace varifocal::kernels::cpu {
namespace {

constexpr int kRowsOfItem = 16;

// One step's layer: the sizes and pointers that its phases share.
class RecurrenceRun {
 public:
  RecurrenceRun(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const RecurArgs& args)
      : kernels_(kernels),
        threads_(pool),
        own_(workspace),
        args_(args),
        shape_(args.shape),
        flat_(workspace.flat),
        states_(static_cast<StatePool<float>&>(*args.pool)),
        has_matrices_(args.shape.has_matrices()),
        is_delta_(args.shape.kind == RecurrenceKind::kDeltaRule) {
    VF_CHECK(own_.shape.recurrence.channel_count() == shape_.channel_count() &&
                 own_.shape.recurrence.value_head_count == shape_.value_head_count,
             "the workspace was planned for this layer");
    VF_CHECK(shape_.conv_width <= kConvolutionMax && states_.state_numbers() == shape_.state_numbers(),
             "the pool was made for this layer");
    x_ = HostData<float>(args.x, WideProduct(flat_.row_count(), shape_.input_width()));
    out_ = HostData<float>(args.out, WideProduct(flat_.row_count(), shape_.value_width()));
  }

  bool Run() {
    const bool finished = has_matrices_ ? Mix() && StepHeads() && Finish() : Multiply() && Mix();
    if (!finished) return false;
    for (size_t s = 0; s < sequences().size(); ++s) KeepTails(s);
    return true;
  }

 private:
  std::span<const SequenceRows> sequences() const { return flat_.batch.sequences; }
  const float* X(int row) const { return x_ + WideProduct(row, shape_.input_width()); }
  float* OutOf(int row) const { return out_ + WideProduct(row, shape_.value_width()); }
  float* Mixed(int row) const { return own_.recurrence.mixed.get() + WideProduct(row, shape_.channel_count()); }
  float* Gates(int row) const { return own_.recurrence.gates.get() + WideProduct(row, 2 * shape_.value_head_count); }
  // What the convolution reads of a row.
  const float* Inputs(int row) const { return has_matrices_ ? X(row) : Mixed(row); }
  const float* StateBefore(size_t s) const {
    return states_.StateBefore(sequences()[s], args_.page_group, args_.layer);
  }

  template <typename Item>
  bool EachRow(const Item& item) {
    const int rows = flat_.row_count();
    return threads_.Run(PoolWork::kRows, (rows + kRowsOfItem - 1) / kRowsOfItem, flat_.batch.cancelled,
                        [&](int index, int) {
                          const int end = std::min(rows, (index + 1) * kRowsOfItem);
                          for (int row = index * kRowsOfItem; row < end; ++row) item(row);
                        });
  }

  bool Multiply() {
    const int width = shape_.value_dim;
    return EachRow([&](int row) {
      const float *b = X(row), *u = b + 2 * width;
      for (int c = 0; c < width; ++c) Mixed(row)[c] = b[c] * u[c];
    });
  }

  bool Mix() {
    const float* weights = HostData<float>(args_.conv, WideProduct(shape_.conv_width, shape_.channel_count()));
    const float* bias =
        args_.conv_bias.buffer == nullptr ? nullptr : HostData<float>(args_.conv_bias, shape_.channel_count());
    return EachRow([&](int row) {
      const int sequence = flat_.row_sequences[row], first = flat_.first_rows[sequence], width = shape_.conv_width;
      const float* inputs[kConvolutionMax];
      for (int j = 0; j < width; ++j) {
        const int from = row - (width - 1) + j;
        inputs[j] = nullptr;
        if (from >= first) {
          inputs[j] = Inputs(from);
        } else if (const float* tail = StateBefore(sequence); tail != nullptr) {
          inputs[j] = tail + WideProduct(width - 1 + from - first, shape_.channel_count());
        }
      }
      kernels_.convolve_row({.inputs = inputs,
                             .width = width,
                             .weights = weights,
                             .bias = bias,
                             .channel_count = shape_.channel_count(),
                             .silu = has_matrices_,
                             .out = has_matrices_ ? Mixed(row) : OutOf(row)});
      if (has_matrices_) {
        if (is_delta_) NormalizeKeys(row);
        ComputeGates(row);
        return;
      }
      const float* factors = X(row) + shape_.value_dim;
      for (int c = 0; c < shape_.value_dim; ++c) OutOf(row)[c] *= factors[c];
    });
  }

  void NormalizeKeys(int row) const {
    const int dim = shape_.key_dim;
    float* head = Mixed(row);
    for (int h = 0; h < 2 * shape_.key_head_count; ++h, head += dim) {
      float scale = 1.0f / std::sqrt(kernels_.dot(head, head, dim) + 1e-6f);
      if (h < shape_.key_head_count) scale /= std::sqrt(static_cast<float>(dim));
      for (int i = 0; i < dim; ++i) head[i] *= scale;
    }
  }

  // In float64: a decay near 1 is the power of thousands of rows.
  void ComputeGates(int row) const {
    const int heads = shape_.value_head_count;
    const float* b = X(row) + shape_.channel_count() + shape_.value_width();
    const float* steps = is_delta_ ? b + heads : b;
    const float *logs = HostData<float>(args_.decay_log, heads), *biases = HostData<float>(args_.decay_bias, heads);
    for (int h = 0; h < heads; ++h) {
      const double a = static_cast<double>(args_.step_multiplier) * steps[h] + biases[h];
      const double softplus = std::max<double>(a > 20 ? a : std::log1p(std::exp(a)), shape_.step_min);
      Gates(row)[2 * h] = static_cast<float>(std::exp(-std::exp(static_cast<double>(logs[h])) * softplus));
      Gates(row)[2 * h + 1] = static_cast<float>(is_delta_ ? 1 / (1 + std::exp(-static_cast<double>(b[h]))) : softplus);
    }
  }

  bool StepHeads() {
    const int blocks = (shape_.value_dim + kDeltaColumns - 1) / kDeltaColumns;
    const int of_sequence = shape_.value_head_count * blocks;
    // An item is not cut short: its rows are one chain.
    return threads_.Run(PoolWork::kRows, static_cast<int>(sequences().size()) * of_sequence, flat_.batch.cancelled,
                        [&](int index, int thread) {
                          const int rest = index % of_sequence;
                          StepBlock(index / of_sequence, rest / blocks, rest % blocks * kDeltaColumns,
                                    own_.scratch(thread));
                        });
  }

  void StepBlock(int s, int head, int column, float* block) const {
    const int dk = shape_.key_dim, dv = shape_.value_dim, first = flat_.first_rows[s];
    const int columns = std::min(kDeltaColumns, dv - column);
    const int key_head = head / (shape_.value_head_count / shape_.key_head_count);
    const size_t at = shape_.tail_numbers() + WideProduct(head, shape_.matrix_numbers()) + column;
    std::fill_n(block, WideProduct(dk, kDeltaColumns), 0.0f);
    if (const float* before = StateBefore(s); before != nullptr) {
      for (int i = 0; i < dk; ++i) std::copy_n(before + at + i * dv, columns, block + i * kDeltaColumns);
    }
    DeltaRows rows{.mixed_stride = static_cast<size_t>(shape_.channel_count()),
                   .query_at = key_head * dk,
                   .key_at = shape_.key_width() + key_head * dk,
                   .value_at = 2 * shape_.key_width() + head * dv + column,
                   .gate_stride = static_cast<size_t>(2 * shape_.value_head_count),
                   .key_dim = dk,
                   .reads_memory = is_delta_,
                   .columns = columns,
                   .state = block,
                   .out_stride = static_cast<size_t>(shape_.value_width())};
    int next = 0;
    const auto step_to = [&](int end) {
      rows.row_count = end - next;
      rows.mixed = Mixed(first + next);
      rows.gates = Gates(first + next) + 2 * head;
      rows.out = OutOf(first + next) + head * dv + column;
      kernels_.step_delta_rows(rows);
      next = end;
    };
    states_.EachKept(sequences()[s], args_.page_group, args_.layer, [&](int row, float* kept) {
      step_to(row + 1);
      for (int i = 0; i < dk; ++i) std::copy_n(block + i * kDeltaColumns, columns, kept + at + i * dv);
    });
    step_to(sequences()[s].row_count);
  }

  bool Finish() {
    return EachRow([&](int row) {
      if (!is_delta_) AddSkipped(row);
      if (!shape_.gate_first) NormGroups(row);
      kernels_.gate_row({.gate = X(row) + shape_.channel_count(),
                         .count = shape_.value_width(),
                         .form = GateForm::kSilu,
                         .multiplier = args_.gate_multiplier,
                         .x = OutOf(row)});
      if (shape_.gate_first) NormGroups(row);
    });
  }

  void AddSkipped(int row) const {
    const float* skip = HostData<float>(args_.skip, shape_.value_head_count);
    const float* u = Mixed(row) + 2 * shape_.key_width();
    float* out = OutOf(row);
    for (int h = 0; h < shape_.value_head_count; ++h) {
      for (int j = 0; j < shape_.value_dim; ++j, ++u, ++out) *out += skip[h] * *u;
    }
  }

  void NormGroups(int row) const {
    if (shape_.norm_group_count == 0) return;
    const int width = shape_.value_width() / shape_.norm_group_count;
    const float* weight = HostData<float>(args_.norm, shape_.value_width());
    float* x = OutOf(row);
    for (int g = 0; g < shape_.norm_group_count; ++g, x += width, weight += width) {
      kernels_.norm_row({.x = x, .weight = weight, .width = width, .epsilon = args_.norm_epsilon, .out = x});
    }
  }

  // After all rows were convolved: the tail before them may be in a page that is written.
  void KeepTails(size_t s) {
    float* before = nullptr;
    if (const float* state = StateBefore(s); state != nullptr) {
      before = own_.recurrence.tail.get();
      std::copy_n(state, shape_.tail_numbers(), before);
    }
    const int first = flat_.first_rows[s];
    states_.EachKept(sequences()[s], args_.page_group, args_.layer, [&](int row, float* kept) {
      KeepTail(
          shape_, before, [&](int r, int c) { return Inputs(first + r)[c]; }, row, kept);
    });
    states_.MarkKept(sequences()[s], args_.page_group, args_.layer);
  }

  const KernelTable& kernels_;
  ThreadPool& threads_;
  CpuWorkspace& own_;
  const RecurArgs& args_;
  const RecurrenceShape& shape_;
  const FlatBatch& flat_;
  StatePool<float>& states_;
  const bool has_matrices_;
  const bool is_delta_;
  const float* x_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace

bool RunRecurrence(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const RecurArgs& args) {
  return RecurrenceRun(kernels, pool, workspace, args).Run();
}

}  // namespace varifocal::kernels::cpu

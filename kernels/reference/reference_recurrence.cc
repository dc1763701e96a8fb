#include "kernels/reference/reference_recurrence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/state_pool.h"

namespace varifocal::kernels {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x * Sigmoid(x); }

// One sequence of a step.
class SequenceRun {
 public:
  SequenceRun(const RecurArgs& args, const SequenceRows& rows, const float* x, float* out)
      : args_(args), shape_(args.shape), rows_(rows), x_(x), out_(out) {
    conv_ = HostData<float>(args.conv, WideProduct(shape_.conv_width, shape_.channel_count()));
    if (args.conv_bias.buffer != nullptr) conv_bias_ = HostData<float>(args.conv_bias, shape_.channel_count());
  }

  void Run() {
    auto& pool = static_cast<StatePool<double>&>(*args_.pool);
    std::vector<double> before(shape_.state_numbers(), 0.0);
    if (const double* state = pool.StateBefore(rows_, args_.page_group, args_.layer); state != nullptr) {
      std::copy_n(state, before.size(), before.data());
    }
    std::vector<double> matrices(before.begin() + shape_.tail_numbers(), before.end());
    std::vector<double> mixed(shape_.channel_count());
    int next = 0;
    const auto take = [&](int row) {
      Convolve(before.data(), row, mixed.data());
      if (!shape_.has_matrices()) {
        for (int c = 0; c < shape_.value_dim; ++c) OutOf(row)[c] = X(row)[shape_.value_dim + c] * mixed[c];
        return;
      }
      std::vector<double> out(shape_.value_width());
      for (int head = 0; head < shape_.value_head_count; ++head) {
        (is_delta() ? StepDelta(row, head, mixed, matrices, out) : StepStateSpace(row, head, mixed, matrices, out));
      }
      Finish(row, std::move(out));
    };
    pool.EachKept(rows_, args_.page_group, args_.layer, [&](int row, double* kept) {
      for (; next <= row; ++next) take(next);
      KeepTail(
          shape_, before.data(), [&](int r, int c) { return Input(r, c); }, row, kept);
      std::copy(matrices.begin(), matrices.end(), kept + shape_.tail_numbers());
    });
    for (; next < rows_.row_count; ++next) take(next);
    pool.MarkKept(rows_, args_.page_group, args_.layer);
  }

 private:
  const float* X(int row) const { return x_ + WideProduct(row, shape_.input_width()); }
  bool is_delta() const { return shape_.kind == RecurrenceKind::kDeltaRule; }
  float* OutOf(int row) const { return out_ + WideProduct(row, shape_.value_width()); }
  double Input(int row, int channel) const {
    const double x = X(row)[channel];
    return shape_.kind == RecurrenceKind::kConvolution ? x * X(row)[2 * shape_.value_dim + channel] : x;
  }

  void Convolve(const double* tail, int row, double* mixed) const {
    const int channels = shape_.channel_count(), width = shape_.conv_width;
    for (int c = 0; c < channels; ++c) {
      double sum = conv_bias_ == nullptr ? 0 : conv_bias_[c];
      for (int j = 0; j < width; ++j) {
        const int from = row - (width - 1) + j;
        sum += conv_[WideProduct(j, channels) + c] *
               (from >= 0 ? Input(from, c) : tail[WideProduct(width - 1 + from, channels) + c]);
      }
      mixed[c] = shape_.has_matrices() ? Silu(sum) : sum;
    }
  }

  // Of the key head that serves it: its part of the first channels, or of the second.
  const double* Key(int kind, int head, const std::vector<double>& mixed) const {
    const int key_head = head / (shape_.value_head_count / shape_.key_head_count);
    return mixed.data() + kind * shape_.key_width() + key_head * shape_.key_dim;
  }
  struct Step {
    double size = 0;   // softplus
    double decay = 0;  // of the state
  };
  Step StepOf(int head, double x) const {
    const int heads = shape_.value_head_count;
    const double a = x + static_cast<double>(HostData<float>(args_.decay_bias, heads)[head]);
    const double size = std::max<double>(a > 20 ? a : std::log1p(std::exp(a)), shape_.step_min);
    const double rate = std::exp(static_cast<double>(HostData<float>(args_.decay_log, heads)[head]));
    return {size, std::exp(-rate * size)};
  }

  void StepDelta(int row, int head, const std::vector<double>& mixed, std::vector<double>& matrices,
                 std::vector<double>& outs) const {
    const int dk = shape_.key_dim, dv = shape_.value_dim;
    const double *q = Key(0, head, mixed), *k = Key(1, head, mixed);
    const double* v = mixed.data() + 2 * shape_.key_width() + head * dv;
    const float* b = X(row) + shape_.channel_count() + shape_.value_width();
    const auto inverse = [&](const double* x) {
      double squares = 0;
      for (int i = 0; i < dk; ++i) squares += x[i] * x[i];
      return 1 / std::sqrt(squares + 1e-6);
    };
    const double of_q = inverse(q) / std::sqrt(dk), of_k = inverse(k);
    const double decay = StepOf(head, b[shape_.value_head_count + head]).decay;
    const double beta = Sigmoid(b[head]);
    double* s = matrices.data() + WideProduct(head, shape_.matrix_numbers());
    double* out = outs.data() + head * dv;
    for (int j = 0; j < dv; ++j) {
      double memory = 0;
      for (int i = 0; i < dk; ++i) {
        s[i * dv + j] *= decay;
        memory += s[i * dv + j] * k[i] * of_k;
      }
      const double change = beta * (v[j] - memory);
      for (int i = 0; i < dk; ++i) {
        s[i * dv + j] += k[i] * of_k * change;
        out[j] += s[i * dv + j] * q[i] * of_q;
      }
    }
  }

  void StepStateSpace(int row, int head, const std::vector<double>& mixed, std::vector<double>& matrices,
                      std::vector<double>& outs) const {
    const int dk = shape_.key_dim, dv = shape_.value_dim;
    const double *c = Key(0, head, mixed), *b = Key(1, head, mixed);
    const double* u = mixed.data() + 2 * shape_.key_width() + head * dv;
    const double d = X(row)[shape_.channel_count() + shape_.value_width() + head];
    const Step step = StepOf(head, args_.step_multiplier * d);
    const double skip = HostData<float>(args_.skip, shape_.value_head_count)[head];
    double* s = matrices.data() + WideProduct(head, shape_.matrix_numbers());
    double* out = outs.data() + head * dv;
    for (int j = 0; j < dv; ++j) {
      out[j] = skip * u[j];
      for (int i = 0; i < dk; ++i) {
        s[i * dv + j] = step.decay * s[i * dv + j] + b[i] * step.size * u[j];
        out[j] += s[i * dv + j] * c[i];
      }
    }
  }

  // Gate and norm.
  void Finish(int row, std::vector<double> out) const {
    const float* z = X(row) + shape_.channel_count();
    const auto gate = [&] {
      for (size_t j = 0; j < out.size(); ++j) out[j] *= Silu(static_cast<double>(args_.gate_multiplier) * z[j]);
    };
    if (shape_.gate_first) gate();
    if (const int groups = shape_.norm_group_count; groups > 0) {
      const float* weight = HostData<float>(args_.norm, out.size());
      const size_t width = out.size() / groups;
      for (size_t first = 0; first < out.size(); first += width) {
        double squares = 0;
        for (size_t j = first; j < first + width; ++j) squares += out[j] * out[j];
        const double scale = 1 / std::sqrt(squares / width + args_.norm_epsilon);
        for (size_t j = first; j < first + width; ++j) out[j] *= scale * weight[j];
      }
    }
    if (!shape_.gate_first) gate();
    for (size_t j = 0; j < out.size(); ++j) OutOf(row)[j] = out[j];
  }

  const RecurArgs& args_;
  const RecurrenceShape& shape_;
  const SequenceRows& rows_;
  const float* x_;
  float* out_;
  const float* conv_;
  const float* conv_bias_ = nullptr;
};

}  // namespace

Error RunReferenceRecurrence(const FlatBatch& flat, const RecurArgs& args) {
  const size_t inputs = args.shape.input_width(), outputs = args.shape.value_width();
  const float* x = HostData<float>(args.x, flat.row_count() * inputs);
  float* out = HostData<float>(args.out, flat.row_count() * outputs);
  for (size_t s = 0; s < flat.batch.sequences.size(); ++s) {
    if (IsCancelled(flat.batch)) return CancelledError();
    SequenceRun(args, flat.batch.sequences[s], x + flat.first_rows[s] * inputs, out + flat.first_rows[s] * outputs)
        .Run();
  }
  return {};
}

}  // namespace varifocal::kernels

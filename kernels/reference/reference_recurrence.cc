#include "kernels/reference/reference_recurrence.h"

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
      if (shape_.kind == RecurrenceKind::kDeltaRule) {
        for (int head = 0; head < shape_.value_head_count; ++head) StepHead(row, head, mixed, matrices);
      } else {
        for (int c = 0; c < shape_.value_dim; ++c) OutOf(row)[c] = X(row)[shape_.value_dim + c] * mixed[c];
      }
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
  float* OutOf(int row) const { return out_ + WideProduct(row, shape_.value_width()); }
  double Input(int row, int channel) const {
    const double x = X(row)[channel];
    return shape_.kind == RecurrenceKind::kConvolution ? x * X(row)[2 * shape_.value_dim + channel] : x;
  }

  void Convolve(const double* tail, int row, double* mixed) const {
    const int channels = shape_.channel_count(), width = shape_.conv_width;
    for (int c = 0; c < channels; ++c) {
      double sum = 0;
      for (int j = 0; j < width; ++j) {
        const int from = row - (width - 1) + j;
        sum += conv_[WideProduct(j, channels) + c] *
               (from >= 0 ? Input(from, c) : tail[WideProduct(width - 1 + from, channels) + c]);
      }
      mixed[c] = shape_.kind == RecurrenceKind::kDeltaRule ? Silu(sum) : sum;
    }
  }

  void StepHead(int row, int head, const std::vector<double>& mixed, std::vector<double>& matrices) const {
    const int dk = shape_.key_dim, dv = shape_.value_dim, heads = shape_.value_head_count;
    const int key_head = head / (heads / shape_.key_head_count);
    const double* q = mixed.data() + key_head * dk;
    const double* k = q + shape_.key_width();
    const double* v = mixed.data() + 2 * shape_.key_width() + head * dv;
    const float* z = X(row) + shape_.channel_count() + head * dv;
    const float* b = X(row) + shape_.channel_count() + shape_.value_width();
    const auto inverse = [&](const double* x) {
      double squares = 0;
      for (int i = 0; i < dk; ++i) squares += x[i] * x[i];
      return 1 / std::sqrt(squares + 1e-6);
    };
    const double of_q = inverse(q) / std::sqrt(dk), of_k = inverse(k);
    const double a = b[heads + head] + static_cast<double>(HostData<float>(args_.decay_bias, heads)[head]);
    const double softplus = a > 20 ? a : std::log1p(std::exp(a));
    const double decay =
        std::exp(-std::exp(static_cast<double>(HostData<float>(args_.decay_log, heads)[head])) * softplus);
    const double beta = Sigmoid(b[head]);
    double* s = matrices.data() + WideProduct(head, shape_.matrix_numbers());
    std::vector<double> out(dv);
    double squares = 0;
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
      squares += out[j] * out[j];
    }
    const float* norm = HostData<float>(args_.norm, dv);
    const double scale = 1 / std::sqrt(squares / dv + args_.norm_epsilon);
    float* to = OutOf(row) + head * dv;
    for (int j = 0; j < dv; ++j) to[j] = out[j] * scale * norm[j] * Silu(z[j]);
  }

  const RecurArgs& args_;
  const RecurrenceShape& shape_;
  const SequenceRows& rows_;
  const float* x_;
  float* out_;
  const float* conv_;
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
